// SPDX-License-Identifier: Apache-2.0
#include "probes/web/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/web/http.h"

namespace roce::probe {
namespace {

web::Response plain(int status, std::string text) {
  web::Response response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

web::Response route(std::string_view head, const std::vector<web::Route>& routes) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first || !line.substr(last + 1).starts_with("HTTP/1."))
    return plain(400, "no HTTP request\n");
  web::Request request;
  request.method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  request.path = web::path_of_target(target);
  const std::size_t mark = target.find('?');
  auto query = web::parse_query(mark == std::string_view::npos ? "" : target.substr(mark + 1));
  if (!query) return plain(400, "malformed query\n");
  request.query = std::move(*query);
  request.from_loopback = true;
  const auto found =
      std::find_if(routes.begin(), routes.end(), [&](const web::Route& r) { return r.path == request.path; });
  if (found == routes.end()) return plain(404, "not found\n");
  if (std::find(found->methods.begin(), found->methods.end(), request.method) == found->methods.end())
    return plain(405, "method not allowed\n");
  return found->handler(request);
}

std::string text_of(const web::Response& response) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     response.status, response.status < 400 ? "OK" : "Error", response.content_type,
                     response.body.size(), response.body);
}

}  // namespace

std::string control_answer(std::string_view head, const std::vector<web::Route>& routes) {
  try {
    return text_of(route(head, routes));
  } catch (const std::exception& error) {
    log::error("a request on the control socket failed", {{"err", error.what()}});
    return text_of(plain(500, "internal error\n"));
  }
}

Result<std::unique_ptr<ControlServer>> open_control(const std::string& path, std::vector<web::Route> routes) {
  ControlServer::Form form;
  form.end = "\r\n\r\n";
  form.too_long = text_of(plain(431, "the request is longer than 4096 bytes\n"));
  form.answer = [routes = std::move(routes)](std::string_view head) { return control_answer(head, routes); };
  return ControlServer::start(path, std::move(form), 1);
}

}  // namespace roce::probe

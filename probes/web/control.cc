// SPDX-License-Identifier: Apache-2.0
#include "probes/web/control.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exporter/base/log.h"
#include "exporter/web/http.h"

namespace roce::probe {
namespace {

constexpr std::size_t kMostHead = 4096;
constexpr timeval kPatience{1, 0};

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

}  // namespace

std::string control_answer(std::string_view head, const std::vector<web::Route>& routes) {
  web::Response response;
  try {
    response = route(head, routes);
  } catch (const std::exception& error) {
    log::error("a request on the control socket failed", {{"err", error.what()}});
    response = plain(500, "internal error\n");
  }
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                     response.status, response.status < 400 ? "OK" : "Error", response.content_type,
                     response.body.size(), response.body);
}

Result<std::unique_ptr<ControlSocket>> ControlSocket::open(const std::string& path, std::vector<web::Route> routes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return fail(ErrorKind::kMalformed, path + ": too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  std::unique_ptr<ControlSocket> opened(new ControlSocket);
  opened->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened->listener_ < 0) return fail_errno(errno, path);
  if (const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); probe >= 0) {
    const bool answers = connect(probe, generic, sizeof address) == 0;
    close(probe);
    if (answers) return fail(ErrorKind::kBusy, path + ": another program answers there");
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) unlink(path.c_str());
  if (bind(opened->listener_, generic, sizeof address) != 0) return fail_errno(errno, path);
  opened->path_ = path;
  if (chmod(path.c_str(), 0660) != 0 || listen(opened->listener_, 8) != 0) return fail_errno(errno, path);
  opened->stop_ = eventfd(0, EFD_CLOEXEC);
  if (opened->stop_ < 0) return fail_errno(errno, path);
  opened->routes_ = std::move(routes);
  opened->thread_ = std::thread([socket = opened.get()] { socket->serve(); });
  return opened;
}

ControlSocket::~ControlSocket() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    if (write(stop_, &one, sizeof one) < 0) log::debug("the control socket does not stop");
    thread_.join();
  }
  if (!path_.empty()) unlink(path_.c_str());
  for (const int fd : {listener_, stop_})
    if (fd >= 0) close(fd);
}

void ControlSocket::serve() {
  for (;;) {
    pollfd waiting[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) return;
    if ((waiting[1].revents & POLLIN) != 0) return;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    answer(client);
    close(client);
  }
}

void ControlSocket::answer(int client) const {
  std::string head;
  char buffer[1024];
  while (head.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = recv(client, buffer, sizeof buffer, 0);
    if (n <= 0 || head.size() + static_cast<std::size_t>(n) > kMostHead) return;
    head.append(buffer, static_cast<std::size_t>(n));
  }
  std::string_view rest;
  const std::string text = control_answer(head, routes_);
  for (rest = text; !rest.empty();) {
    const ssize_t n = send(client, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace roce::probe

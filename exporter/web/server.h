// SPDX-License-Identifier: Apache-2.0
//
// HTTP server: exact routes over CivetWeb's C API. Serves no files. Handlers run on the server's worker threads, several at
// once; an exception in one becomes a 500.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"

namespace roce::web {

struct Request {
  std::string method;  // upper case
  std::string path;    // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order; names may repeat
  std::vector<std::pair<std::string, std::string>> headers;
  std::string remote_address;
  bool from_loopback = false;

  std::string_view header(std::string_view name) const;  // case-insensitive; empty when absent
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  bool compress = false;  // gzip (level 1) where the request's Accept-Encoding takes it
};

using Handler = std::function<Response(const Request&)>;

struct Route {
  std::string path;                  // exact
  std::vector<std::string> methods;  // e.g. GET; HEAD comes with GET. Anything else: 405 with Allow
  Handler handler;
};

struct ServerOptions {
  std::vector<std::string> listen_addresses;  // ":14791", "127.0.0.1:14791", "[::1]:14791"
  int threads = 16;                           // worker threads
  int max_connections = 128;
  std::chrono::milliseconds request_timeout{5000};  // for a client to send its request
  std::string config_file;                          // exporter-toolkit web configuration, empty: plain HTTP
};

class Server {
 public:
  // Binds every address; a failure names the address and the reason ("127.0.0.1:14791: Address already in use").
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, std::vector<Route> routes);
  virtual ~Server() = default;
  virtual std::vector<std::string> urls() const = 0;  // e.g. http://127.0.0.1:14791
  // Stops accepting, lets the answers in flight finish (at most `grace`), then returns.
  virtual void stop(std::chrono::milliseconds grace) = 0;
};

// True when an Accept-Encoding value takes gzip (a quality of 0 refuses it).
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace roce::web

// SPDX-License-Identifier: Apache-2.0
//
// HTTP server: exact routes over CivetWeb's C API. Serves no files. Handlers run on the server's worker threads,
// several at once; an exception in one becomes a 500, a lack of memory a 503.
//
// A connection has a thread of its own while it is open, so that clients which send or read slowly cost a thread and no
// scrape: `max_connections` of them are served at once, further ones wait in the queue. A client has `request_timeout`
// to send its request (at the very most twice that) and 30 s to read the answer. An idle connection stays 75 s, longer
// than the usual scrape interval; with more than a quarter of the threads taken, connections end after their answer.
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
#include "exporter/web/users.h"

namespace roce::web {

struct Request {
  std::string method;                                        // upper case
  std::string path;                                          // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order; names may repeat
  std::vector<std::pair<std::string, std::string>> headers;  // at most 63
  std::string remote_address;                                // without port; IPv4 clients never as "::ffff:..."
  std::string body;  // of routes that take one, at most 8192 bytes; else it is read and thrown away
  bool from_loopback = false;
  bool tls = false;                 // came over TLS
  bool client_certificate = false;  // with a client certificate that was checked against client_ca
  std::string user;                 // whose password was right; empty: nobody's was asked for

  // The client has shown who it is, by a certificate or a password.
  bool authenticated() const { return client_certificate || !user.empty(); }
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
  // The handler itself decides who may ask (bearer tokens): without credentials of a user it is called all the same.
  bool judges_clients = false;
  bool takes_body = false;
};

struct ServerOptions {
  std::vector<std::string> listen_addresses;        // ":14791", "127.0.0.1:14791", "[::1]:14791"
  int threads = 16;                                 // requests that can be handled at once, at least
  int max_connections = 128;                        // threads for connections; at least `threads` are started
  std::chrono::milliseconds request_timeout{5000};  // for a client to send its request
  std::string config_file;                          // exporter-toolkit web configuration, empty: plain HTTP
  // How often its files are looked at, at most; they are when a connection or a request comes.
  std::chrono::milliseconds config_interval{1000};
  GuardCounters* counters = nullptr;  // outlive the server; none: not counted
};

class Server {
 public:
  // Binds every address; a failure names the address and the reason ("127.0.0.1:14791: Address already in use"). An
  // empty host means every address, IPv6 too where the host has it; port 0 takes a free one. A web configuration file
  // that cannot be obeyed is a failure: never plain HTTP where TLS or users were asked for. It holds for all addresses
  // and all paths.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, std::vector<Route> routes);
  virtual ~Server() = default;
  // One a listen address, with the real port; every address is shown as the loopback one: http://127.0.0.1:14791,
  // https where TLS is served.
  virtual std::vector<std::string> urls() const = 0;
  // Refuses new connections, lets the answers in flight finish (at most `grace`), then returns. False: some did not
  // finish; their handlers still run, so what they use must outlive the process's other work.
  virtual bool stop(std::chrono::milliseconds grace) = 0;
};

// True when an Accept-Encoding value takes gzip, and not the plain text rather. A quality of 0 refuses, so does one
// that cannot be read; "*" stands for gzip where gzip is not named.
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace roce::web

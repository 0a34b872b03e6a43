// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/server.h"

#include <civetweb.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "exporter/base/log.h"
#include "exporter/web/guard.h"
#include "exporter/web/http.h"
#include "exporter/web/listen.h"
#include "exporter/web/tls.h"

namespace roce::web {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKeepAlive{75};      // Prometheus scrapes each minute at the latest, usually
constexpr std::chrono::seconds kWriteDeadline{30};  // for a client to take the whole answer
constexpr long long kMaxBody = 8192;                // what routes read is short
constexpr std::size_t kPiece = 16384;               // written between two looks at the clock
constexpr int kMaxHeader = 16384;                   // request line and headers together

struct State {
  std::vector<Route> routes;
  std::vector<ListenAddress> addresses;
  std::chrono::milliseconds request_timeout{};
  int connection_threads = 0;
  mg_context* context = nullptr;
  GuardCounters own_counters;    // where the program keeps none
  std::shared_ptr<Guard> guard;  // none: no web configuration
  bool tls = false;

  std::mutex mutex;
  std::condition_variable changed;
  int in_flight = 0;    // requests whose answer is not written yet
  int connections = 0;  // with a thread of their own
  bool stopping = false;
  bool running = false;
  std::string start_message;  // CivetWeb's last word while it starts
};

// What is known of a connection from its beginning on.
struct Connection {
  State& state;
  bool checked_certificate;  // one that comes was checked, by the rules of that time
};

// Of the handshake that this thread makes: CivetWeb makes the connection known only after it.
thread_local bool handshake_checks_certificates = false;

// Counts a request as in flight.
class InFlight {
 public:
  explicit InFlight(State& state) : state_(state) {
    const std::lock_guard lock(state_.mutex);
    ++state_.in_flight;
    crowded_ = state_.stopping || state_.connections > state_.connection_threads / 4;
  }
  ~InFlight() {
    const std::lock_guard lock(state_.mutex);
    --state_.in_flight;
    state_.changed.notify_all();
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  bool crowded() const { return crowded_; }  // the connection should end after this answer

 private:
  State& state_;
  bool crowded_;
};

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return {};
  char text[40];
  // The "C" locale's names: the programs never set another one.
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

// Digits alone, but for blanks behind them, which belong to the line.
bool is_number(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// One request on one connection.
class Exchange {
 public:
  Exchange(State& state, mg_connection* connection)
      : state_(state), connection_(connection), info_(mg_get_request_info(connection)), in_flight_(state) {}

  // The value for CivetWeb: a status, or -1 for "leave what the client still sends and close".
  int run() {
    keep_ = !in_flight_.crowded() && client_keeps();
    if (state_.guard != nullptr) rules_ = state_.guard->rules();
    head_only_ = std::string_view(info_->request_method) == "HEAD";
    if (!well_framed() || !drain_body()) return finish();
    Request request;
    request.remote_address = plain_address(info_->remote_addr);
    request.from_loopback = is_loopback(info_->remote_addr);
    request.method = info_->request_method;
    const std::string_view raw_path = path_of_target(info_->request_uri);
    const std::string_view raw_query = info_->query_string != nullptr ? info_->query_string : "";
    if (raw_path.size() + raw_query.size() + (info_->query_string != nullptr ? 1 : 0) > kMaxTarget) {
      refuse(414, "the request's URI is too long");
      return finish();
    }
    const auto path = percent_decode(raw_path, false);
    if (!path) {
      refuse(400, "malformed percent-encoding in the path");
      return finish();
    }
    request.path = *path;
    const auto route = std::find_if(state_.routes.begin(), state_.routes.end(),
                                    [&](const Route& r) { return r.path == request.path; });
    if (!admit(request, route != state_.routes.end() && route->judges_clients)) return finish();
    if (route == state_.routes.end()) {
      refuse(404, "not found");
      return finish();
    }
    if (!takes(*route, request.method)) {
      Response response = plain(405, "method not allowed");
      response.headers.emplace_back("Allow", allowed(*route));
      send(response);
      return finish();
    }
    if (request.method == "POST" && !route->judges_clients && from_another_site()) {
      refuse(403, "not from a page of another site");
      return finish();
    }
    auto query = parse_query(raw_query);
    if (!query) {
      refuse(400, "malformed query, or too many parameters");
      return finish();
    }
    request.query = std::move(*query);
    if (route->takes_body) request.body = std::move(body_);
    for (int i = 0; i < info_->num_headers; ++i)
      request.headers.emplace_back(info_->http_headers[i].name, info_->http_headers[i].value);
    answer(*route, request);
    return finish();
  }

 private:
  // Says who asks; false when the refusal has been given.
  bool admit(Request& request, bool route_judges) {
    request.tls = info_->is_ssl != 0;
    const auto* connection = static_cast<const Connection*>(mg_get_user_connection_data(connection_));
    request.client_certificate =
        info_->client_cert != nullptr && connection != nullptr && connection->checked_certificate;
    if (rules_ == nullptr || rules_->users->empty()) return true;
    const char* given = mg_get_header(connection_, "Authorization");
    std::string password;
    auto verdict = Users::Answer::kWrong;
    if (given != nullptr && parse_basic(given, request.user, password)) {
      verdict = rules_->users->check(request.user, password, request.remote_address);
      OPENSSL_cleanse(password.data(), password.size());
    } else if (route_judges) {
      return true;
    }
    if (verdict == Users::Answer::kGood) return true;
    request.user.clear();
    GuardCounters& counters = state_.guard->counters();
    if (verdict == Users::Answer::kLater) {
      counters.limited.fetch_add(1, std::memory_order_relaxed);
      Response response = plain(429, "too many passwords are being tried");
      response.headers.emplace_back("Retry-After", "2");
      send(response);
    } else {
      counters.unauthorized.fetch_add(1, std::memory_order_relaxed);
      Response response = plain(401, "unauthorized");
      response.headers.emplace_back("WWW-Authenticate", "Basic realm=\"roce\", charset=\"UTF-8\"");
      send(response);
    }
    return false;
  }

  bool configured_header(std::string_view name) const {
    return rules_ != nullptr &&
           std::any_of(rules_->config.headers.begin(), rules_->config.headers.end(),
                       [name](const auto& header) { return equal_ignoring_case(header.first, name); });
  }

  static Response plain(int status, std::string_view text) {
    Response response;
    response.status = status;
    response.body = std::string(text) + "\n";
    return response;
  }
  void refuse(int status, std::string_view text) { send(plain(status, text)); }

  static bool takes(const Route& route, const std::string& method) {
    const auto has = [&route](std::string_view m) {
      return std::find(route.methods.begin(), route.methods.end(), m) != route.methods.end();
    };
    return has(method) || (method == "HEAD" && has("GET"));
  }
  static std::string allowed(const Route& route) {
    std::string text;
    for (const std::string& method : route.methods) {
      text += (text.empty() ? "" : ", ") + method;
      if (method == "GET" && !takes_named(route, "HEAD")) text += ", HEAD";
    }
    return text;
  }
  static bool takes_named(const Route& route, std::string_view method) {
    return std::find(route.methods.begin(), route.methods.end(), method) != route.methods.end();
  }

  // All values of a header that may be given in several lines.
  std::string joined_header(std::string_view name) const {
    std::string text;
    for (int i = 0; i < info_->num_headers; ++i)
      if (equal_ignoring_case(info_->http_headers[i].name, name))
        text += (text.empty() ? "" : ",") + std::string(info_->http_headers[i].value);
    return text;
  }

  // A browser says whose page makes it send a POST, and nobody else does.
  bool from_another_site() const {
    const char* origin = mg_get_header(connection_, "Origin");
    if (origin == nullptr) return false;
    const char* host = mg_get_header(connection_, "Host");
    const std::string_view site(origin);
    const std::size_t authority = site.find("://");
    return host == nullptr || authority == std::string_view::npos ||
           !equal_ignoring_case(site.substr(authority + 3), host);
  }

  bool client_keeps() const {
    // CivetWeb ends a connection on which a WebSocket was asked for.
    if (mg_get_header(connection_, "Upgrade") != nullptr) return false;
    const std::string wish = joined_header("Connection");
    if (has_token(wish, "close")) return false;
    return has_token(wish, "keep-alive") || std::string_view(info_->http_version) == "1.1";
  }

  // CivetWeb lets pass what RFC 9112 forbids. Where a proxy in front of us reads it otherwise, the two see a request
  // end at different places, and what one client sends becomes the request of another. False when the refusal has been
  // given.
  bool well_framed() {
    const auto reject = [this](int status, std::string_view why) {
      unread_ = true;
      refuse(status, why);
      return false;
    };
    // CivetWeb puts NULs into the head where words and lines end, and skips what it does not like: one blank stands
    // between words and one CRLF between lines, or there was more.
    const char* target = info_->query_string != nullptr ? info_->query_string : info_->request_uri;
    if (info_->request_uri != info_->request_method + std::strlen(info_->request_method) + 1 ||
        info_->http_version != target + std::strlen(target) + 1 + std::strlen("HTTP/"))
      return reject(400, "malformed request line");
    const char* next = info_->http_version + std::strlen(info_->http_version) + 2;
    int lengths = 0;
    int hosts = 0;
    for (int i = 0; i < info_->num_headers; ++i) {
      const mg_header& header = info_->http_headers[i];
      const char* after_name = header.name + std::strlen(header.name) + 1;
      const bool blank_before_colon = *after_name == '\0' && after_name != header.value;
      if (header.name != next || blank_before_colon) return reject(400, "malformed header");
      next = header.value + std::strlen(header.value) + 2;
      if (equal_ignoring_case(header.name, "Transfer-Encoding")) return reject(411, "a body needs a Content-Length");
      if (equal_ignoring_case(header.name, "Content-Length") && (++lengths > 1 || !is_number(header.value)))
        return reject(400, "malformed Content-Length, or several");
      if (equal_ignoring_case(header.name, "Host")) ++hosts;
    }
    // What stands behind the last one that fits is lost.
    if (info_->num_headers >= MG_MAX_HEADERS) return reject(431, "too many headers");
    if (hosts > 1 || (hosts == 0 && std::string_view(info_->http_version) == "1.1"))
      return reject(400, "one Host header is needed");
    return true;
  }

  // Takes a small body off the connection, byte by byte: only so does the clock count between a dribbling client's
  // bytes. False when the answer has been given already.
  bool drain_body() {
    const long long length = std::max(info_->content_length, 0LL);
    if (length > kMaxBody) {
      unread_ = true;
      refuse(413, "the body is too large");
      return false;
    }
    const std::string expected = joined_header("Expect");
    if (length > 0 && has_token(expected, "100-continue")) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      mg_write(connection_, kContinue.data(), kContinue.size());
    }
    const auto deadline = Clock::now() + state_.request_timeout;
    char byte = 0;
    for (long long left = length; left > 0; --left) {
      if (mg_read(connection_, &byte, 1) != 1 || Clock::now() > deadline) {
        unread_ = true;
        refuse(408, "the body did not come in time");
        return false;
      }
      body_ += byte;
    }
    return true;
  }

  void answer(const Route& route, const Request& request) {
    Response response;
    try {
      response = route.handler(request);
      if (response.compress) {
        response.headers.emplace_back("Vary", "Accept-Encoding");
        if (!response.body.empty() && accepts_gzip(joined_header("Accept-Encoding"))) {
          if (auto packed = gzip(response.body)) {
            response.body = std::move(*packed);
            response.headers.emplace_back("Content-Encoding", "gzip");
          }
        }
      }
    } catch (const std::bad_alloc&) {
      log::error("out of memory for an answer", {{"path", request.path}});
      response = plain(503, "out of memory");
    } catch (const std::exception& error) {
      log::error("a handler failed", {{"path", request.path}, {"err", error.what()}});
      response = plain(500, "internal error");
    } catch (...) {
      log::error("a handler failed", {{"path", request.path}});
      response = plain(500, "internal error");
    }
    send(response);
  }

  void send(const Response& response) {
    if (unread_) keep_ = false;
    const bool bodyless = response.status < 200 || response.status == 204 || response.status == 304;
    std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " +
                       mg_get_response_code_text(connection_, response.status) + "\r\nDate: " + http_date() + "\r\n";
    const auto add = [&text](std::string_view name, std::string_view value) {
      if (is_plain(name) && is_plain(value)) text.append(name).append(": ").append(value).append("\r\n");
    };
    if (!bodyless) {
      add("Content-Type", response.content_type);
      add("Content-Length", std::to_string(response.body.size()));
    }
    if (!configured_header("X-Content-Type-Options")) add("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers)
      if (!configured_header(name)) add(name, value);
    if (rules_ != nullptr)
      for (const auto& [name, value] : rules_->config.headers) add(name, value);
    add("Connection", keep_ ? "keep-alive" : "close");
    text += "\r\n";

    std::string_view body = bodyless || head_only_ ? std::string_view{} : std::string_view(response.body);
    // Headers and the body's beginning in one packet.
    const std::size_t first = std::min(body.size(), kPiece);
    text.append(body.substr(0, first));
    body.remove_prefix(first);
    const auto deadline = Clock::now() + kWriteDeadline;
    for (std::string_view rest = text;; rest = body.substr(0, kPiece), body.remove_prefix(rest.size())) {
      if (rest.empty()) break;
      if (Clock::now() > deadline || mg_write(connection_, rest.data(), rest.size()) != static_cast<int>(rest.size())) {
        log::debug("a client did not take its answer", {{"client", plain_address(info_->remote_addr)}});
        keep_ = false;
        break;
      }
    }
    status_ = response.status;
  }

  // CivetWeb keeps or closes a connection by what the client's Connection header says; it has no other switch. The
  // request is its own, writable memory, and is thrown away next.
  int finish() {
    auto* request = const_cast<mg_request_info*>(info_);
    const char* wish = keep_ ? "keep-alive" : "close";
    bool said = false;
    for (int i = 0; i < request->num_headers; ++i) {
      if (!equal_ignoring_case(request->http_headers[i].name, "Connection")) continue;
      request->http_headers[i].value = wish;
      said = true;
    }
    if (!said) {
      const int last = std::min(request->num_headers, MG_MAX_HEADERS - 1);
      request->http_headers[last] = {"Connection", wish};
      request->num_headers = last + 1;
    }
    return unread_ ? -1 : status_;
  }

  State& state_;
  mg_connection* connection_;
  const mg_request_info* info_;
  InFlight in_flight_;
  std::shared_ptr<const Guard::Rules> rules_;
  bool keep_ = false;
  bool unread_ = false;  // of the body: nothing can follow on this connection
  bool head_only_ = false;
  std::string body_;
  int status_ = 500;
};

State& state_of(const mg_connection* connection) { return *static_cast<State*>(mg_get_user_context_data(connection)); }

int on_request(mg_connection* connection) {
  try {
    return Exchange(state_of(connection), connection).run();
  } catch (const std::exception& error) {
    log::error("a request failed", {{"err", error.what()}});
  } catch (...) {
    log::error("a request failed");
  }
  return -1;
}

// What CivetWeb itself refuses: requests that it cannot parse, that are too long, or end early.
int on_http_error(mg_connection* connection, int status, const char* message) {
  try {
    const mg_request_info* info = mg_get_request_info(connection);
    const bool head = info->request_method != nullptr && std::string_view(info->request_method) == "HEAD";
    const std::string body = std::string(mg_get_response_code_text(connection, status)) + "\n";
    std::string text = "HTTP/1.1 " + std::to_string(status) + " " + body;
    text.pop_back();
    text += "\r\nDate: " + http_date() +
            "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\nX-Content-Type-Options: nosniff\r\n";
    if (const auto& guard = state_of(connection).guard; guard != nullptr)
      for (const auto& [name, value] : guard->rules()->config.headers)
        if (!equal_ignoring_case(name, "X-Content-Type-Options"))
          text.append(name).append(": ").append(value) += "\r\n";
    text += "Connection: close\r\n\r\n";
    if (!head) text += body;
    mg_write(connection, text.data(), text.size());
    log::debug("refused a request",
               {{"client", plain_address(info->remote_addr)}, {"status", status}, {"err", message}});
    return 0;
  } catch (...) {
    return 0;
  }
}

int on_log(const mg_connection* connection, const char* message) {
  try {
    State& state = state_of(connection);
    bool running = false;
    {
      const std::lock_guard lock(state.mutex);
      running = state.running;
      if (!running) state.start_message = message;
    }
    // What it says about one client is of no interest to others. During a handshake it names none.
    const std::string_view text(message);
    const bool of_client =
        text.starts_with("sslize error") || text.starts_with("SSL syscall error") ||
        (mg_get_request_info(connection) != nullptr && mg_get_request_info(connection)->remote_addr[0] != '\0');
    if (running) log::write(of_client ? log::Level::kDebug : log::Level::kWarn, "web server", {{"err", message}});
  } catch (...) {
    return 1;
  }
  return 1;
}

int on_open(const mg_connection* connection, void** data) {
  State& state = state_of(connection);
  // Without one the connection goes on, uncounted and with no certificate to its name.
  *data = new (std::nothrow) Connection{state, state.tls && handshake_checks_certificates};
  if (*data == nullptr) return 0;
  const std::lock_guard lock(state.mutex);
  ++state.connections;
  return 0;
}

void on_close(const mg_connection* connection) {
  const std::unique_ptr<Connection> ended(static_cast<Connection*>(mg_get_user_connection_data(connection)));
  if (ended == nullptr) return;  // ended in its TLS handshake
  const std::lock_guard lock(ended->state.mutex);
  --ended->state.connections;
}

// Each handshake goes on under the rules of its time; CivetWeb itself keeps one context for good.
int on_client_hello(SSL* connection, int* alert, void* data) {
  *alert = SSL_AD_INTERNAL_ERROR;
  try {
    const auto rules = static_cast<State*>(data)->guard->rules();
    handshake_checks_certificates = rules->config.verifies_clients;
    return adopt_context(connection, rules->config.tls.get()) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
  } catch (...) {
    return SSL_CLIENT_HELLO_ERROR;
  }
}

// CivetWeb asks twice: at its start, and when it ends whether the context is its own to free.
int on_tls_context(void** context, void* data) {
  if (*context != nullptr) return 0;
  SSL_CTX* made = SSL_CTX_new(TLS_server_method());
  if (made == nullptr) return -1;
  // Sessions are of the context that a connection begins with, not of the one that it adopts.
  forbid_resumption(made);
  SSL_CTX_set_client_hello_cb(made, on_client_hello, data);
  *context = made;
  return 1;
}

class CivetServer : public Server {
 public:
  explicit CivetServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~CivetServer() override { stop_all(std::chrono::milliseconds{0}); }
  CivetServer(const CivetServer&) = delete;
  CivetServer& operator=(const CivetServer&) = delete;

  std::vector<std::string> urls() const override {
    std::vector<std::string> urls;
    for (const ListenAddress& address : state_->addresses) urls.push_back(address.url(state_->tls ? "https" : "http"));
    return urls;
  }

  bool stop(std::chrono::milliseconds grace) override { return stop_all(grace); }

 private:
  bool stop_all(std::chrono::milliseconds grace) {
    {
      std::unique_lock lock(state_->mutex);
      if (state_->stopping) return state_->in_flight == 0;
      state_->stopping = true;
    }
    refuse_clients(state_->addresses);
    bool finished = false;
    {
      std::unique_lock lock(state_->mutex);
      finished = state_->changed.wait_for(lock, grace, [this] { return state_->in_flight == 0; });
    }
    if (finished) {
      mg_stop(state_->context);
    } else {
      log::warn("answers did not finish in time and are cut off");
      // A handler cannot be ended from outside, and CivetWeb waits for it.
      std::thread([state = state_] { mg_stop(state->context); }).detach();
    }
    return finished;
  }

  std::shared_ptr<State> state_;
};

// Signals belong to the program's main thread; threads inherit what is blocked where they are started.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_ignoring_case(key, name)) return value;
  return {};
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, std::vector<Route> routes) {
  if (options.listen_addresses.empty()) return fail(ErrorKind::kMalformed, "no listen address");

  auto state = std::make_shared<State>();
  state->routes = std::move(routes);
  state->request_timeout = options.request_timeout;
  if (!options.config_file.empty()) {
    auto guard = Guard::open(options.config_file, options.counters != nullptr ? *options.counters : state->own_counters,
                             options.config_interval);
    if (!guard) return fail(ErrorKind::kMalformed, std::move(guard).error());
    state->guard = std::move(*guard);
    state->tls = state->guard->rules()->config.tls != nullptr;
  }
  state->connection_threads = std::max({options.threads, options.max_connections, 1});
  std::string ports;
  for (const std::string& text : options.listen_addresses) {
    ROCE_TRY(ListenAddress address, resolve_listen_address(text));
    ports += ports.empty() ? "" : ",";
    // "+PORT" is how CivetWeb spells one socket for both families.
    ports += address.dual_stack ? "+" + std::to_string(address.port()) : address.numeric();
    if (state->tls) ports += 's';
    state->addresses.push_back(std::move(address));
  }
  // CivetWeb says only that something failed; the reason is found out before.
  if (auto free = probe(state->addresses); !free) return tl::unexpected<Error>(std::move(free).error());

  static const unsigned initialised = mg_init_library(MG_FEATURES_DEFAULT);
  if (initialised == 0 && mg_check_feature(MG_FEATURES_IPV6) == 0)
    return fail(ErrorKind::kUnsupported, "this CivetWeb has no IPv6");

  const std::string threads = std::to_string(state->connection_threads);
  const std::string request_timeout = std::to_string(options.request_timeout.count());
  const std::string keep_alive = std::to_string(std::chrono::milliseconds(kKeepAlive).count());
  const std::string max_header = std::to_string(kMaxHeader);
  // clang-format off
  const char* settings[] = {
      "listening_ports", ports.c_str(),
      "num_threads", threads.c_str(),
      "connection_queue", "64",
      "listen_backlog", "1024",  // a SYN that finds no room is sent again only after a second
      "max_request_size", max_header.c_str(),
      "request_timeout_ms", request_timeout.c_str(),
      "enable_keep_alive", "yes",
      "keep_alive_timeout_ms", keep_alive.c_str(),
      "tcp_nodelay", "1",
      "decode_url", "no",                // routes are matched here, on what was sent
      "enable_auth_domain_check", "no",  // any host name may stand in "GET http://host/path"
      "enable_directory_listing", "no",
      nullptr};
  // clang-format on
  mg_callbacks callbacks{};
  callbacks.begin_request = on_request;
  callbacks.http_error = on_http_error;
  callbacks.log_message = on_log;
  callbacks.init_connection = on_open;
  callbacks.connection_close = on_close;
  callbacks.external_ssl_ctx = on_tls_context;
  {
    const SignalsBlocked blocked;
    state->context = mg_start(&callbacks, state.get(), settings);
  }
  const std::lock_guard lock(state->mutex);
  if (state->context == nullptr)
    return fail(ErrorKind::kIo, ports + ": " + (state->start_message.empty() ? "cannot start" : state->start_message));
  std::vector<mg_server_port> bound(state->addresses.size());
  const int count = mg_get_server_ports(state->context, static_cast<int>(bound.size()), bound.data());
  for (std::size_t i = 0; i < state->addresses.size() && i < static_cast<std::size_t>(std::max(count, 0)); ++i)
    state->addresses[i].set_port(bound[i].port);
  state->running = true;
  return std::make_unique<CivetServer>(state);
}

}  // namespace roce::web

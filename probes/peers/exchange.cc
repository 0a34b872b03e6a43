// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/exchange.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "exporter/base/parse.h"
#include "exporter/config/text.h"
#include "probes/peers/json_depth.h"
#include "probes/peers/token.h"

namespace roce::probe {
namespace {

using Json = nlohmann::json;

constexpr long kTimeoutMs = 1000;
constexpr std::size_t kMostAddresses = 4096;

tl::unexpected<Error> malformed(std::string what) { return fail(ErrorKind::kMalformed, std::move(what)); }

Result<Json> parse_object(std::string_view text) {
  if (text.size() > kMostExchangeBytes) return malformed("a document of more than 64 KiB");
  if (too_deep(text)) return malformed("a document of too many levels");
  Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object()) return malformed("no JSON object");
  return document;
}

// Reads members of one object; the first that is missing or of another type is remembered.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}

  void text(const char* name, std::string& out, bool optional = false) {
    const Json* value = find(name, optional);
    if (value == nullptr) return;
    if (!value->is_string() || value->get_ref<const std::string&>().size() > 256) return bad(name);
    out = value->get<std::string>();
  }
  void gid(const char* name, Gid& out) {
    std::string spelled;
    text(name, spelled);
    if (!bad_.empty()) return;
    if (auto parsed = parse_gid(spelled))
      out = *parsed;
    else
      bad(name);
  }
  void flag(const char* name, bool& out) {
    const Json* value = find(name, true);
    if (value == nullptr) return;
    if (!value->is_boolean()) return bad(name);
    out = value->get<bool>();
  }
  template <class T>
  void number(const char* name, T& out, std::uint64_t least, std::uint64_t most, bool optional = false) {
    const Json* value = find(name, optional);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) return bad(name);
    const auto n = value->get<std::uint64_t>();
    if (n < least || n > most) return bad(name);
    out = static_cast<T>(n);
  }
  // Empty, or the name of what is wrong.
  const std::string& wrong() const { return bad_; }

 private:
  const Json* find(const char* name, bool optional) {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    if (!optional) bad(name);
    return nullptr;
  }
  void bad(const char* name) {
    if (bad_.empty()) bad_ = fmt::format("member `{}` missing or wrong", name);
  }

  const Json& object_;
  std::string bad_;
};

constexpr std::uint64_t k24 = 0xFFFFFF;
constexpr std::uint64_t k31 = 0x7FFFFFFF;
constexpr std::uint64_t k32 = 0xFFFFFFFF;

bool mapped(const Gid& gid) {
  static constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(kPrefix.begin(), kPrefix.end(), gid.raw.begin());
}

struct Answer {
  std::string body;
  bool too_large = false;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* to) {
  auto* answer = static_cast<Answer*>(to);
  if (answer->body.size() + size * count > kMostExchangeBytes) {
    answer->too_large = true;
    return 0;
  }
  try {
    answer->body.append(data, size * count);
  } catch (...) {
    return 0;
  }
  return size * count;
}

ExchangeFailure failure_of(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return ExchangeFailure::kTimeout;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
      return ExchangeFailure::kTls;
    case CURLE_WRITE_ERROR:
    case CURLE_WEIRD_SERVER_REPLY:
      return ExchangeFailure::kMalformed;
    default:
      return ExchangeFailure::kConnect;
  }
}

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

}  // namespace

std::string endpoints_json(const std::string& node, const std::vector<RailEndpoint>& endpoints) {
  Json list = Json::array();
  for (const auto& [e, rail] : endpoints) {
    Json item{{"device", e.device},   {"port", e.port},      {"gid", to_text(e.gid)}, {"qpn", e.qpn},
              {"qkey", e.qkey},       {"epoch", e.epoch},    {"mtu", e.mtu},          {"read", e.read},
              {"cm_port", e.cm_port}, {"payload", e.payload}};
    if (!rail.empty()) item["rail"] = rail;
    list.push_back(std::move(item));
  }
  return Json{{"version", 1}, {"node", node}, {"endpoints", std::move(list)}}.dump(-1, ' ', false,
                                                                                   Json::error_handler_t::replace) +
         "\n";
}

Result<std::vector<RailEndpoint>> parse_endpoints(std::string_view text) {
  ROCE_TRY(const Json document, parse_object(text));
  std::string node;
  std::uint32_t version = 0;
  Members top(document);
  top.number("version", version, 1, k32);
  top.text("node", node);
  if (!top.wrong().empty()) return malformed(top.wrong());
  const auto list = document.find("endpoints");
  if (list == document.end() || !list->is_array() || list->size() > kMostEndpoints)
    return malformed("member `endpoints` missing or wrong");
  std::vector<RailEndpoint> endpoints;
  for (const Json& item : *list) {
    if (!item.is_object()) return malformed("an endpoint that is no object");
    RailEndpoint entry;
    Endpoint& e = entry.endpoint;
    e.node = node;
    Members members(item);
    members.text("device", e.device);
    members.number("port", e.port, 1, 255);
    members.gid("gid", e.gid);
    members.number("qpn", e.qpn, 1, k24);
    members.number("qkey", e.qkey, 0, k31);
    members.number("epoch", e.epoch, 0, k32);
    members.number("mtu", e.mtu, 256, 65536);
    members.flag("read", e.read);
    members.number("cm_port", e.cm_port, 0, 65535, true);
    members.number("payload", e.payload, 128, 4096, true);
    members.text("rail", entry.rail, true);
    if (!members.wrong().empty()) return malformed(members.wrong());
    endpoints.push_back(std::move(entry));
  }
  return endpoints;
}

std::string to_json(const ReadRequest& request) {
  return Json{{"device", request.device},
              {"gid", to_text(request.gid)},
              {"qpn", request.qpn},
              {"psn", request.psn},
              {"mtu", request.mtu}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const ReadGrant& grant) {
  return Json{{"gid", to_text(grant.gid)}, {"qpn", grant.qpn},   {"psn", grant.psn},      {"mtu", grant.mtu},
              {"address", grant.address},  {"rkey", grant.rkey}, {"length", grant.length}}
             .dump() +
         "\n";
}

Result<ReadRequest> parse_read_request(std::string_view text) {
  ROCE_TRY(const Json document, parse_object(text));
  ReadRequest request;
  Members members(document);
  members.text("device", request.device, true);
  members.gid("gid", request.gid);
  members.number("qpn", request.qpn, 1, k24);
  members.number("psn", request.psn, 0, k24);
  members.number("mtu", request.mtu, 256, 4096);
  if (!members.wrong().empty()) return malformed(members.wrong());
  return request;
}

Result<ReadGrant> parse_read_grant(std::string_view text) {
  ROCE_TRY(const Json document, parse_object(text));
  ReadGrant grant;
  Members members(document);
  members.gid("gid", grant.gid);
  members.number("qpn", grant.qpn, 1, k24);
  members.number("psn", grant.psn, 0, k24);
  members.number("mtu", grant.mtu, 256, 4096);
  members.number("address", grant.address, 0, std::numeric_limits<std::uint64_t>::max());
  members.number("rkey", grant.rkey, 0, k32);
  members.number("length", grant.length, 1, 1U << 20U);
  if (!members.wrong().empty()) return malformed(members.wrong());
  return grant;
}

bool in_prefix(const Gid& gid, const EngineSettings::Prefix& prefix) {
  for (unsigned bit = 0; bit < prefix.bits; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if ((gid.raw[bit / 8] & mask) != (prefix.gid.raw[bit / 8] & mask)) return false;
  }
  return true;
}

const RailEndpoint* choose_endpoint(const std::vector<RailEndpoint>& endpoints, const std::string& remote_device,
                                    const LocalPort& local) {
  const auto first = [&](auto&& fits) -> const RailEndpoint* {
    const auto found = std::find_if(endpoints.begin(), endpoints.end(), fits);
    return found == endpoints.end() ? nullptr : &*found;
  };
  if (!remote_device.empty()) return first([&](const RailEndpoint& e) { return e.endpoint.device == remote_device; });
  if (!local.rail.empty())
    if (const auto* found = first([&](const RailEndpoint& e) { return e.rail == local.rail; })) return found;
  if (const auto* found = first([&](const RailEndpoint& e) {
        return std::any_of(local.subnets.begin(), local.subnets.end(),
                           [&](const EngineSettings::Prefix& p) { return in_prefix(e.endpoint.gid, p); });
      }))
    return found;
  if (const auto* found = first([&](const RailEndpoint& e) { return e.endpoint.device == local.device; })) return found;
  return endpoints.empty() ? nullptr : &endpoints.front();
}

std::string_view to_string(ExchangeFailure failure) {
  constexpr std::string_view kWords[] = {"connect", "tls", "timeout", "refused", "malformed"};
  return kWords[static_cast<std::size_t>(failure)];
}

std::string address_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN];
  const bool v4 = mapped(gid);
  if (inet_ntop(v4 ? AF_INET : AF_INET6, gid.raw.data() + (v4 ? 12 : 0), text, sizeof text) == nullptr) return {};
  return text;
}

struct HttpsSource::Settings {
  ExchangeSettings exchange;
  std::vector<LocalPort> ports;
};

HttpsSource::HttpsSource() : settings_(std::make_shared<Settings>()) { curl_global_init(CURL_GLOBAL_DEFAULT); }
HttpsSource::~HttpsSource() = default;

void HttpsSource::configure(const ExchangeSettings& settings, std::vector<LocalPort> ports) {
  auto fresh = std::make_shared<Settings>();
  fresh->exchange = settings;
  fresh->ports = std::move(ports);
  const std::lock_guard lock(mutex_);
  settings_ = std::move(fresh);
}

std::shared_ptr<const HttpsSource::Settings> HttpsSource::settings() const {
  const std::lock_guard lock(mutex_);
  return settings_;
}

tl::unexpected<Error> HttpsSource::count(ExchangeFailure failure, ErrorKind kind, std::string text) {
  failures_[static_cast<std::size_t>(failure)].fetch_add(1, std::memory_order_relaxed);
  return fail(kind, std::move(text));
}

std::array<std::uint64_t, static_cast<std::size_t>(ExchangeFailure::kCount_)> HttpsSource::failures() const {
  std::array<std::uint64_t, static_cast<std::size_t>(ExchangeFailure::kCount_)> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = failures_[i].load(std::memory_order_relaxed);
  return out;
}

std::vector<std::pair<std::string, std::string>> HttpsSource::known_addresses() const {
  const std::lock_guard lock(mutex_);
  return {addresses_.begin(), addresses_.end()};
}

Result<std::string> HttpsSource::ask(const Peer& peer, const std::string* body) {
  const auto settings = this->settings();
  const ExchangeSettings& exchange = settings->exchange;
  const std::unique_ptr<CURL, CurlDeleter> handle(curl_easy_init());
  if (!handle) return count(ExchangeFailure::kConnect, ErrorKind::kIo, "libcurl gives no handle");
  CURL* curl = handle.get();
  const std::string url = peer.url + "/rdma/endpoint";
  Answer answer;
  char message[CURL_ERROR_SIZE] = "";
  curl_slist* list = curl_slist_append(nullptr, "Accept: application/json");
  if (body != nullptr) {
    list = curl_slist_append(list, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");
  }
  if (!exchange.bearer_token_file.empty()) {
    auto token = read_token(exchange.bearer_token_file);
    if (!token) {
      curl_slist_free_all(list);
      return count(ExchangeFailure::kConnect, token.error().kind, token.error().message());
    }
    list = curl_slist_append(list, ("Authorization: Bearer " + *token).c_str());
  }
  const std::unique_ptr<curl_slist, ListDeleter> headers(list);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // the environment's proxy has no business between two nodes
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  // A name server that does not answer is not waited for at the end either; the thread that asks it ends by itself.
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!exchange.ca_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, exchange.ca_file.c_str());
    curl_easy_setopt(curl, CURLOPT_CAPATH, nullptr);
  }
  if (!exchange.cert_file.empty()) {
    curl_easy_setopt(curl, CURLOPT_SSLCERT, exchange.cert_file.c_str());
    curl_easy_setopt(curl, CURLOPT_SSLKEY, exchange.key_file.c_str());
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "roce_prober");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  if (body != nullptr) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->c_str());
  }
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) {
    const std::string_view why = answer.too_large     ? "an answer of more than 64 KiB"
                                 : message[0] != '\0' ? std::string_view(message)
                                                      : std::string_view(curl_easy_strerror(code));
    const ExchangeFailure failure = failure_of(code);
    return count(failure, failure == ExchangeFailure::kTimeout ? ErrorKind::kTimeout : ErrorKind::kIo,
                 fmt::format("{}: {}", url, config::one_line(why, 200)));
  }
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) {
    const bool denied = status == 401 || status == 403;
    return count(ExchangeFailure::kRefused, denied ? ErrorKind::kDenied : ErrorKind::kIo,
                 fmt::format("{}: HTTP {} {}", url, status, config::one_line(trim(answer.body), 120)));
  }
  return std::move(answer.body);
}

Result<Endpoint> HttpsSource::endpoint(const Peer& peer) {
  ROCE_TRY(const std::string body, ask(peer, nullptr));
  auto endpoints = parse_endpoints(body);
  if (!endpoints)
    return count(ExchangeFailure::kMalformed, ErrorKind::kMalformed, peer.url + ": " + endpoints.error().object);
  {
    const std::lock_guard lock(mutex_);
    for (const RailEndpoint& e : *endpoints)
      if (addresses_.size() < kMostAddresses) addresses_[address_text(e.endpoint.gid)] = e.endpoint.node;
  }
  const auto settings = this->settings();
  LocalPort local{peer.device, {}, {}};
  for (const LocalPort& port : settings->ports)
    if (port.device == peer.device) local = port;
  const RailEndpoint* chosen = choose_endpoint(*endpoints, peer.remote_device, local);
  if (chosen == nullptr)
    return fail(ErrorKind::kAbsent, peer.remote_device.empty()
                                        ? peer.url + ": its responder is off"
                                        : fmt::format("{}: it answers on no device {}", peer.url, peer.remote_device));
  return chosen->endpoint;
}

Result<ReadGrant> HttpsSource::connect_read(const Peer& peer, const ReadRequest& request) {
  const std::string question = to_json(request);
  ROCE_TRY(const std::string body, ask(peer, &question));
  auto grant = parse_read_grant(body);
  if (!grant) return count(ExchangeFailure::kMalformed, ErrorKind::kMalformed, peer.url + ": " + grant.error().object);
  return *grant;
}

}  // namespace roce::probe

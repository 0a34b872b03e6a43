// SPDX-License-Identifier: Apache-2.0
//
// How probers tell each other where they answer: GET /rdma/endpoint gives all endpoints of a node as JSON, POST to it
// makes the far half of an RC connection for READ probes. Both only over TLS, for who shows a client certificate or the
// bearer token.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "probes/config/options.h"
#include "probes/engine.h"

namespace roce::probe {

inline constexpr std::size_t kMostExchangeBytes = 65536;
inline constexpr std::size_t kMostEndpoints = 64;

// An endpoint with the rail that its node declares for it; empty where it declares none.
struct RailEndpoint {
  Endpoint endpoint;
  std::string rail;
};

std::string endpoints_json(const std::string& node, const std::vector<RailEndpoint>& endpoints);
// Anything but a document of this form is kMalformed. Unknown members are skipped: later versions may add some.
Result<std::vector<RailEndpoint>> parse_endpoints(std::string_view text);

std::string to_json(const ReadRequest& request);
std::string to_json(const ReadGrant& grant);
Result<ReadRequest> parse_read_request(std::string_view text);
Result<ReadGrant> parse_read_grant(std::string_view text);

// What this host knows of the port that probes leave by.
struct LocalPort {
  std::string device;
  std::string rail;                             // declared
  std::vector<EngineSettings::Prefix> subnets;  // of its network device
};

// Of a node's endpoints the one to probe from this port: the device that is asked for, else one on the same declared
// rail, in the same subnet, of the same name, the first. Null where a device is asked for that is not there.
const RailEndpoint* choose_endpoint(const std::vector<RailEndpoint>& endpoints, const std::string& remote_device,
                                    const LocalPort& local);

bool in_prefix(const Gid& gid, const EngineSettings::Prefix& prefix);

enum class ExchangeFailure : std::uint8_t { kConnect, kTls, kTimeout, kRefused, kMalformed, kCount_ };
std::string_view to_string(ExchangeFailure failure);

// Thread-safe. A call lasts 1 s at most, name resolution included.
class HttpsSource : public EndpointSource {
 public:
  HttpsSource();
  ~HttpsSource() override;
  HttpsSource(const HttpsSource&) = delete;
  HttpsSource& operator=(const HttpsSource&) = delete;

  // Takes effect with the next call. Files are read at each call, so that renewed certificates are used.
  void configure(const ExchangeSettings& settings, std::vector<LocalPort> ports);

  Result<Endpoint> endpoint(const Peer& peer) override;
  Result<ReadGrant> connect_read(const Peer& peer, const ReadRequest& request) override;

  std::array<std::uint64_t, static_cast<std::size_t>(ExchangeFailure::kCount_)> failures() const;
  // Which node has an RDMA address, as far as endpoints told: text of the address and name of the node.
  std::vector<std::pair<std::string, std::string>> known_addresses() const;

 private:
  struct Settings;
  Result<std::string> ask(const Peer& peer, const std::string* body);
  std::shared_ptr<const Settings> settings() const;
  tl::unexpected<Error> count(ExchangeFailure failure, ErrorKind kind, std::string text);

  mutable std::mutex mutex_;
  std::shared_ptr<const Settings> settings_;
  std::map<std::string, std::string> addresses_;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(ExchangeFailure::kCount_)> failures_{};
};

// "192.0.2.1" for a mapped address, else IPv6 notation.
std::string address_text(const Gid& gid);

}  // namespace roce::probe

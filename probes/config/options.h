// SPDX-License-Identifier: Apache-2.0
//
// What the prober was told, by flags and by the YAML configuration file. Flags win over the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/config/flags.h"
#include "probes/engine.h"
#include "probes/peers/entry.h"

namespace roce::probe {

// Ceilings that no configuration exceeds: a prober must not be made into a load generator by mistake.
inline constexpr std::uint32_t kMostPeers = 64;
inline constexpr std::uint32_t kMostProbesASecond = 200;
inline constexpr std::uint32_t kMostBurst = 100;
inline constexpr std::uint32_t kMostPing = kMostBurstProbes;
inline constexpr std::size_t kMostClasses = 4;
inline constexpr std::uint32_t kLargestProbe = 4096;
inline constexpr std::uint16_t kDefaultPort = 14792;

// Where names of peers come from that change while the program runs.
struct DnsSource {
  enum class Type : std::uint8_t { kSrv, kA };  // kA: addresses of both families
  std::string name;
  Type type = Type::kSrv;
  std::uint16_t port = kDefaultPort;  // kA only
  std::chrono::microseconds refresh = std::chrono::seconds(30);
};

// A kind of measurement that /probe?module=NAME makes.
struct Module {
  std::string name;
  BurstSpec burst;  // without the peer
};

// How peers are chosen among the endpoints that are known.
struct GraphSettings {
  std::string seed;              // the same on all nodes; orders them
  std::uint32_t degree = 8;      // peers of an endpoint above full_mesh; even
  std::uint32_t full_mesh = 24;  // up to so many endpoints of a rail all probe all
  std::uint32_t max_peers = kMostPeers;
  bool storage = true;  // the far ends of NVMe-oF connections first
};

// How other probers are asked for their endpoints.
struct ExchangeSettings {
  std::string ca_file;  // empty: the system's
  std::string cert_file, key_file;
  std::string bearer_token_file;
  std::uint16_t port = kDefaultPort;
  // A server of its own for /rdma/endpoint alone, where the metrics are served without TLS. Empty: none.
  std::vector<std::string> listen_addresses;
  std::string web_config_file;
};

enum class Limit : std::uint8_t { kMedian, kP99, kLoss };

struct PingOptions {
  std::string target;
  std::uint32_t count = 100;
  std::uint32_t size = 128;
  std::chrono::microseconds gap = std::chrono::milliseconds(10);
  std::chrono::microseconds deadline = std::chrono::milliseconds(500);
  std::string qos;
  std::string device;
  BurstSpec::Kind kind = BurstSpec::Kind::kEcho;
  std::optional<std::chrono::microseconds> max_median, max_p99;
  std::optional<double> max_loss;  // ratio
  bool json = false;
};

struct Options {
  enum class Command { kServe, kPing, kCheckConfig, kMetricsReference };
  Command command = Command::kServe;

  // web
  std::vector<std::string> listen_addresses{":14792"};
  std::string telemetry_path = "/metrics";
  std::string web_config_file;
  int max_requests = 40;
  bool enable_lifecycle = false;

  // What the engine is told; `node`, `devices` and `responder` may be empty or unset here and are filled in at start.
  EngineSettings engine;
  enum class Responder : std::uint8_t { kAuto, kOn, kOff };
  Responder responder = Responder::kAuto;  // kAuto: on where peers or an allow list are configured
  std::map<std::string, std::string> rails;

  // peers
  std::vector<PeerEntry> static_peers;
  std::vector<std::string> file_sd;  // globs
  std::chrono::microseconds file_sd_refresh = std::chrono::minutes(5);
  std::vector<DnsSource> dns;
  GraphSettings graph;
  ExchangeSettings exchange;
  std::map<std::string, Module> modules;  // always holds echo and read
  std::string keys_file;
  std::vector<Key> keys;

  std::string state_dir;
  std::string control_socket;
  std::string sysfs = "/sys";
  std::string config_file;
  std::string check_config_target;            // check-config FILE
  std::string reference_format = "markdown";  // metrics-reference
  PingOptions ping;
  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kLogfmt;

  // Long names of the flags that were given: the file leaves these be.
  std::vector<std::string> set_by_flag;

  Options();
  bool has_peers() const { return !static_peers.empty() || !file_sd.empty() || !dns.empty(); }
  bool responds() const;
};

// Parses the command line and, when named, the configuration file and the keys file that it names. A reload is a second
// call with the same arguments; on failure the options of the first call stay in force. Thread-safe; throws nothing.
tl::expected<Options, Exit> parse_command_line(int argc, const char* const* argv);

// Applies a YAML file to `options` where flags (options.set_by_flag) have not decided. On failure one line without its
// end: "FILE:LINE: key `x`: found ..., allowed ...", with every further problem of the file. Throws nothing.
tl::expected<Options, std::string> apply_config_file(const std::string& file, const Options& options);
// The same for a text; files that it names are not read.
tl::expected<Options, std::string> apply_config_text(std::string_view text, const std::string& file,
                                                     const Options& options);

// The keys file: at most two keys, each with a secret file beside it that others than owner and group cannot read.
// `read_secrets` false: only the form is checked (for tests of the parser).
tl::expected<std::vector<Key>, std::string> read_keys_file(const std::string& file);
tl::expected<std::vector<Key>, std::string> read_keys_text(std::string_view text, const std::string& file,
                                                           bool read_secrets);

// Whether there are keys, and none of them may be used any more: then nothing is probed or answered.
bool all_expired(const std::vector<Key>& keys);

// The command check-config: "FILE: ok" and 0, or the problems and 2.
Exit check_config(const std::string& file);

// "2027-06-30T00:00:00Z" or "2027-06-30".
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

// "10.0.0.0/8", "fd00::/8", or an address alone. IPv4 prefixes are those of mapped addresses, so 96 bits longer.
std::optional<EngineSettings::Prefix> parse_prefix(std::string_view text);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "probes/config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "exporter/config/values.h"
#include "probes/wire/packet.h"

namespace roce::probe {
namespace {

using config::Kind;
using config::Problem;
using config::ticked;
using Outcome = std::optional<Problem>;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::string_view kWeb = "Web";
constexpr std::string_view kProbing = "Probing";
constexpr std::string_view kResponder = "Responder and exchange";
constexpr std::string_view kPeers = "Peers";
constexpr std::string_view kGeneral = "General";

std::string on_off(bool value) { return value ? "on" : "off"; }

template <auto Member, int Low, int High, bool Off>
Outcome set_engine_time(Options& options, std::string_view text) {
  return set_milliseconds(text, Low, High, Off ? "off" : "", options.engine.*Member);
}
template <auto Member>
std::string engine_time(const Options& options) {
  const auto value = options.engine.*Member;
  return value.count() == 0 ? "off" : config::duration_text(value);
}

// A path that is opened later, by who needs it.
Outcome set_path(std::string_view text, std::string_view allowed, std::string& out) {
  if (text.empty() || text.find('\0') != std::string_view::npos || text.size() > 4000)
    return Problem{ticked(text), std::string(allowed), {}};
  out = text;
  return {};
}

Outcome set_readable(std::string_view text, std::string& out) {
  return config::set_file(text, false, "a file that can be read", out);
}

// A whole or decimal number above zero.
Outcome set_rate(std::string_view text, double high, std::string_view unit, double& out) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > high)
    return Problem{ticked(text), fmt::format("a number above 0, at most {:g} {}", high, unit), {}};
  out = value;
  return {};
}

Outcome set_ratio(std::string_view text, std::optional<double>& out) {
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (percent) value /= 100;
  if (error != std::errc() || end != digits.data() + digits.size() || !(value >= 0) || value > 1)
    return Problem{ticked(text), "a ratio from 0 to 1, or a percentage such as 0.1%", {}};
  out = value;
  return {};
}

Outcome set_limit(std::string_view text, std::optional<microseconds>& out) {
  microseconds value{};
  if (auto problem = config::set_duration(text, microseconds(1), std::chrono::seconds(60), "", value)) return problem;
  out = value;
  return {};
}

bool is_label(std::string_view text) {
  return !text.empty() && text.size() <= 128 &&
         std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x21; });
}

Outcome set_label(std::string_view text, std::string_view allowed, std::string& out) {
  if (!is_label(text)) return Problem{ticked(text), std::string(allowed), {}};
  out = text;
  return {};
}

Outcome set_node(Options& o, std::string_view text) { return set_label(text, "a name without blanks", o.engine.node); }

Outcome add_device(Options& o, std::string_view text) {
  const bool good = is_label(text) && text.find('/') == std::string_view::npos && text != "." && text != "..";
  if (!good) return Problem{ticked(text), "the name of an RDMA device, such as mlx5_0", {}};
  if (std::find(o.engine.devices.begin(), o.engine.devices.end(), text) != o.engine.devices.end())
    return Problem{ticked(text) + " twice", "each device once", {}};
  if (o.engine.devices.size() >= 16) return Problem{"more devices", "at most 16", {}};
  o.engine.devices.emplace_back(text);
  return {};
}

Outcome add_prefix(Options& o, std::string_view text) {
  const auto prefix = parse_prefix(text);
  if (!prefix) return Problem{ticked(text), "an address or prefix such as 10.0.0.0/8 or fd00::/8", {}};
  if (o.engine.allowed.size() >= 256) return Problem{"more prefixes", "at most 256", {}};
  o.engine.allowed.push_back(*prefix);
  return {};
}

constexpr std::array<std::string_view, 3> kResponderWords{"auto", "on", "off"};
Outcome set_responder(Options& o, std::string_view text) {
  if (text == "true") text = "on";
  if (text == "false") text = "off";
  const auto found = std::find(kResponderWords.begin(), kResponderWords.end(), text);
  if (found == kResponderWords.end()) return config::not_one_of(text, kResponderWords);
  o.responder = static_cast<Options::Responder>(found - kResponderWords.begin());
  return {};
}

Outcome set_port(std::string_view text, std::uint16_t& out) {
  std::uint32_t port = 0;
  if (auto problem = config::set_number(text, 1u, 65535u, "", port)) return problem;
  out = static_cast<std::uint16_t>(port);
  return {};
}

Outcome set_degree(Options& o, std::string_view text) {
  std::uint32_t degree = 0;
  if (config::set_number(text, 4u, 32u, "", degree) || degree % 2 != 0)
    return Problem{ticked(text), "an even number from 4 to 32", {}};
  o.graph.degree = degree;
  return {};
}

Outcome add_glob(Options& o, std::string_view text) {
  if (!text.ends_with(".json") || text.size() > 4000 || text.find('\0') != std::string_view::npos)
    return Problem{ticked(text), "a path that ends with .json, which may hold * in its last part", {}};
  if (text.substr(0, text.find_last_of('/') + 1).find('*') != std::string_view::npos)
    return Problem{ticked(text), "* in the last part of the path only", {}};
  if (o.file_sd.size() >= 32) return Problem{"more files", "at most 32", {}};
  o.file_sd.emplace_back(text);
  return {};
}

constexpr std::array<std::string_view, 2> kKinds{"echo", "read"};

const Setting kSettings[] = {
    {"web.listen-address", "web.listen_addresses", Kind::kList, kWeb, "[HOST]:PORT",
     "Address to serve on. May be given several times.",
     [](Options& o, std::string_view t) { return config::add_listen_address(t, o.listen_addresses); },
     [](const Options& o) { return fmt::format("{}", fmt::join(o.listen_addresses, ", ")); },
     [](Options& o) { o.listen_addresses.clear(); }},
    {"web.telemetry-path", "web.telemetry_path", Kind::kText, kWeb, "PATH", "URL path of the metrics.",
     [](Options& o, std::string_view t) {
       return config::set_telemetry_path(t, {"/probe", "/rdma/endpoint", "/peers.json"}, o.telemetry_path);
     },
     [](const Options& o) { return o.telemetry_path; }},
    {"web.config.file", "web.config_file", Kind::kText, kWeb, "FILE",
     "Web configuration in the format of the Prometheus exporter toolkit: TLS, client certificates, users.",
     [](Options& o, std::string_view t) { return set_readable(t, o.web_config_file); },
     [](const Options& o) { return o.web_config_file; }},
    {"web.max-requests", "web.max_requests", Kind::kNumber, kWeb, "N",
     "Scrapes answered at the same time; 0 sets no limit.",
     [](Options& o, std::string_view t) { return config::set_number(t, 0, 10000, "no limit", o.max_requests); },
     [](const Options& o) { return fmt::to_string(o.max_requests); }},
    {"web.enable-lifecycle", "web.enable_lifecycle", Kind::kSwitch, kWeb, "",
     "Let POST /-/reload read the configuration again. SIGHUP always does.",
     [](Options& o, std::string_view t) { return config::parse_switch(t, o.enable_lifecycle); },
     [](const Options& o) { return on_off(o.enable_lifecycle); }},

    {"rdma.device", "devices", Kind::kList, kProbing, "NAME",
     "RDMA device to probe from and to answer on. May be given several times. Default: those that carry NVMe-oF "
     "connections when any does, else all.",
     add_device, [](const Options&) { return std::string(); }, [](Options& o) { o.engine.devices.clear(); }},
    {"", "probes.interval", Kind::kText, kProbing, "DURATION", "Between probes of one peer and class, 100ms to 1m.",
     set_engine_time<&EngineSettings::interval, 100, 60000, false>, engine_time<&EngineSettings::interval>},
    {"", "probes.deadline", Kind::kText, kProbing, "DURATION", "A reply after it is late, 1ms to 5s.",
     set_engine_time<&EngineSettings::deadline, 1, 5000, false>, engine_time<&EngineSettings::deadline>},
    {"", "probes.read_interval", Kind::kText, kProbing, "DURATION", "Between RC READs of one peer, 1s to 10m, or off.",
     set_engine_time<&EngineSettings::read_interval, 1000, 600000, true>, engine_time<&EngineSettings::read_interval>},
    {"", "probes.loopback_interval", Kind::kText, kProbing, "DURATION",
     "Between probes of a device to itself, 100ms to 1m, or off.",
     set_engine_time<&EngineSettings::loopback_interval, 100, 60000, true>,
     engine_time<&EngineSettings::loopback_interval>},
    {"", "probes.connect_interval", Kind::kText, kProbing, "DURATION",
     "Between connections by rdma_cm to one peer, 1m to 1h, or off.",
     set_engine_time<&EngineSettings::connect_interval, 60000, 3600000, true>,
     engine_time<&EngineSettings::connect_interval>},
    {"", "probes.registration_interval", Kind::kText, kProbing, "DURATION",
     "Between registrations of memory, 1m to 1h, or off.",
     set_engine_time<&EngineSettings::registration_interval, 60000, 3600000, true>,
     engine_time<&EngineSettings::registration_interval>},
    {"probe.budget", "probes.budget", Kind::kNumber, kProbing, "N",
     "Probes a second of the whole node, at most 200. Where peers and classes need more, the interval stretches.",
     [](Options& o, std::string_view t) { return set_rate(t, kMostProbesASecond, "probes a second", o.engine.budget); },
     [](const Options& o) { return fmt::format("{:g}", o.engine.budget); }},
    {"", "probes.labels", Kind::kNumber, kProbing, "N", "Flow labels a peer, which fabrics spread over their paths.",
     [](Options& o, std::string_view t) { return config::set_number(t, 1u, 16u, "", o.engine.labels); },
     [](const Options& o) { return fmt::to_string(o.engine.labels); }},
    {"", "probes.hop_limit", Kind::kNumber, kProbing, "N", "Hop limit of what is sent.",
     [](Options& o, std::string_view t) {
       std::uint32_t value = 0;
       if (auto problem = config::set_number(t, 1u, 255u, "", value)) return Outcome(std::move(problem));
       o.engine.hop_limit = static_cast<std::uint8_t>(value);
       return Outcome();
     },
     [](const Options& o) { return fmt::to_string(o.engine.hop_limit); }},
    {"", "probes.size", Kind::kNumber, kProbing, "BYTES", "Payload of a probe.",
     [](Options& o, std::string_view t) { return config::set_number(t, 128u, kLargestProbe, "", o.engine.payload); },
     [](const Options& o) { return fmt::to_string(o.engine.payload); }},
    {"", "probes.spin", Kind::kText, kProbing, "DURATION",
     "Busy wait for a reply where the device has no timestamps, at most 200us, or off.",
     [](Options& o, std::string_view t) {
       return config::set_duration(t, microseconds(1), microseconds(200), "off", o.engine.spin);
     },
     [](const Options& o) { return o.engine.spin.count() == 0 ? "off" : config::duration_text(o.engine.spin); }},

    {"responder", "responder.enabled", Kind::kText, kResponder, "auto|on|off",
     "Answer probes of others. auto: where peers or allowed prefixes are configured, and a key.", set_responder,
     [](const Options& o) { return std::string(kResponderWords[static_cast<std::size_t>(o.responder)]); }},
    {"", "responder.allowed", Kind::kList, kResponder, "PREFIX", "Sources that are answered beside the peers.",
     add_prefix, [](const Options&) { return std::string(); }, [](Options& o) { o.engine.allowed.clear(); }},
    {"", "responder.source_rate", Kind::kNumber, kResponder, "N", "Requests a second that one source may send.",
     [](Options& o, std::string_view t) { return set_rate(t, 1000, "requests a second", o.engine.source_rate); },
     [](const Options& o) { return fmt::format("{:g}", o.engine.source_rate); }},
    {"", "responder.total_rate", Kind::kNumber, kResponder, "N", "Requests a second that all may send.",
     [](Options& o, std::string_view t) { return set_rate(t, 20000, "requests a second", o.engine.total_rate); },
     [](const Options& o) { return fmt::format("{:g}", o.engine.total_rate); }},
    {"keys.file", "keys_file", Kind::kText, kResponder, "FILE",
     "The keys that sign probes: id, secret_file and not_after of at most two.",
     [](Options& o, std::string_view t) { return set_path(t, "a YAML file", o.keys_file); },
     [](const Options& o) { return o.keys_file; }},
    {"", "exchange.ca_file", Kind::kText, kResponder, "FILE", "Whose certificates of other probers are good.",
     [](Options& o, std::string_view t) { return set_readable(t, o.exchange.ca_file); },
     [](const Options& o) { return o.exchange.ca_file; }},
    {"", "exchange.cert_file", Kind::kText, kResponder, "FILE", "Certificate to show to other probers.",
     [](Options& o, std::string_view t) { return set_readable(t, o.exchange.cert_file); },
     [](const Options& o) { return o.exchange.cert_file; }},
    {"", "exchange.key_file", Kind::kText, kResponder, "FILE", "Its key.",
     [](Options& o, std::string_view t) { return set_readable(t, o.exchange.key_file); },
     [](const Options& o) { return o.exchange.key_file; }},
    {"", "exchange.bearer_token_file", Kind::kText, kResponder, "FILE",
     "Token to show to other probers, and which they may show here in place of a certificate.",
     [](Options& o, std::string_view t) { return set_readable(t, o.exchange.bearer_token_file); },
     [](const Options& o) { return o.exchange.bearer_token_file; }},
    {"", "exchange.listen_addresses", Kind::kList, kResponder, "[HOST]:PORT",
     "Serve /rdma/endpoint on addresses of its own too, by exchange.web_config_file.",
     [](Options& o, std::string_view t) { return config::add_listen_address(t, o.exchange.listen_addresses); },
     [](const Options&) { return std::string(); }, [](Options& o) { o.exchange.listen_addresses.clear(); }},
    {"", "exchange.web_config_file", Kind::kText, kResponder, "FILE",
     "Web configuration with TLS for exchange.listen_addresses.",
     [](Options& o, std::string_view t) { return set_readable(t, o.exchange.web_config_file); },
     [](const Options& o) { return o.exchange.web_config_file; }},
    {"", "exchange.port", Kind::kNumber, kResponder, "PORT", "Port of other probers where none is named.",
     [](Options& o, std::string_view t) { return set_port(t, o.exchange.port); },
     [](const Options& o) { return fmt::to_string(o.exchange.port); }},

    {"", "graph.seed", Kind::kText, kPeers, "TEXT", "Orders the nodes; the same on all of them.",
     [](Options& o, std::string_view t) { return set_label(t, "a text without blanks", o.graph.seed); },
     [](const Options& o) { return o.graph.seed; }},
    {"", "graph.degree", Kind::kNumber, kPeers, "N", "Peers of an endpoint in a rail above graph.full_mesh endpoints.",
     set_degree, [](const Options& o) { return fmt::to_string(o.graph.degree); }},
    {"", "graph.full_mesh", Kind::kNumber, kPeers, "N", "Up to so many endpoints of a rail all probe all.",
     [](Options& o, std::string_view t) { return config::set_number(t, 2u, kMostPeers, "", o.graph.full_mesh); },
     [](const Options& o) { return fmt::to_string(o.graph.full_mesh); }},
    {"", "graph.max_peers", Kind::kNumber, kPeers, "N", "Peers of this node at most.",
     [](Options& o, std::string_view t) { return config::set_number(t, 1u, kMostPeers, "", o.graph.max_peers); },
     [](const Options& o) { return fmt::to_string(o.graph.max_peers); }},
    {"", "graph.storage", Kind::kSwitch, kPeers, "", "Probe the far ends of NVMe-oF connections first.",
     [](Options& o, std::string_view t) { return config::parse_switch(t, o.graph.storage); },
     [](const Options& o) { return on_off(o.graph.storage); }},
    {"", "peers.file_sd", Kind::kList, kPeers, "GLOB", "Files with targets in Prometheus' JSON.", add_glob,
     [](const Options&) { return std::string(); }, [](Options& o) { o.file_sd.clear(); }},
    {"", "peers.file_sd_refresh", Kind::kText, kPeers, "DURATION", "How often they are read again at the latest.",
     [](Options& o, std::string_view t) {
       return config::set_duration(t, std::chrono::seconds(5), std::chrono::hours(1), "", o.file_sd_refresh);
     },
     [](const Options& o) { return config::duration_text(o.file_sd_refresh); }},

    {"node.name", "node_name", Kind::kText, kGeneral, "NAME",
     "Name of this node in the lists of others. Default: the host name.", set_node,
     [](const Options&) { return std::string(); }},
    {"config.file", "", Kind::kText, kGeneral, "FILE",
     "Configuration file in YAML; flags win over it. It is read again on SIGHUP.",
     [](Options& o, std::string_view t) { return set_path(t, "a YAML file that can be read", o.config_file); },
     [](const Options& o) { return o.config_file; }},
    {"state.dir", "state_dir", Kind::kText, kGeneral, "DIR",
     "Where baselines are kept over a restart. Default: $STATE_DIRECTORY, else nowhere.",
     [](Options& o, std::string_view t) { return config::set_directory(t, "", o.state_dir); },
     [](const Options& o) { return o.state_dir; }},
    {"control.socket", "control_socket", Kind::kText, kGeneral, "PATH",
     "Unix socket that takes POST /-/release?seconds=N, which closes every RDMA device for that long.",
     [](Options& o, std::string_view t) {
       if (t.size() >= 100) return Outcome(Problem{ticked(t), "a path of less than 100 bytes", {}});
       return set_path(t, "a path", o.control_socket);
     },
     [](const Options& o) { return o.control_socket; }},
    {"path.sysfs", "path.sysfs", Kind::kText, kGeneral, "DIR", "Mount point of sysfs.",
     [](Options& o, std::string_view t) { return config::set_directory(t, "/sys", o.sysfs); },
     [](const Options& o) { return o.sysfs; }},
    {"log.level", "log.level", Kind::kText, kGeneral, "LEVEL", "Least level to log: debug, info, warn or error.",
     [](Options& o, std::string_view t) { return config::set_log_level(t, o.log_level); },
     [](const Options& o) { return std::string(config::name_of(o.log_level)); }},
    {"log.format", "log.format", Kind::kText, kGeneral, "FORMAT", "Form of the log: logfmt or json.",
     [](Options& o, std::string_view t) { return config::set_log_format(t, o.log_format); },
     [](const Options& o) { return std::string(config::name_of(o.log_format)); }},
};

std::string no_default(const Options&) { return {}; }

const Setting kPingSettings[] = {
    {"count",
     "",
     Kind::kNumber,
     {},
     "N",
     "Probes to send.",
     [](Options& o, std::string_view t) { return config::set_number(t, 1u, kMostPing, "", o.ping.count); },
     [](const Options& o) { return fmt::to_string(o.ping.count); }},
    {"size",
     "",
     Kind::kNumber,
     {},
     "BYTES",
     "Payload of a probe.",
     [](Options& o, std::string_view t) { return config::set_number(t, 8u, kLargestProbe, "", o.ping.size); },
     [](const Options& o) { return fmt::to_string(o.ping.size); }},
    {"gap",
     "",
     Kind::kText,
     {},
     "DURATION",
     "Between two probes, 1ms to 10s; 0: the next goes when the one before is answered.",
     [](Options& o, std::string_view t) {
       return config::set_duration(t, milliseconds(1), std::chrono::seconds(10), "0", o.ping.gap);
     },
     [](const Options& o) { return config::duration_text(o.ping.gap); }},
    {"deadline",
     "",
     Kind::kText,
     {},
     "DURATION",
     "What is not answered until then is lost, 1ms to 5s.",
     [](Options& o, std::string_view t) {
       return config::set_duration(t, milliseconds(1), std::chrono::seconds(5), "", o.ping.deadline);
     },
     [](const Options& o) { return config::duration_text(o.ping.deadline); }},
    {"qos",
     "",
     Kind::kText,
     {},
     "CLASS",
     "Class to send in. Default: the first one.",
     [](Options& o, std::string_view t) { return set_label(t, "the name of a class", o.ping.qos); },
     no_default},
    {"kind",
     "",
     Kind::kText,
     {},
     "echo|read",
     "UD messages that the peer's responder sends back, or RC READs.",
     [](Options& o, std::string_view t) { return set_kind(t, o.ping.kind); },
     [](const Options& o) { return std::string(kKinds[static_cast<std::size_t>(o.ping.kind)]); }},
    {"device",
     "",
     Kind::kText,
     {},
     "NAME",
     "Local RDMA device. Default: the first one.",
     [](Options& o, std::string_view t) { return set_label(t, "the name of an RDMA device", o.ping.device); },
     no_default},
    {"max-median",
     "",
     Kind::kText,
     {},
     "DURATION",
     "Exit with 1 when the median is above it.",
     [](Options& o, std::string_view t) { return set_limit(t, o.ping.max_median); },
     no_default},
    {"max-p99",
     "",
     Kind::kText,
     {},
     "DURATION",
     "Exit with 1 when the 99th percentile is above it.",
     [](Options& o, std::string_view t) { return set_limit(t, o.ping.max_p99); },
     no_default},
    {"max-loss",
     "",
     Kind::kText,
     {},
     "RATIO",
     "Exit with 1 when more is lost: 0.001 or 0.1%.",
     [](Options& o, std::string_view t) { return set_ratio(t, o.ping.max_loss); },
     no_default},
};

}  // namespace

std::span<const Setting> settings() { return kSettings; }
std::span<const Setting> ping_settings() { return kPingSettings; }

std::optional<Problem> set_kind(std::string_view text, BurstSpec::Kind& out) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), text);
  if (found == kKinds.end()) return config::not_one_of(text, kKinds);
  out = found == kKinds.begin() ? BurstSpec::Kind::kEcho : BurstSpec::Kind::kRead;
  return {};
}

std::optional<Problem> wrong_size(BurstSpec::Kind kind, std::uint32_t size) {
  if (kind != BurstSpec::Kind::kEcho || size >= kPacketBytes) return {};
  return Problem{ticked(fmt::to_string(size)),
                 fmt::format("{} to {} bytes where the kind is echo", kPacketBytes, kLargestProbe),
                 {}};
}

std::optional<Problem> set_milliseconds(std::string_view text, int low, int high, std::string_view off,
                                        std::chrono::milliseconds& out) {
  microseconds value{};
  if (auto problem = config::set_duration(text, milliseconds(low), milliseconds(high), off, value)) return problem;
  if (value.count() % 1000 != 0) return Problem{ticked(text), "whole milliseconds", {}};
  out = std::chrono::duration_cast<milliseconds>(value);
  return {};
}

}  // namespace roce::probe

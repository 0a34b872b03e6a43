// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/setting.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace roce::config {
namespace {

using Outcome = std::optional<Problem>;

Outcome set_regexp(std::string_view text, std::string& out) {
  RE2::Options quiet(RE2::Quiet);
  const RE2 expression(re2::StringPiece(text.data(), text.size()), quiet);
  if (!expression.ok()) {
    return Problem{
        fmt::format("{} ({})", ticked(text), one_line(expression.error())), "a regular expression in RE2 syntax", {}};
  }
  out = text;
  return {};
}

Outcome set_sampler_interval(std::string_view text, std::chrono::milliseconds& out) {
  if (text == "off") {
    out = std::chrono::milliseconds(0);
    return {};
  }
  const bool in_milliseconds = text.ends_with("ms");
  const std::string_view digits =
      text.substr(0, text.size() - std::min<std::size_t>(text.size(), in_milliseconds ? 2 : 1));
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool complete = error == std::errc() && end == digits.data() + digits.size() && text.ends_with('s');
  const auto duration = std::chrono::milliseconds(in_milliseconds ? number : std::min(number, 1000U) * 1000U);
  if (!complete || duration < std::chrono::milliseconds(100) || duration > std::chrono::milliseconds(2000))
    return Problem{ticked(text), "off, or 100ms to 2s", {}};
  out = duration;
  return {};
}

Outcome set_window(std::string_view text, std::chrono::milliseconds& out) {
  std::chrono::microseconds window{};
  if (auto problem = set_duration(text, std::chrono::seconds(1), std::chrono::minutes(10), {}, window)) return problem;
  out = std::chrono::duration_cast<std::chrono::milliseconds>(window);
  return {};
}

Outcome set_control_socket(std::string_view text, std::string& out) {
  if (text.empty() || text == "off") {
    out.clear();
    return {};
  }
  // What the kernel's address of a Unix socket holds.
  if (text.size() > 107 || !text.starts_with('/') || text.ends_with('/') || text.find('\0') != std::string_view::npos)
    return Problem{ticked(text), "off, or an absolute path of at most 107 bytes", {}};
  out = text;
  return {};
}

Outcome add_text(std::string_view text, std::string_view allowed, std::vector<std::string>& out) {
  if (text.empty() || text.size() > 256) return Problem{ticked(text), std::string(allowed), {}};
  out.emplace_back(text);
  return {};
}

constexpr std::array<std::string_view, 2> kReferenceFormats{"markdown", "json"};
constexpr std::array<std::string_view, 5> kCheckFormats{"text", "json", "nagios", "npd", "tsv"};
constexpr std::array<std::string_view, 4> kClasses{"fault", "drift", "capacity", "unknown"};

template <std::size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::string on_off(bool value) { return value ? "on" : "off"; }

constexpr std::array<std::string_view, 3> kDemos{"lab", "made-up", "no-rdma"};

// The flag alone says "true", its --no- form "false".
std::optional<Problem> set_demo(std::string_view text, std::string& out) {
  if (text == "true") text = kDemos.front();
  if (text != "false" && !one_of(text, kDemos)) return not_one_of(text, kDemos);
  out = text == "false" ? "" : text;
  return {};
}

constexpr std::string_view kWeb = "Web";
constexpr std::string_view kSources = "Where to read";
constexpr std::string_view kCollectors = "Collectors";
constexpr std::string_view kHealth = "Health";
constexpr std::string_view kGeneral = "General";

constexpr Setting kSettings[] = {
    {"web.listen-address", "web.listen_addresses", Kind::kList, kWeb, "[HOST]:PORT",
     "Address to serve on. May be given several times.",
     [](Options& o, std::string_view text) { return add_listen_address(text, o.listen_addresses); },
     [](const Options& o) { return fmt::format("{}", fmt::join(o.listen_addresses, ", ")); },
     [](Options& o) { o.listen_addresses.clear(); }},
    {"web.telemetry-path", "web.telemetry_path", Kind::kText, kWeb, "PATH", "URL path of the metrics.",
     [](Options& o, std::string_view text) { return set_telemetry_path(text, {"/health"}, o.telemetry_path); },
     [](const Options& o) { return o.telemetry_path; }},
    {"web.config.file", "web.config_file", Kind::kText, kWeb, "FILE",
     "Web configuration in the format of the Prometheus exporter toolkit: TLS, client certificates, users.",
     [](Options& o, std::string_view text) {
       return set_file(text, false, "a file that can be read", o.web_config_file);
     },
     [](const Options& o) { return o.web_config_file; }},
    {"web.max-requests", "web.max_requests", Kind::kNumber, kWeb, "N",
     "Scrapes answered at the same time; 0 sets no limit.",
     [](Options& o, std::string_view text) { return set_number(text, 0, 10000, "no limit", o.max_requests); },
     [](const Options& o) { return fmt::to_string(o.max_requests); }},
    {"web.enable-lifecycle", "web.enable_lifecycle", Kind::kSwitch, kWeb, "",
     "Let POST /-/reload read the configuration again. SIGHUP always does.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.enable_lifecycle); },
     [](const Options& o) { return on_off(o.enable_lifecycle); }},

    {"path.sysfs", "path.sysfs", Kind::kText, kSources, "DIR",
     "Mount point of sysfs. With another than /sys nothing is asked by netlink or ioctl.",
     [](Options& o, std::string_view text) { return set_directory(text, "/sys", o.sysfs); },
     [](const Options& o) { return o.sysfs; }},
    {"path.procfs", "path.procfs", Kind::kText, kSources, "DIR",
     "Mount point of procfs. Beside a made sysfs tree none is read unless it is named.",
     [](Options& o, std::string_view text) { return set_directory(text, "/proc", o.procfs, true); },
     [](const Options& o) { return o.procfs.empty() ? std::string("/proc") : o.procfs; }},
    {"path.rootfs", "path.rootfs", Kind::kText, kSources, "DIR", "Mount point of the host's root file system.",
     [](Options& o, std::string_view text) { return set_directory(text, "/", o.rootfs); },
     [](const Options& o) { return o.rootfs; }},
    {"replay", "", Kind::kText, kSources, "DIR|FILE.tar",
     "Read a recording instead of this host: a folder, or a tar file as `capture` writes it.",
     [](Options& o, std::string_view text) {
       return set_file(text, true, "a recording: a directory or tar file that can be read", o.replay);
     },
     [](const Options& o) { return o.replay; }},
    {"demo", "", Kind::kSwitch, kSources, "",
     "Show a recorded host instead of this one, for a look without RDMA hardware: a machine of the lab that moves as "
     "it did under load. --demo=made-up: an invented storage client with four ports. --demo=no-rdma: one without RDMA.",
     [](Options& o, std::string_view text) { return set_demo(text, o.demo); },
     [](const Options& o) { return o.demo.empty() ? std::string("off") : o.demo; }},

    {"collector.disable-defaults", "collectors.disable_defaults", Kind::kSwitch, kCollectors, "",
     "Run only the collectors that are switched on by name.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.disable_default_collectors); },
     [](const Options& o) { return on_off(o.disable_default_collectors); }},
    {"collector.rdma.device-include", "rdma.device_include", Kind::kText, kCollectors, "REGEXP",
     "RDMA devices to read; no other is opened. Matches anywhere in the name; ^...$ for the whole.",
     [](Options& o, std::string_view text) { return set_regexp(text, o.rdma_devices.include); },
     [](const Options& o) { return o.rdma_devices.include; }},
    {"collector.rdma.device-exclude", "rdma.device_exclude", Kind::kText, kCollectors, "REGEXP",
     "RDMA devices to leave alone, also where they are included.",
     [](Options& o, std::string_view text) { return set_regexp(text, o.rdma_devices.exclude); },
     [](const Options& o) { return o.rdma_devices.exclude; }},
    {"collector.netdev.device-include", "netdev.device_include", Kind::kText, kCollectors, "REGEXP",
     "Network devices to read; no other is opened. Matches anywhere in the name; ^...$ for the whole.",
     [](Options& o, std::string_view text) { return set_regexp(text, o.netdevs.include); },
     [](const Options& o) { return o.netdevs.include; }},
    {"collector.netdev.device-exclude", "netdev.device_exclude", Kind::kText, kCollectors, "REGEXP",
     "Network devices to leave alone, also where they are included.",
     [](Options& o, std::string_view text) { return set_regexp(text, o.netdevs.exclude); },
     [](const Options& o) { return o.netdevs.exclude; }},
    {"collector.ethtool.raw", "ethtool.raw", Kind::kSwitch, kCollectors, "",
     "Also publish every statistic of a network driver under its own name, up to the series limit.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.ethtool_raw); },
     [](const Options& o) { return on_off(o.ethtool_raw); }},
    {"collector.ethtool.per-queue", "ethtool.per_queue", Kind::kSwitch, kCollectors, "",
     "Also publish the statistics of single queues that a network driver lists, up to the series limit.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.ethtool_per_queue); },
     [](const Options& o) { return on_off(o.ethtool_per_queue); }},
    {"collector.qp.max", "qp.max", Kind::kNumber, kCollectors, "N",
     "Queue pairs are looked at one by one only while a device has at most N.",
     [](Options& o, std::string_view text) { return set_number(text, 0u, 10000000u, "never", o.qp_max); },
     [](const Options& o) { return fmt::to_string(o.qp_max); }},
    {"sampler.interval", "sampler.interval", Kind::kText, kCollectors, "DURATION",
     "Read a few counters this often between scrapes and keep their peaks: 100ms to 2s, or off.",
     [](Options& o, std::string_view text) { return set_sampler_interval(text, o.sampler_interval); },
     [](const Options& o) {
       return o.sampler_interval.count() == 0 ? std::string("off") : fmt::format("{}ms", o.sampler_interval.count());
     }},

    {"profile.file", "health.profile_file", Kind::kText, kHealth, "FILE",
     "What this host should look like, in YAML; check, /health and metrics compare.",
     [](Options& o, std::string_view text) { return set_file(text, false, "a file that can be read", o.profile_file); },
     [](const Options& o) { return o.profile_file; }},
    {"state.dir", "health.state_dir", Kind::kText, kHealth, "DIR",
     "Where to keep since when findings are there, over restarts. The default is used where it exists.",
     [](Options& o, std::string_view text) { return set_directory(text, Options().state_dir, o.state_dir); },
     [](const Options& o) { return o.state_dir; }},
    {"control.socket", "health.control_socket", Kind::kText, kHealth, "PATH",
     "Unix socket on which check asks the running exporter, or off. Its directory must exist.",
     [](Options& o, std::string_view text) { return set_control_socket(text, o.control_socket); },
     [](const Options& o) { return o.control_socket.empty() ? std::string("off") : o.control_socket; }},

    {"compat.node-infiniband", "compat.node_infiniband", Kind::kSwitch, kGeneral, "",
     "Also publish the infiniband family of node_exporter, under its names.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.compat_node_infiniband); },
     [](const Options& o) { return on_off(o.compat_node_infiniband); }},
    {"hide-identity", "hide_identity", Kind::kSwitch, kGeneral, "",
     "Leave GUIDs, boards, addresses, NQNs, peers and process names out of every page and the log; digests stand for "
     "mounts and cgroups.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.hide_identity); },
     [](const Options& o) { return on_off(o.hide_identity); }},
    {"config.file", "", Kind::kText, kGeneral, "FILE",
     "Configuration file in YAML; flags win over it. It is read again on SIGHUP.",
     [](Options& o, std::string_view text) -> Outcome {
       if (text.empty()) return Problem{"nothing", "a YAML file that can be read", {}};
       o.config_file = text;
       return {};
     },
     [](const Options& o) { return o.config_file; }},
    {"log.level", "log.level", Kind::kText, kGeneral, "LEVEL", "Least level to log: debug, info, warn or error.",
     [](Options& o, std::string_view text) { return set_log_level(text, o.log_level); },
     [](const Options& o) { return std::string(name_of(o.log_level)); }},
    {"log.format", "log.format", Kind::kText, kGeneral, "FORMAT", "Form of the log: logfmt or json.",
     [](Options& o, std::string_view text) { return set_log_format(text, o.log_format); },
     [](const Options& o) { return std::string(name_of(o.log_format)); }},
};

constexpr CommandFlag kCommandFlags[] = {
    {"check", "format", "text|json|nagios|npd|tsv", "Form of the answer. Default: text.", false,
     [](Options& o, std::string_view text) -> Outcome {
       if (!one_of(text, kCheckFormats)) return not_one_of(text, kCheckFormats);
       o.check_format = text;
       return {};
     }},
    {"check", "device", "NAME", "Show what concerns this device alone. May be given several times.", true,
     [](Options& o, std::string_view text) { return add_text(text, "the name of a device", o.check_devices); }},
    {"check", "only", "CHECK", "Show the findings of this check alone. May be given several times.", true,
     [](Options& o, std::string_view text) { return add_text(text, "the id of a check", o.check_only); }},
    {"check", "class", "CLASS", "Show findings of this class alone: fault, drift, capacity or unknown.", true,
     [](Options& o, std::string_view text) -> Outcome {
       if (!one_of(text, kClasses)) return not_one_of(text, kClasses);
       o.check_classes.emplace_back(text);
       return {};
     }},
    {"check", "no-daemon", "", "Read this host now instead of asking the running exporter.", false,
     [](Options& o, std::string_view text) { return parse_switch(text, o.check_without_daemon); }},
    {"check", "window", "DURATION", "Time between the two readings where no exporter is asked: 1s to 10m. Default: 2s.",
     false, [](Options& o, std::string_view text) { return set_window(text, o.check_window); }},
    {"check", "advice", "", "Also run the checks that only advise. Implies --no-daemon.", false,
     [](Options& o, std::string_view text) { return parse_switch(text, o.check_advice); }},
    {"metrics-reference", "format", "markdown|json", "Form of the reference. Default: markdown.", false,
     [](Options& o, std::string_view text) -> Outcome {
       if (!one_of(text, kReferenceFormats)) return not_one_of(text, kReferenceFormats);
       o.reference_format = text;
       return {};
     }},
};

constexpr CommandHelp kCommands[] = {
    {"print", "", "Collect once and write the metrics to standard output."},
    {"check", "",
     "Say whether the storage links of this host are fit for work, and why not. Exit code 0 ok, 1 warning, 2 "
     "critical, 3 unknown or a mistake; with npd 0 ok or warning, 1 critical, 2 unknown."},
    {"profile", "init",
     "Write a profile of what is found to standard output. Exit code 1 where values failed a check."},
    {"capture", "DIR|FILE.tar",
     "Record what the metrics of this host are made of, for --replay elsewhere: only files of a fixed list, and with "
     "stand-ins for addresses, GUIDs, serial numbers, NQNs and host names. Of processes that hold RDMA contexts: "
     "number, memory, limits and cgroups, no command line and no user. No key is read."},
    {"check-config", "FILE",
     "Check a configuration file, a profile or a web configuration file and say what is wrong with it."},
    {"metrics-reference", "", "Describe every metric that can be published."},
    {"checks-reference", "", "Describe every check."},
};

}  // namespace

std::span<const Setting> settings() { return kSettings; }

std::span<const CommandFlag> command_flags() { return kCommandFlags; }

std::span<const CommandHelp> commands() { return kCommands; }

}  // namespace roce::config

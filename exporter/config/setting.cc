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

constexpr std::array<std::string_view, 2> kReferenceFormats{"markdown", "json"};

std::string on_off(bool value) { return value ? "on" : "off"; }

constexpr std::string_view kWeb = "Web";
constexpr std::string_view kSources = "Where to read";
constexpr std::string_view kCollectors = "Collectors";
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

    {"path.sysfs", "path.sysfs", Kind::kText, kSources, "DIR", "Mount point of sysfs.",
     [](Options& o, std::string_view text) { return set_directory(text, "/sys", o.sysfs); },
     [](const Options& o) { return o.sysfs; }},
    {"path.procfs", "path.procfs", Kind::kText, kSources, "DIR",
     "Mount point of procfs. Beside a made sysfs tree none is read unless it is named.",
     [](Options& o, std::string_view text) { return set_directory(text, "/proc", o.procfs, true); },
     [](const Options& o) { return o.procfs.empty() ? std::string("/proc") : o.procfs; }},
    {"path.rootfs", "path.rootfs", Kind::kText, kSources, "DIR", "Mount point of the host's root file system.",
     [](Options& o, std::string_view text) { return set_directory(text, "/", o.rootfs); },
     [](const Options& o) { return o.rootfs; }},
    {"replay", "", Kind::kText, kSources, "DIR", "Read a recording instead of this host.",
     [](Options& o, std::string_view text) {
       return set_file(text, true, "a recording: a directory or tar file that can be read", o.replay);
     },
     [](const Options& o) { return o.replay; }},

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

    {"compat.node-infiniband", "compat.node_infiniband", Kind::kSwitch, kGeneral, "",
     "Also publish the infiniband family of node_exporter, under its names.",
     [](Options& o, std::string_view text) { return parse_switch(text, o.compat_node_infiniband); },
     [](const Options& o) { return on_off(o.compat_node_infiniband); }},
    {"hide-identity", "hide_identity", Kind::kSwitch, kGeneral, "",
     "Leave GUIDs, addresses, peers and process names out of every page.",
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

}  // namespace

std::span<const Setting> settings() { return kSettings; }

std::optional<Problem> set_reference_format(Options& options, std::string_view text) {
  if (text != "markdown" && text != "json") return not_one_of(text, kReferenceFormats);
  options.reference_format = text;
  return {};
}

}  // namespace roce::config

// SPDX-License-Identifier: Apache-2.0
//
// What the exporter was told, by flags and by the YAML configuration file. Flags win over the file.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/base/result.h"
#include "exporter/config/flags.h"

namespace roce {

// A name filter in RE2 syntax that matches anywhere in the name, as node_exporter's device filters do. Empty: no rule.
struct DeviceFilter {
  std::string include;
  std::string exclude;
};

struct Options {
  enum class Command {
    kServe,
    kPrint,
    kCheck,
    kProfileInit,
    kCapture,
    kCheckConfig,
    kMetricsReference,
    kChecksReference
  };
  Command command = Command::kServe;

  // web
  std::vector<std::string> listen_addresses{":14791"};
  std::string telemetry_path = "/metrics";
  std::string web_config_file;
  int max_requests = 40;
  bool enable_lifecycle = false;

  // sources
  std::string sysfs = "/sys";
  std::string procfs;  // empty: this host's, unless sysfs is a made tree, beside which there is none
  std::string rootfs = "/";
  std::string replay;  // recording: folder or tar
  std::string demo;    // one of the recordings that the program has in itself
  bool recorded() const { return !demo.empty() || !replay.empty(); }

  // collectors: flag or file decisions by name; what is not named keeps its default
  std::map<std::string, bool> collectors;
  bool disable_default_collectors = false;
  DeviceFilter rdma_devices;
  DeviceFilter netdevs;
  unsigned qp_max = 2000;
  std::chrono::milliseconds sampler_interval{0};  // 0: off
  bool ethtool_raw = false;
  bool ethtool_per_queue = false;

  bool compat_node_infiniband = false;
  bool hide_identity = false;

  // health
  std::string profile_file;
  std::string state_dir = "/var/lib/roce_exporter";
  std::string control_socket = "/run/roce_exporter/control.sock";  // empty: none

  // the command check
  std::string check_format = "text";
  std::vector<std::string> check_devices;
  std::vector<std::string> check_only;
  std::vector<std::string> check_classes;
  bool check_without_daemon = false;
  bool check_advice = false;
  std::chrono::milliseconds check_window{2000};

  std::string config_file;
  std::string check_config_target;            // check-config FILE
  std::string capture_target;                 // capture DIR|FILE.tar
  std::string reference_format = "markdown";  // metrics-reference
  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kLogfmt;

  // Long names of the flags that were given, without dashes ("log.level", "collector.NAME"): the file leaves these be.
  std::vector<std::string> set_by_flag;
};

// A collector that --collector.NAME can name, for help texts and checks.
struct CollectorChoice {
  std::string_view name;
  bool by_default;
  std::string_view help;
};

// Parses the command line and, when named and the command reads this host, the configuration file. Depends on nothing
// but its arguments and the files they name, so a reload is a second call with the same arguments; on failure the
// options of the first call stay in force. Thread-safe; throws nothing.
tl::expected<Options, Exit> parse_command_line(int argc, const char* const* argv,
                                               const std::vector<CollectorChoice>& collectors);

// Applies a YAML file to `options` where flags (named in `set_by_flag`, the long names) have not decided. On failure
// one line without its end, nothing changed: "FILE:LINE: key `x`: found ..., allowed ...", which also names every
// further problem of the file. Thread-safe; throws nothing.
tl::expected<Options, std::string> apply_config_file(const std::string& file, const Options& options,
                                                     const std::vector<std::string>& set_by_flag,
                                                     const std::vector<CollectorChoice>& collectors);

// The same for the text of a file that has been read; `file` only names it in the message.
tl::expected<Options, std::string> apply_config_text(std::string_view text, const std::string& file,
                                                     const Options& options,
                                                     const std::vector<std::string>& set_by_flag,
                                                     const std::vector<CollectorChoice>& collectors);

// The command check-config: "FILE: ok" and 0, or the problems and 2.
Exit check_config(const std::string& file, const std::vector<CollectorChoice>& collectors);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/congestion_control.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/card_functions.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// A parameter as the mainline driver names it in debugfs, and as a file of the vendor's package in ecn/roce_np or
// ecn/roce_rp.
struct Parameter {
  std::string_view name;
  std::string_view directory;  // empty: mainline only
  std::string_view file;
};
constexpr std::array<Parameter, 22> kMlx5Parameters{{
    {"np_cnp_dscp", "roce_np", "cnp_dscp"},
    {"np_cnp_prio", "roce_np", "cnp_802p_prio"},
    {"np_cnp_prio_mode", "", ""},
    {"np_min_time_between_cnps", "roce_np", "min_time_between_cnps"},
    {"rp_ai_rate", "roce_rp", "rpg_ai_rate"},
    {"rp_byte_reset", "roce_rp", "rpg_byte_reset"},
    {"rp_clamp_tgt_rate", "roce_rp", "clamp_tgt_rate"},
    {"rp_clamp_tgt_rate_ati", "roce_rp", "clamp_tgt_rate_after_time_inc"},
    {"rp_dce_tcp_g", "roce_rp", "dce_tcp_g"},
    {"rp_dce_tcp_rtt", "roce_rp", "dce_tcp_rtt"},
    {"rp_gd", "roce_rp", "rpg_gd"},
    {"rp_hai_rate", "roce_rp", "rpg_hai_rate"},
    {"rp_initial_alpha_value", "roce_rp", "initial_alpha_value"},
    {"rp_max_rate", "roce_rp", "rpg_max_rate"},
    {"rp_min_dec_fac", "roce_rp", "rpg_min_dec_fac"},
    {"rp_min_rate", "roce_rp", "rpg_min_rate"},
    {"rp_rate_reduce_monitor_period", "roce_rp", "rate_reduce_monitor_period"},
    {"rp_rate_to_set_on_first_cnp", "roce_rp", "rate_to_set_on_first_cnp"},
    {"rp_threshold", "roce_rp", "rpg_threshold"},
    {"rp_time_reset", "roce_rp", "rpg_time_reset"},
    {"rtt_resp_dscp", "", ""},
    {"rtt_resp_dscp_valid", "", ""},
}};
// Files of bnxt_re's cc_config in debugfs.
constexpr std::array<std::string_view, 6> kBnxtParameters{"enable_cc", "run_avg_weight_g", "init_cr",
                                                          "tos_ecn",   "tos_dscp",         "cc_mode"};

class CongestionControlCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    const CallTracker::Scope scope(host().calls.get(), "congestion_control", device().name);
    bool driver_told = false;
    for (const InventoryNetdev& netdev : device().netdevs) driver_told = add_ecn(netdev, *part) || driver_told;
    // Each value in debugfs is a question to the firmware: asked only where nothing else tells it.
    if (!driver_told) add_debugfs(*part);
    for (const InventoryPort& port : device().ports) add_defaults(port, *part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures_.conclude();
  }

 private:
  // ecn/ of the vendor's driver package. True where it is there.
  bool add_ecn(const InventoryNetdev& netdev, Part& part) {
    const std::string dir = netdev.path + "/ecn/";
    if (netdev.path.empty() || !exists(dir)) return false;
    // The notification point has one switch for the port, which stands in the file of any of the priorities.
    bool notification = false;
    unsigned told = 0;
    std::optional<Error> silent;
    for (char priority = '0'; priority <= '7'; ++priority) {
      if (const auto on = read_u64(dir + "roce_np/enable/" + priority)) {
        ++told;
        notification = notification || *on != 0;
      } else if (!silent || silent->kind == ErrorKind::kAbsent || silent->kind == ErrorKind::kUnsupported) {
        silent = on.error();
      }
      if (const auto on = failures_.value(read_u64(dir + "roce_rp/enable/" + priority)))
        part.samples.add(metric::ecn_enabled,
                         {netdev.device, netdev.port, netdev.name, "reaction", std::string_view(&priority, 1)},
                         *on != 0);
    }
    // Off only where all of them say so. One that is empty, or not there beside others, is broken.
    if (silent && told > 0 && (silent->kind == ErrorKind::kAbsent || silent->kind == ErrorKind::kUnsupported))
      silent->kind = ErrorKind::kMalformed;
    if (silent) failures_.note(*silent);
    if (notification || (told > 0 && !silent))
      part.samples.add(metric::ecn_enabled, {netdev.device, netdev.port, netdev.name, "notification", ""},
                       notification);
    for (const Parameter& parameter : kMlx5Parameters) {
      if (parameter.file.empty()) continue;
      add_parameter(netdev, parameter.name, dir + std::string(parameter.directory) + "/" + std::string(parameter.file),
                    part);
    }
    return true;
  }

  bool add_parameter(const InventoryNetdev& netdev, std::string_view name, const std::string& path, Part& part) {
    const auto value = failures_.value(read_u64(path));
    if (value) part.samples.add(metric::congestion_parameter, {netdev.device, netdev.port, netdev.name, name}, *value);
    return value.has_value();
  }

  void add_debugfs(Part& part) {
    const bool mlx5 = device().driver == "mlx5";
    const bool bnxt = device().driver == "bnxt_re";
    if (!mlx5 && !bnxt) return;
    for (const InventoryNetdev& function : card_functions(device())) add_debugfs(function, mlx5, part);
  }

  void add_debugfs(const InventoryNetdev& netdev, bool mlx5, Part& part) {
    const std::string dir = host().debugfs() + (mlx5 ? "/mlx5/" + netdev.pci_address + "/cc_params"
                                                     : "/bnxt_re/" + netdev.pci_address + "/cc_config");
    // Told once, not for each file. Whether a kernel's bnxt_re has the directory at all cannot be told from outside, so
    // a closed debugfs is no failure there.
    const auto listed = list_directory(dir);
    if (!listed) {
      // Only root sees into debugfs: a lack of rights and no failure, told as the counters that need them are.
      if (mlx5 && listed.error().kind == ErrorKind::kDenied)
        part.samples.add(metric::netdev_statistic_support,
                         {netdev.device, netdev.port, netdev.name, "cc_params", "denied"}, 1);
      else if (mlx5)
        failures_.note(listed.error());
      return;
    }
    if (mlx5)
      for (const Parameter& parameter : kMlx5Parameters)
        add_parameter(netdev, parameter.name, dir + "/" + std::string(parameter.name), part);
    else
      for (const std::string_view name : kBnxtParameters)
        add_parameter(netdev, name, dir + "/" + std::string(name), part);
  }

  // Directories of configfs are there only after somebody made them; making one would hold the device.
  void add_defaults(const InventoryPort& port, Part& part) {
    const std::string dir = host().configfs() + "/rdma_cm/" + device().name + "/ports/" + port.text + "/";
    if (const auto tos = failures_.value(read_u64(dir + "default_roce_tos")))
      part.samples.add(metric::default_tos, {device().name, port.text}, *tos);
    if (const auto mode = failures_.value(read_attribute(dir + "default_roce_mode")))
      part.samples.add(metric::default_roce_mode_info, {device().name, port.text, *mode}, 1);
    if (device().path.empty()) return;
    if (const auto text = failures_.value(read_attribute(device().path + "/tc/" + port.text + "/traffic_class")))
      if (const auto value = traffic_class(*text))
        part.samples.add(metric::forced_traffic_class, {device().name, port.text}, *value);
  }

  // A number alone, or "Global tclass=106" with lines for single peers after it.
  static std::optional<std::uint64_t> traffic_class(std::string_view text) {
    std::string_view line = trim(text.substr(0, text.find('\n')));
    // A line for one peer says nothing of the others.
    if (line.find("src=") != std::string_view::npos || line.find("dst=") != std::string_view::npos) return std::nullopt;
    if (const auto equals = line.find("tclass="); equals != std::string_view::npos) line.remove_prefix(equals + 7);
    const auto value = parse_u64(line);
    return value && *value <= 255 ? value : std::nullopt;
  }

  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_congestion_control_collector(const CollectorContext& context) {
  return std::make_unique<CongestionControlCollector>(context);
}

}  // namespace roce

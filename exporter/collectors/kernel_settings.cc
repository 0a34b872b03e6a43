// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/kernel_settings.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/absent.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Each is a file below /proc/sys. Of three numbers (least, default, most) the last counts.
constexpr std::array<std::string_view, 30> kNumbers{
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.optmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.somaxconn",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.udp_rmem_min",
    "net.ipv4.udp_wmem_min",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_no_metrics_save",
    // Several ports in one subnet answer for each other without these.
    "net.ipv4.conf.all.arp_ignore",
    "net.ipv4.conf.all.arp_announce",
    "net.ipv4.conf.all.rp_filter",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "vm.zone_reclaim_mode",
    "vm.swappiness",
};

constexpr std::array<std::string_view, 3> kTexts{"net.core.default_qdisc", "net.ipv4.tcp_congestion_control",
                                                 "kernel.osrelease"};

constexpr std::array<std::string_view, 27> kModules{
    "mlx5_core", "mlx5_ib",  "mlx4_core", "mlx4_ib", "bnxt_en",    "bnxt_re",  "ice",     "irdma",   "efa",
    "erdma",     "hns3",     "mana",      "mana_ib", "ionic",      "rdma_rxe", "ib_core", "rdma_cm", "nvme_core",
    "nvme",      "nvme_tcp", "nvme_rdma", "nvmet",   "nvmet_rdma", "rpcrdma",  "sunrpc",  "ib_iser", "nvidia_peermem"};

struct Parameter {
  std::string_view module;
  std::string_view name;
};
constexpr Parameter kParameters[] = {
    {"mlx5_core", "prof_sel"},
    {"mlx5_core", "debug_mask"},
    {"mlx4_core", "log_num_mgm_entry_size"},
    {"mlx4_core", "log_mtts_per_seg"},
    {"mlx4_core", "log_num_mtt"},
    {"mlx4_core", "roce_mode"},
    {"ib_core", "netns_mode"},
    {"ib_core", "send_queue_size"},
    {"ib_core", "recv_queue_size"},
    {"nvme_core", "multipath"},
    {"nvme_core", "iopolicy"},
    {"nvme_core", "io_timeout"},
    {"nvme_core", "admin_timeout"},
    {"nvme_core", "max_retries"},
    {"nvme_rdma", "register_always"},
    {"nvmet_rdma", "use_srq"},
    {"nvmet_rdma", "srq_size"},
    {"ib_iser", "max_sectors"},
    {"ib_iser", "always_register"},
    {"sunrpc", "svc_rpc_per_connection_limit"},
    {"sunrpc", "pool_mode"},
    // Not drivers of the path, but they decide how fast it wakes up.
    {"intel_idle", "max_cstate"},
    {"processor", "max_cstate"},
    {"pcie_aspm", "policy"},
    {"workqueue", "power_efficient"},
};

// "[default] performance powersave" to the chosen word; any other text as it is.
std::string_view chosen(std::string_view text) {
  const auto open = text.find('[');
  const auto close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return text;
  return text.substr(open + 1, close - open - 1);
}

class KernelSettingsCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "kernel_settings", "");
    auto part = std::make_shared<Part>();
    for (const std::string_view name : kNumbers) {
      const auto text = text_of(sysctl(name), name, *part);
      if (!text) continue;
      const auto blank = text->find_last_of(" \t");
      const auto value = parse_i64(blank == std::string::npos ? *text : text->substr(blank + 1));
      if (value)
        part->samples.add(metric::kernel_setting, {name}, *value);
      else
        failures_.note(Error{ErrorKind::kMalformed, 0, sysctl(name)});
    }
    for (const std::string_view name : kTexts)
      if (const auto text = text_of(sysctl(name), name, *part))
        part->samples.add(metric::kernel_setting_info, {name, *text}, 1);
    if (const auto text = text_of(host().sysfs + "/devices/system/clocksource/clocksource0/current_clocksource",
                                  "clocksource", *part))
      part->samples.add(metric::kernel_setting_info, {"clocksource", *text}, 1);
    read_modules(*part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures_.conclude();
  }

 private:
  std::string sysctl(std::string_view name) const {
    std::string path(name);
    std::replace(path.begin(), path.end(), '.', '/');
    return host().procfs + "/sys/" + path;
  }

  // What may be read by root alone is absent as denied: that is no failure of the collector.
  std::optional<std::string> text_of(const std::string& path, std::string_view what, Part& part) {
    auto text = read_attribute(path);
    if (text) return std::move(*text);
    switch (text.error().kind) {
      case ErrorKind::kAbsent:
      case ErrorKind::kUnsupported:
        break;
      case ErrorKind::kDenied:
        add_absent(part, "", what, ErrorKind::kDenied);
        break;
      default:
        failures_.note(text.error());
    }
    return std::nullopt;
  }

  void read_modules(Part& part) {
    const std::string root = host().sysfs + "/module/";
    for (const std::string_view name : kModules) {
      const std::string dir = root + std::string(name);
      // What is built into the kernel has a directory too where it has parameters, but was not loaded.
      if (!exists(dir + "/initstate") && !exists(dir + "/version") && !exists(dir + "/srcversion")) continue;
      const std::string what = std::string(name) + "/version";
      part.samples.add(metric::module_info,
                       {name, text_of(dir + "/version", what, part).value_or(""),
                        text_of(dir + "/srcversion", what, part).value_or("")},
                       1);
    }
    for (const Parameter& parameter : kParameters) {
      const std::string path = std::string(parameter.module) + "/parameters/" + std::string(parameter.name);
      if (const auto text = text_of(root + path, path, part))
        part.samples.add(metric::module_parameter_info, {parameter.module, parameter.name, chosen(*text)}, 1);
    }
  }

  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_kernel_settings_collector(const CollectorContext& context) {
  return std::make_unique<KernelSettingsCollector>(context);
}

}  // namespace roce

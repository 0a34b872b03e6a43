// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/capture.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <set>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/capture_processes.h"
#include "exporter/kernel/capture_sources.h"
#include "exporter/kernel/denied_link.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/pci.h"
#include "exporter/kernel/process.h"
#include "exporter/kernel/pseudonyms.h"
#include "exporter/kernel/rdma_holders.h"
#include "exporter/kernel/service_manager.h"

namespace roce {
namespace {

constexpr std::size_t kMaxFileSize = std::size_t{8} << 20;
constexpr int kMaxLinks = 16;  // on the way to one file
constexpr std::string_view kCgroups = "sys/fs/cgroup/";

// What a file holds, so that its text can be rewritten.
enum class Holds : std::uint8_t {
  kKernel,   // numbers, and words that the kernel chose: addresses, but no name of a host
  kText,     // names wherever they stand
  kPlain,    // no name: versions that look like addresses
  kAddress,  // an address, or the name of a host
  kHost,     // a description that its owner chose
  kSerial,
  kName,           // of a subsystem, host or target of storage: whatever its owner made of it
  kInterface,      // open-iscsi's name of an interface: its own, or one that the owner chose
  kModules,        // proc/modules
  kSharedMemory,   // proc/sysvipc/shm
  kRoutes,         // proc/net/route
  kRoutes6,        // proc/net/ipv6_route
  kAddresses6,     // proc/net/if_inet6
  kMountstats,     // proc/self/mountstats
  kSystemdLimits,  // of a configuration of systemd the memory lock limits
  kComm,           // proc/PID/comm, .../limits, .../status, .../cgroup
  kLimits,
  kStatus,
  kCgroup,
};

struct Pattern {
  std::string_view path;
  Holds holds = Holds::kKernel;
};

// A pattern that ends in "/" is of folders, which may be empty or links.
constexpr Pattern kPatterns[] = {
    {"sys/class/infiniband/"},
    {"sys/class/infiniband/*/board_id"},
    {"sys/class/infiniband/*/fw_ver", Holds::kPlain},
    {"sys/class/infiniband/*/hca_type"},
    {"sys/class/infiniband/*/hw_rev"},
    {"sys/class/infiniband/*/node_type"},
    {"sys/class/infiniband/*/node_desc", Holds::kHost},
    {"sys/class/infiniband/*/node_guid"},
    {"sys/class/infiniband/*/sys_image_guid"},
    {"sys/class/infiniband/*/parent"},
    {"sys/class/infiniband/*/hw_counters/*"},
    {"sys/class/infiniband/*/tc/*/traffic_class"},
    {"sys/class/infiniband/*/ports/*/state"},
    {"sys/class/infiniband/*/ports/*/phys_state"},
    {"sys/class/infiniband/*/ports/*/rate"},
    {"sys/class/infiniband/*/ports/*/link_layer"},
    {"sys/class/infiniband/*/ports/*/counters/*"},
    {"sys/class/infiniband/*/ports/*/counters_ext/*"},
    {"sys/class/infiniband/*/ports/*/hw_counters/*"},
    {"sys/class/infiniband/*/ports/*/cm_rx_duplicates/*"},
    {"sys/class/infiniband/*/ports/*/cm_rx_msgs/*"},
    {"sys/class/infiniband/*/ports/*/cm_tx_msgs/*"},
    {"sys/class/infiniband/*/ports/*/cm_tx_retries/*"},
    {"sys/class/infiniband/*/ports/*/gids/*"},
    {"sys/class/infiniband/*/ports/*/gid_attrs/types/*"},
    {"sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*"},
    {"sys/class/infiniband/*/device/"},
    {"sys/class/infiniband/*/device/driver/"},
    {"sys/class/infiniband/*/device/infiniband/*/"},
    {"sys/class/infiniband/*/device/iommu_group/"},
    {"sys/class/infiniband/*/device/net/*/"},
    {"sys/class/infiniband/*/device/net/*/dev_port"},
    {"sys/class/infiniband/*/device/numa_node"},
    {"sys/class/infiniband/*/device/vendor"},
    {"sys/class/infiniband/*/device/device"},
    {"sys/class/infiniband/*/device/uevent"},
    {"sys/class/infiniband/*/device/sriov_*"},
    {"sys/class/infiniband/*/device/physfn/"},
    {"sys/class/infiniband/*/device/physfn/sriov_*"},
    {"sys/class/infiniband/*/device/physfn/virtfn*/"},
    {"sys/class/infiniband/*/device/physfn/infiniband/*/"},
    {"sys/class/infiniband/*/device/virtfn*/"},
    {"sys/class/infiniband/*/device/hwmon/*/name"},
    {"sys/class/infiniband/*/device/hwmon/*/temp*"},
    {"sys/class/infiniband/*/device/msi_irqs/*"},
    {"sys/class/hwmon/*/name"},
    {"sys/class/hwmon/*/temp*"},
    {"sys/class/hwmon/*/device/"},
    {"sys/class/net/*/"},
    {"sys/class/net/*/carrier*"},
    {"sys/class/net/*/dev_id"},
    {"sys/class/net/*/dev_port"},
    {"sys/class/net/*/device/"},
    {"sys/class/net/*/device/driver/"},
    {"sys/class/net/*/device/infiniband/*/"},
    {"sys/class/net/*/device/physfn/"},
    {"sys/class/net/*/device/uevent"},
    {"sys/class/net/*/lower_*/"},
    {"sys/class/net/*/upper_*/"},
    {"sys/class/net/*/master/"},
    {"sys/class/net/*/bonding/slaves"},
    {"sys/class/net/*/bonding/mode"},
    {"sys/class/net/*/bonding/ad_aggregator"},
    {"sys/class/net/*/bonding/xmit_hash_policy"},
    {"sys/class/net/*/bonding/active_slave"},
    {"sys/class/net/*/bonding/mii_status"},
    {"sys/class/net/*/bonding_slave/*"},
    {"sys/class/net/*/brport/"},
    {"sys/class/net/*/ecn/*/*"},
    {"sys/class/net/*/ecn/*/*/*"},
    {"sys/class/net/*/flags"},
    {"sys/class/net/*/ifindex"},
    {"sys/class/net/*/iflink"},
    {"sys/class/net/*/mtu"},
    {"sys/class/net/*/operstate"},
    {"sys/class/net/*/phys_port_name"},
    {"sys/class/net/*/phys_switch_id", Holds::kSerial},
    {"sys/class/net/*/qos/*"},
    {"sys/class/net/*/speed"},
    {"sys/class/net/*/statistics/*"},
    {"sys/class/net/*/type"},
    {"sys/class/nvme/"},
    {"sys/class/nvme/*/"},
    {"sys/class/nvme/*/address"},
    {"sys/class/nvme/*/cntlid"},
    {"sys/class/nvme/*/cntrltype"},
    {"sys/class/nvme/*/ctrl_loss_tmo"},
    {"sys/class/nvme/*/diag/*"},
    {"sys/class/nvme/*/fast_io_fail_tmo"},
    {"sys/class/nvme/*/firmware_rev", Holds::kPlain},
    {"sys/class/nvme/*/hostnqn", Holds::kName},
    {"sys/class/nvme/*/kato"},
    {"sys/class/nvme/*/model", Holds::kText},
    {"sys/class/nvme/*/nvme*/ana_state"},
    {"sys/class/nvme/*/nvme*/diag/*"},
    {"sys/class/nvme/*/nvme*/queue/iostats"},
    {"sys/class/nvme/*/nvme*/size"},
    {"sys/class/nvme/*/nvme*/stat"},
    {"sys/class/nvme/*/queue_count"},
    {"sys/class/nvme/*/reconnect_delay"},
    {"sys/class/nvme/*/sqsize"},
    {"sys/class/nvme/*/state"},
    {"sys/class/nvme/*/subsysnqn", Holds::kName},
    {"sys/class/nvme/*/transport"},
    {"sys/class/nvme-fabrics/ctl/"},
    {"sys/class/nvme-subsystem/"},
    {"sys/class/nvme-subsystem/*/firmware_rev", Holds::kPlain},
    {"sys/class/nvme-subsystem/*/iopolicy"},
    {"sys/class/nvme-subsystem/*/model", Holds::kText},
    {"sys/class/nvme-subsystem/*/serial", Holds::kSerial},
    {"sys/class/nvme-subsystem/*/subsysnqn", Holds::kName},
    {"sys/class/nvme-subsystem/*/subsystype"},
    {"sys/class/nvme-subsystem/*/nvme*/"},
    {"sys/class/nvme-subsystem/*/nvme*/address"},
    {"sys/class/nvme-subsystem/*/nvme*/ana_state"},
    {"sys/class/nvme-subsystem/*/nvme*/cntlid"},
    {"sys/class/nvme-subsystem/*/nvme*/cntrltype"},
    {"sys/class/nvme-subsystem/*/nvme*/ctrl_loss_tmo"},
    {"sys/class/nvme-subsystem/*/nvme*/diag/*"},
    {"sys/class/nvme-subsystem/*/nvme*/fast_io_fail_tmo"},
    {"sys/class/nvme-subsystem/*/nvme*/firmware_rev", Holds::kPlain},
    {"sys/class/nvme-subsystem/*/nvme*/hostnqn", Holds::kName},
    {"sys/class/nvme-subsystem/*/nvme*/kato"},
    {"sys/class/nvme-subsystem/*/nvme*/model", Holds::kText},
    {"sys/class/nvme-subsystem/*/nvme*/nvme*/ana_state"},
    {"sys/class/nvme-subsystem/*/nvme*/nvme*/diag/*"},
    {"sys/class/nvme-subsystem/*/nvme*/nvme*/queue/iostats"},
    {"sys/class/nvme-subsystem/*/nvme*/nvme*/size"},
    {"sys/class/nvme-subsystem/*/nvme*/nvme*/stat"},
    {"sys/class/nvme-subsystem/*/nvme*/queue/iostats"},
    {"sys/class/nvme-subsystem/*/nvme*/queue_count"},
    {"sys/class/nvme-subsystem/*/nvme*/reconnect_delay"},
    {"sys/class/nvme-subsystem/*/nvme*/size"},
    {"sys/class/nvme-subsystem/*/nvme*/sqsize"},
    {"sys/class/nvme-subsystem/*/nvme*/stat"},
    {"sys/class/nvme-subsystem/*/nvme*/state"},
    {"sys/class/nvme-subsystem/*/nvme*/subsysnqn", Holds::kName},
    {"sys/class/nvme-subsystem/*/nvme*/transport"},
    {"sys/class/iscsi_connection/*/address", Holds::kAddress},
    {"sys/class/iscsi_connection/*/persistent_address", Holds::kAddress},
    {"sys/class/iscsi_connection/*/persistent_port"},
    {"sys/class/iscsi_connection/*/port"},
    {"sys/class/iscsi_connection/*/state"},
    {"sys/class/iscsi_session/*/"},
    {"sys/class/iscsi_session/*/device/"},
    {"sys/class/iscsi_session/*/ifacename", Holds::kInterface},
    {"sys/class/iscsi_session/*/recovery_tmo"},
    {"sys/class/iscsi_session/*/state"},
    {"sys/class/iscsi_session/*/targetname", Holds::kName},
    {"sys/class/iscsi_transport/*/"},
    {"sys/class/scsi_host/*/proc_name"},
    {"sys/class/iommu/*/"},
    {"sys/block/nvme*/"},
    {"sys/bus/pci/devices/*/"},
    {"sys/kernel/iommu_groups/*/type"},
    {"sys/kernel/mm/hugepages/*/*"},
    {"sys/kernel/mm/transparent_hugepage/defrag"},
    {"sys/kernel/mm/transparent_hugepage/enabled"},
    {"sys/kernel/mm/transparent_hugepage/shmem_enabled"},
    {"sys/devices/system/clocksource/clocksource0/current_clocksource"},
    {"sys/devices/system/cpu/online"},
    {"sys/devices/system/cpu/cpuidle/current_*"},
    {"sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference"},
    {"sys/devices/system/cpu/cpu*/cpufreq/scaling_driver"},
    {"sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"},
    {"sys/devices/system/cpu/cpu*/cpuidle/state*/disable"},
    {"sys/devices/system/cpu/cpu*/cpuidle/state*/latency"},
    {"sys/devices/system/node/node*/cpulist"},
    {"sys/devices/system/node/node*/hugepages/*/*"},
    {"sys/module/ib_core/parameters/netns_mode"},
    {"sys/module/ib_core/parameters/recv_queue_size"},
    {"sys/module/ib_core/parameters/send_queue_size"},
    {"sys/module/ib_iser/parameters/always_register"},
    {"sys/module/ib_iser/parameters/max_sectors"},
    {"sys/module/intel_idle/parameters/max_cstate"},
    {"sys/module/mlx4_core/parameters/*"},
    {"sys/module/mlx5_core/parameters/guids", Holds::kSerial},  // of all its devices
    {"sys/module/mlx5_core/parameters/*"},
    {"sys/module/nvme_core/parameters/*"},
    {"sys/module/nvme_rdma/parameters/register_always"},
    {"sys/module/nvmet_rdma/parameters/*"},
    {"sys/module/pcie_aspm/parameters/policy"},
    {"sys/module/processor/parameters/max_cstate"},
    {"sys/module/sunrpc/parameters/pool_mode"},
    {"sys/module/sunrpc/parameters/svc_rpc_per_connection_limit"},
    {"sys/module/workqueue/parameters/power_efficient"},
    {"proc/driver/nvidia-fs/stats"},
    {"proc/driver/nvidia-fs/version", Holds::kPlain},
    {"proc/fs/nfsd/portlist"},
    {"proc/interrupts"},
    {"proc/meminfo"},
    {"proc/modules", Holds::kModules},
    {"proc/net/bonding/*"},
    {"proc/net/dev"},
    {"proc/net/if_inet6", Holds::kAddresses6},
    {"proc/net/ipv6_route", Holds::kRoutes6},
    {"proc/net/route", Holds::kRoutes},
    {"proc/net/softnet_stat"},
    {"proc/pressure/cpu"},
    {"proc/self/mountstats", Holds::kMountstats},
    {"proc/softirqs"},
    {"proc/stat"},
    {"proc/sys/kernel/hostname", Holds::kHost},
    {"proc/sys/kernel/numa_balancing"},
    {"proc/sys/kernel/osrelease", Holds::kPlain},
    {"proc/sys/kernel/sched_rt_runtime_us"},
    {"proc/sys/kernel/shmall"},
    {"proc/sys/kernel/shmmax"},
    {"proc/sys/kernel/shmmni"},
    {"proc/sys/kernel/timer_migration"},
    {"proc/sys/net/core/busy_poll"},
    {"proc/sys/net/core/busy_read"},
    {"proc/sys/net/core/default_qdisc"},
    {"proc/sys/net/core/netdev_budget"},
    {"proc/sys/net/core/netdev_budget_usecs"},
    {"proc/sys/net/core/netdev_max_backlog"},
    {"proc/sys/net/core/optmem_max"},
    {"proc/sys/net/core/rmem_default"},
    {"proc/sys/net/core/rmem_max"},
    {"proc/sys/net/core/somaxconn"},
    {"proc/sys/net/core/wmem_default"},
    {"proc/sys/net/core/wmem_max"},
    {"proc/sys/net/ipv4/conf/all/arp_announce"},
    {"proc/sys/net/ipv4/conf/all/arp_ignore"},
    {"proc/sys/net/ipv4/conf/all/rp_filter"},
    {"proc/sys/net/ipv4/tcp_congestion_control"},
    {"proc/sys/net/ipv4/tcp_ecn"},
    {"proc/sys/net/ipv4/tcp_moderate_rcvbuf"},
    {"proc/sys/net/ipv4/tcp_mtu_probing"},
    {"proc/sys/net/ipv4/tcp_no_metrics_save"},
    {"proc/sys/net/ipv4/tcp_rmem"},
    {"proc/sys/net/ipv4/tcp_sack"},
    {"proc/sys/net/ipv4/tcp_timestamps"},
    {"proc/sys/net/ipv4/tcp_window_scaling"},
    {"proc/sys/net/ipv4/tcp_wmem"},
    {"proc/sys/net/ipv4/udp_rmem_min"},
    {"proc/sys/net/ipv4/udp_wmem_min"},
    {"proc/sys/sunrpc/svc_rdma/rdma_stat_*"},
    {"proc/sys/vm/swappiness"},
    {"proc/sys/vm/zone_reclaim_mode"},
    {"proc/sysvipc/shm", Holds::kSharedMemory},
    {"proc/vmstat"},
    {"configfs/nvmet/ports/*/addr_adrfam"},
    {"configfs/nvmet/ports/*/addr_traddr", Holds::kAddress},
    {"configfs/nvmet/ports/*/addr_trsvcid"},
    {"configfs/nvmet/ports/*/addr_trtype"},
    {"configfs/nvmet/ports/*/param_max_queue_size"},
    {"configfs/nvmet/ports/*/subsystems/*/"},
    {"configfs/nvmet/subsystems/*/attr_model", Holds::kText},
    {"configfs/nvmet/subsystems/*/attr_serial", Holds::kSerial},
    {"configfs/nvmet/subsystems/*/namespaces/*/enable"},
    {"configfs/rdma_cm/*/ports/*/default_roce_mode"},
    {"configfs/rdma_cm/*/ports/*/default_roce_tos"},
    {"debugfs/mlx5/*/cc_params/*"},
    {"debugfs/mlx5/*/lag/port_sel_mode"},
    {"debugfs/mlx5/*/lag/state"},
    {"debugfs/mlx5/*/lag/type"},
    {"debugfs/bnxt_re/*/info"},
    {"debugfs/nvmet/*/ctrl*/port"},
    {"debugfs/nvmet/*/ctrl*/state"},
    {"root/etc/systemd/system.conf", Holds::kSystemdLimits},
    {"root/run/systemd/system.conf", Holds::kSystemdLimits},
    {"root/usr/lib/systemd/system.conf", Holds::kSystemdLimits},
    {"root/usr/local/lib/systemd/system.conf", Holds::kSystemdLimits},
};

// Of each module that has to do with RDMA or storage over it.
constexpr std::string_view kModuleFiles[] = {"initstate", "refcnt", "srcversion", "version"};
constexpr std::string_view kModules[] = {"bnxt_en",     "bnxt_re",        "ceph",      "efa",        "erdma",
                                         "hfi1",        "hns_roce_hw_v2", "i40e",      "ib_core",    "ib_cm",
                                         "ib_iser",     "ib_isert",       "ib_srp",    "ib_srpt",    "ib_uverbs",
                                         "ice",         "ionic",          "irdma",     "iw_cxgb4",   "ko2iblnd",
                                         "ksmbd",       "libceph",        "mana",      "mana_ib",    "mlx4_core",
                                         "mlx4_en",     "mlx4_ib",        "mlx5_core", "mlx5_ib",    "nv_peer_mem",
                                         "nvidia_fs",   "nvidia_peermem", "nvme",      "nvme_core",  "nvme_fabrics",
                                         "nvme_rdma",   "nvme_tcp",       "nvmet",     "nvmet_rdma", "ocrdma",
                                         "qedr",        "rdma_cm",        "rdma_rxe",  "rdma_ucm",   "rpcrdma",
                                         "rtrs_client", "rtrs_server",    "siw",       "smbdirect",  "sunrpc"};

// Of each PCI function that an RDMA device sits on, and of those above it.
constexpr std::string_view kPciFiles[] = {
    "aer_dev_correctable", "aer_dev_fatal",      "aer_dev_nonfatal", "class",
    "current_link_speed",  "current_link_width", "device",           "max_link_speed",
    "max_link_width",      "numa_node",          "uevent",           "vendor"};

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

template <std::size_t N>
std::optional<std::array<std::uint8_t, N>> bytes_of(std::string_view hex) {
  if (hex.size() != 2 * N || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
    return std::nullopt;
  std::array<std::uint8_t, N> out{};
  for (std::size_t i = 0; i < N; ++i)
    out[i] = static_cast<std::uint8_t>(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
  return out;
}

template <std::size_t N>
std::string hex_of(const std::array<std::uint8_t, N>& bytes, std::string_view digits) {
  std::string out;
  for (const std::uint8_t b : bytes) {
    out += digits[b >> 4];
    out += digits[b & 15U];
  }
  return out;
}

constexpr std::string_view kLower = "0123456789abcdef";
constexpr std::string_view kUpper = "0123456789ABCDEF";

// Calls `each` with the words of each line; what it returns replaces the line.
template <class Each>
std::string by_line(std::string_view text, Each each) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    out += each(line);
    out += '\n';
  }
  return out;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) words.emplace_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words, char separator) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

// Columns: Iface Destination Gateway ... Mask at 7; addresses as the machine holds them, which is the lowest byte
// first.
std::string routes(std::string_view text, Pseudonyms& names) {
  return by_line(text, [&](std::string_view line) {
    std::vector<std::string> words = words_of(line);
    if (words.size() < 8) return names.kernel_text(line);
    const auto mask = bytes_of<4>(words[7]);
    for (const std::size_t column : {std::size_t{1}, std::size_t{2}}) {
      auto address = bytes_of<4>(words[column]);
      if (!address || !mask) return names.kernel_text(line);
      unsigned length = 32;
      if (column == 1) {
        length = 0;
        for (const std::uint8_t b : *mask) length += static_cast<unsigned>(__builtin_popcount(b));
      }
      std::reverse(address->begin(), address->end());
      auto changed = names.network(*address, length);
      std::reverse(changed.begin(), changed.end());
      words[column] = hex_of(changed, kUpper);
    }
    words[0] = names.kernel_text(words[0]);
    return joined(words, '\t');
  });
}

// Columns: destination, length, source, length, next hop ... interface
std::string routes6(std::string_view text, Pseudonyms& names) {
  return by_line(text, [&](std::string_view line) {
    std::vector<std::string> words = words_of(line);
    if (words.size() < 10) return names.kernel_text(line);
    for (const std::size_t column : {std::size_t{0}, std::size_t{2}, std::size_t{4}}) {
      const auto address = bytes_of<16>(words[column]);
      const auto length = column == 4 ? std::optional<std::uint64_t>(128) : parse_hex(words[column + 1]);
      if (!address || !length) return names.kernel_text(line);
      words[column] =
          hex_of(names.network(*address, static_cast<unsigned>(std::min<std::uint64_t>(*length, 128))), kLower);
    }
    words.back() = names.kernel_text(words.back());
    return joined(words, ' ');
  });
}

// Columns: address ... interface
std::string addresses6(std::string_view text, Pseudonyms& names) {
  return by_line(text, [&](std::string_view line) {
    std::vector<std::string> words = words_of(line);
    const auto address = words.empty() ? std::nullopt : bytes_of<16>(words[0]);
    if (!address) return names.kernel_text(line);
    words[0] = hex_of(names.network(*address), kLower);
    if (words.size() > 1) words.back() = names.kernel_text(words.back());
    return joined(words, ' ');
  });
}

// The addresses tell where the kernel hides.
std::string modules(std::string_view text) {
  return by_line(text, [](std::string_view line) {
    std::vector<std::string> words = words_of(line);
    for (std::string& word : words)
      if (word.starts_with("0x")) word = "0x0000000000000000";
    return joined(words, ' ');
  });
}

// The other columns are of processes, users and their keys.
std::string shared_memory(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kKept = {"perms", "size", "nattch", "rss", "swap"};
  std::vector<std::string> header;
  return by_line(text, [&header](std::string_view line) {
    std::vector<std::string> words = words_of(line);
    if (header.empty() && !words.empty() && words.front() == "key") {
      header = std::move(words);
      return std::string(line);
    }
    for (std::size_t i = 0; i < words.size(); ++i)
      if (i >= header.size() || std::find(kKept.begin(), kKept.end(), header[i]) == kKept.end()) words[i] = "0";
    return joined(words, ' ');
  });
}

// Of mounts over RDMA alone; what the others are is nobody's business.
std::string mountstats(std::string_view text, Pseudonyms& names) {
  // What a file holds that is no such table stays here; that it is none has to come out on replay.
  if (text.find("device ") == std::string_view::npos) return trim(text).empty() ? std::string() : "no table\n";
  std::string out;
  std::string mount;
  bool rdma = false;
  bool of_server = false;  // within what the server says of itself, in whatever words it likes
  const auto close = [&] {
    if (rdma) out += mount;
    mount.clear();
    rdma = false;
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with("\timpl_id:")) {
      mount += "\timpl_id:\tname='',domain='',date='0,0'\n";
      of_server = true;
    }
    if (of_server) {
      of_server = line.rfind("',date='") == std::string_view::npos;
      continue;
    }
    if (!line.starts_with("device ")) {
      rdma = rdma || line.find("proto=rdma") != std::string_view::npos ||
             line.find("xprt:\trdma") != std::string_view::npos;
      mount += names.kernel_text(line) + '\n';
      continue;
    }
    close();
    // device SERVER:EXPORT mounted on MOUNT with fstype TYPE statvers=1.1
    std::string_view rest = line.substr(7);
    const std::size_t on = rest.find(" mounted on ");
    const std::size_t with = rest.rfind(" with fstype ");
    if (on == std::string_view::npos || with == std::string_view::npos || with < on) continue;
    const std::string_view source = rest.substr(0, on);
    const std::size_t colon = source.rfind(":/");
    const std::string_view target = rest.substr(on + 12, with - on - 12);
    mount += "device ";
    if (colon == std::string_view::npos)
      mount += names.path(source);
    else
      mount += names.address_or_host(source.substr(0, colon)) + ":" + names.path(source.substr(colon + 1));
    mount += " mounted on " + names.path(target) + std::string(rest.substr(with)) + "\n";
  }
  close();
  return out;
}

std::string systemd_limits(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view word = trim(line);
    if (word == "[Manager]" || word.starts_with("DefaultLimitMEMLOCK")) out += std::string(line) + '\n';
  }
  return out;
}

// Subsystems of the NVMe target are folders by their names: those that stand in a folder of this name.
std::string_view folder_of_subsystems(std::string_view path) {
  if (path.starts_with("configfs/nvmet/")) return "subsystems";
  return path.starts_with("debugfs/nvmet/") ? "nvmet" : "";
}

// The path, or the target of the link that it is: part by part as the same words become in texts.
std::string path_out(std::string_view path, std::string_view text, Pseudonyms& names) {
  if (path.starts_with(kCgroups)) {
    // A link in there goes nowhere else.
    const bool whole = text.starts_with(kCgroups);
    return std::string(whole ? kCgroups : "") + names.cgroup(text.substr(whole ? kCgroups.size() : 0));
  }
  const std::string_view folder = folder_of_subsystems(path);
  std::string out;
  bool subsystem = false;
  for (const std::string_view part : parts_of(text)) {
    if (!out.empty()) out += '/';
    out += subsystem ? names.name(part) : names.kernel_text(part);
    subsystem = !subsystem && !folder.empty() && part == folder;
  }
  return out;
}

std::string path_out(std::string_view path, Pseudonyms& names) { return path_out(path, path, names); }

class Capturer {
 public:
  Capturer(const Host& host, const CaptureOptions& options, Pseudonyms& names, CaptureSink& sink)
      : host_(host), options_(options), names_(names), sink_(sink) {}

  Result<void> follow(const Pattern& pattern) {
    const auto parts = parts_of(pattern.path);
    return walk(std::string(parts.front()), parts, 1, pattern);
  }

  // The files of a folder of sysfs, named by its canonical path.
  Result<void> pci_function(const std::string& path) {
    const auto root = resolve(host_.sysfs);
    if (!root || !path.starts_with(*root + "/")) return {};
    const std::string relative = "sys/" + path.substr(root->size() + 1);
    for (const std::string_view file : kPciFiles)
      ROCE_TRY_VOID(take(relative + "/" + std::string(file), Holds::kKernel));
    const std::string config = relative + "/config";
    if (!exists(source(config))) return {};
    const auto excerpt = pci_config_excerpt(path);
    return excerpt ? text(config, *excerpt) : unread(config, excerpt.error());
  }

  Result<void> module(std::string_view name) {
    for (const std::string_view file : kModuleFiles)
      ROCE_TRY_VOID(take("sys/module/" + std::string(name) + "/" + std::string(file), Holds::kPlain));
    return {};
  }

  // Drop-ins are called what their owner likes: each gets a number, which keeps their order.
  Result<void> drop_ins() {
    if (!host_.live && host_.rootfs == "/") return {};  // the settings of this machine, not of the tree's
    const std::string root = source("root");
    const auto files = manager_drop_ins(host_.rootfs);
    const std::size_t width = std::to_string(files.size()).size();
    std::size_t number = 0;
    for (const auto& [name, path] : files) {
      struct stat status{};
      if (::stat(path.c_str(), &status) != 0) continue;
      // A link to /dev/null hides one of the same name.
      const auto content = S_ISREG(status.st_mode) ? read_file(path, kMaxFileSize) : std::string();
      if (!content) {
        ++report_.unreadable;
        continue;
      }
      const std::string folder = "root" + path.substr(root.size(), path.rfind('/') + 1 - root.size());
      ROCE_TRY_VOID(text(fmt::format("{}{:0{}}.conf", folder, ++number, width), systemd_limits(*content)));
    }
    return {};
  }

  // One that holds RDMA contexts.
  Result<void> process(std::uint32_t pid) {
    const std::string folder = fmt::format("proc/{}/", pid);
    if (!exists(source(folder))) {
      // One that is hidden from the user of this program, or that has ended.
      return read_process(host_.procfs, pid, host_.live).denied ? denied(folder.substr(0, folder.size() - 1))
                                                                : Result<void>();
    }
    ROCE_TRY_VOID(take(folder + "comm", Holds::kComm));
    ROCE_TRY_VOID(take(folder + "limits", Holds::kLimits));
    ROCE_TRY_VOID(take(folder + "status", Holds::kStatus));
    ROCE_TRY_VOID(take(folder + "cgroup", Holds::kCgroup));
    if (const auto cgroups = read_file(source(folder + "cgroup")))
      for (const std::string& files : cgroup_files(parse_cgroup_paths(*cgroups)))
        ROCE_TRY_VOID(follow({files, Holds::kKernel}));
    return {};
  }

  // Its text names nobody any more.
  Result<void> text(const std::string& path, const std::string& content) {
    if (!seen_.insert(path).second) return {};
    ++report_.files;
    return sink_.file(path_out(path, names_), content);
  }

  // What is there and gave no text.
  Result<void> unread(const std::string& path, const Error& error) {
    if (error.kind == ErrorKind::kDenied) return denied(path);
    ++report_.unreadable;
    // In a replay too an empty file has no value, and a link to itself fails: without them the file would count as one
    // that the kernel does not have.
    if (error.kind == ErrorKind::kUnsupported) return text(path, "");
    if (!is_failure(error.kind) || !ends_at(path)) return {};
    return sink_.link(path_out(path, names_), path_out(path, path.substr(path.rfind('/') + 1), names_));
  }

  Result<void> limits_of_first() { return take("proc/1/limits", Holds::kLimits); }

  const CaptureReport& report() const { return report_; }

 private:
  // Where a path of the recording is on this host.
  std::string source(std::string_view path) const {
    const std::string_view top = path.substr(0, path.find('/'));
    const std::string rest(path.substr(std::min(path.size(), top.size())));
    if (top == "sys") return host_.sysfs + rest;
    if (top == "proc") return host_.procfs + rest;
    if (top == "configfs") return host_.configfs() + rest;
    if (top == "debugfs") return host_.debugfs() + rest;
    return (host_.rootfs == "/" ? std::string() : host_.rootfs) + rest;
  }

  // The path with the links on it followed and recorded; nothing where it leads out of its tree, or to nothing.
  Result<std::optional<std::string>> enter(std::string folder, std::string_view part, int depth) {
    if (depth > kMaxLinks) return std::nullopt;
    if (part == "." || part.empty()) return folder;
    if (part == "..") {
      const std::size_t slash = folder.rfind('/');
      if (slash == std::string::npos) return std::nullopt;
      folder.resize(slash);
      return folder;
    }
    std::string path = folder + "/" + std::string(part);
    struct stat status{};
    if (::lstat(source(path).c_str(), &status) != 0) {
      if (is_denied(path)) ROCE_TRY_VOID(denied(path));
      return std::nullopt;
    }
    // Of the process that makes the recording: a number that stands for no holder.
    if (!S_ISLNK(status.st_mode) || path == "proc/self") return path;
    char target[PATH_MAX];
    const ssize_t size = ::readlink(source(path).c_str(), target, sizeof target);
    if (size <= 0 || size >= static_cast<ssize_t>(sizeof target) || target[0] == '/') return std::nullopt;
    const std::string_view text(target, static_cast<std::size_t>(size));
    // What a recording says that could not be read, another one of it says too.
    const bool denies = text.substr(text.rfind('/') + 1) == kDeniedLink;
    if (denies || text == part) {
      ROCE_TRY_VOID(unread(path, Error{denies ? ErrorKind::kDenied : ErrorKind::kIo, 0, path}));
      return std::nullopt;
    }
    std::string end = folder;
    for (const std::string_view step : parts_of(text)) {
      ROCE_TRY(auto next, enter(std::move(end), step, depth + 1));
      if (!next) return std::nullopt;
      end = std::move(*next);
    }
    if (seen_.insert(path).second) ROCE_TRY_VOID(sink_.link(path_out(path, names_), path_out(path, text, names_)));
    return end;
  }

  Result<void> walk(const std::string& folder, const std::vector<std::string_view>& parts, std::size_t at,
                    const Pattern& pattern) {
    if (at == parts.size()) return take(folder, pattern.holds, pattern.path.ends_with('/'));
    if (ends_.contains(folder)) return {};
    const std::string wanted(parts[at]);
    std::vector<std::string> found;
    if (wanted.find('*') == std::string::npos) {
      found.push_back(wanted);
    } else if (const auto names = list_directory(source(folder))) {
      ROCE_TRY_VOID(make(folder));
      for (const std::string& name : *names)
        if (::fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) == 0) found.push_back(name);
    } else if (is_failure(names.error().kind)) {
      ROCE_TRY_VOID(unread(folder, names.error()));
    }
    for (const std::string& name : found) {
      if (!wanted_in(folder, name)) continue;
      ROCE_TRY(const auto next, enter(folder, name, 0));
      if (next) ROCE_TRY_VOID(walk(*next, parts, at + 1, pattern));
    }
    return {};
  }

  // Of devices that the user leaves out nothing is opened, wherever the way to them begins.
  bool wanted_in(std::string_view folder, std::string_view name) const {
    if (!folder.starts_with("sys/")) return true;
    if (folder.ends_with("/infiniband")) return options_.device_wanted(name);
    if (folder.ends_with("/net")) return options_.netdev_wanted(name);
    return folder != "sys/class/hwmon" || sensor_wanted(name);
  }

  // Not of a function whose devices are all left out.
  bool sensor_wanted(std::string_view name) const {
    const auto path = resolve(source("sys/class/hwmon/" + std::string(name)));
    const std::size_t end = path ? path->rfind("/hwmon/") : std::string::npos;
    if (end == std::string::npos) return true;
    const auto any_wanted = [&](const char* folder, const auto& wanted) {
      const auto devices = list_directory(path->substr(0, end) + folder);
      return devices ? std::any_of(devices->begin(), devices->end(), wanted) : std::optional<bool>();
    };
    const std::optional<bool> rdma = any_wanted("/infiniband", options_.device_wanted);
    const std::optional<bool> net = any_wanted("/net", options_.netdev_wanted);
    return (!rdma && !net) || rdma.value_or(false) || net.value_or(false);
  }

  Result<void> make(const std::string& folder) {
    if (folder.find('/') == std::string::npos || !seen_.insert(folder).second) return {};
    return sink_.folder(path_out(folder, names_));
  }

  Result<void> take(const std::string& path, Holds holds, bool folders = false) {
    struct stat status{};
    if (looks_secret(path)) return {};
    if (::stat(source(path).c_str(), &status) != 0) {
      // A recording's recording: what could not be read there cannot be read here.
      const int err = errno_of_open(source(path));
      const ErrorKind kind = kind_of_errno(err);
      return is_failure(kind) ? unread(path, Error{kind, err, path}) : Result<void>();
    }
    if (S_ISDIR(status.st_mode)) return folders ? make(path) : Result<void>();
    if (folders || !S_ISREG(status.st_mode))
      return folders && !S_ISREG(status.st_mode) ? make_empty(path) : Result<void>();
    if (seen_.contains(path)) return {};
    const auto content = read_file(source(path), kMaxFileSize);
    return content ? text_of(path, *content, holds) : unread(path, content.error());
  }

  // Of a call that failed.
  bool is_denied(const std::string& path) const {
    return kind_of_errno(errno_of_open(source(path))) == ErrorKind::kDenied;
  }

  // Whether the recording goes no further than this path; not where something of it could be read, which stays.
  bool ends_at(const std::string& path) {
    const std::string below = path + "/";
    const auto next = seen_.lower_bound(below);
    if ((next != seen_.end() && next->starts_with(below)) || !seen_.insert(path).second) return false;
    ends_.insert(path);
    return true;
  }

  // The file gets a link that says so, or the folder on its way that may not be entered.
  Result<void> denied(std::string path) {
    struct stat status{};
    while (::lstat(source(path).c_str(), &status) != 0 && is_denied(path)) {
      if (path.find('/') == std::string::npos) return {};
      path.resize(path.rfind('/'));
    }
    if (!ends_at(path)) return {};
    ++report_.unreadable;
    const std::string out = path_out(path, names_);
    std::string target(kDeniedLink);
    for (const char c : out)
      if (c == '/') target.insert(0, "../");
    if (seen_.insert(std::string(kDeniedLink)).second)
      ROCE_TRY_VOID(sink_.link(std::string(kDeniedLink), std::string(kDeniedLink)));
    return sink_.link(out, target);
  }

  // A device node, of which only counts that it is there.
  Result<void> make_empty(const std::string& path) { return text(path, ""); }

  Result<void> text_of(const std::string& path, const std::string& content, Holds holds) {
    seen_.insert(path);
    ++report_.files;
    return sink_.file(path_out(path, names_), rewritten(content, holds));
  }

  std::string rewritten(const std::string& content, Holds holds) {
    const auto whole = [&](const std::string& value) { return value.empty() ? content : value + "\n"; };
    switch (holds) {
      case Holds::kKernel:
        return names_.kernel_text(content);
      case Holds::kText:
        return names_.text(content);
      case Holds::kPlain:
        return content;
      case Holds::kAddress:
        return whole(names_.address_or_host(content));
      case Holds::kHost:
        return whole(names_.host(content));
      case Holds::kSerial:
        return whole(names_.serial(content));
      case Holds::kName:
        return whole(names_.name(content));
      case Holds::kInterface: {
        const std::string_view name = trim(content);
        return name == "default" || name == "iser" || name == "tcp" ? content : whole(names_.name(name));
      }
      case Holds::kModules:
        return modules(content);
      case Holds::kSharedMemory:
        return shared_memory(content);
      case Holds::kRoutes:
        return routes(content, names_);
      case Holds::kRoutes6:
        return routes6(content, names_);
      case Holds::kAddresses6:
        return addresses6(content, names_);
      case Holds::kMountstats:
        return mountstats(content, names_);
      case Holds::kSystemdLimits:
        return systemd_limits(content);
      case Holds::kComm:
        return whole(names_.process(content));
      case Holds::kLimits:
        return memlock_lines(content);
      case Holds::kStatus:
        return memory_lines(content);
      case Holds::kCgroup:
        return cgroup_lines(content, names_);
    }
    return {};
  }

  const Host& host_;
  const CaptureOptions& options_;
  Pseudonyms& names_;
  CaptureSink& sink_;
  CaptureReport report_;
  std::set<std::string> seen_;
  std::set<std::string> ends_;  // paths of links that say what could not be read
};

}  // namespace

std::vector<std::string_view> capture_patterns() {
  std::vector<std::string_view> out;
  for (const Pattern& pattern : kPatterns) out.push_back(pattern.path);
  return out;
}

bool looks_secret(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view word : {"secret", "dhchap", "passw", "psk", "_key", "keyring", "token", "credential"})
    if (name.find(word) != std::string_view::npos) return true;
  return name == "key";
}

Result<CaptureReport> capture(const Host& host, const DeviceList& objects, const CaptureOptions& options,
                              CaptureSink& sink) {
  Pseudonyms names;
  for (const std::string& name : options.host_names) names.add_host_name(name);
  if (const auto name = read_attribute(host.procfs + "/sys/kernel/hostname")) names.add_host_name(*name);
  Capturer capturer(host, options, names, sink);
  for (const Pattern& pattern : kPatterns) ROCE_TRY_VOID(capturer.follow(pattern));
  for (const std::string_view module : kModules) ROCE_TRY_VOID(capturer.module(module));
  ROCE_TRY_VOID(capturer.drop_ins());
  // The functions below which devices sit, up to the root of the bus.
  for (const auto& object : objects)
    for (std::string path = object->parent; pci_address_in(path) != ""; path.resize(path.rfind('/')))
      ROCE_TRY_VOID(capturer.pci_function(path));
  if (const RdmaHolders holders = find_rdma_holders(host, objects); holders.known) {
    for (const std::uint32_t pid : holders.pids) ROCE_TRY_VOID(capturer.process(pid));
    // Services get the first process's limit.
    ROCE_TRY_VOID(capturer.limits_of_first());
  }
  for (const auto& [path, text] : recorded_sources(host, objects, options, names))
    ROCE_TRY_VOID(text ? capturer.text(path, *text) : capturer.unread(path, text.error()));
  ROCE_TRY_VOID(sink.finish());
  return capturer.report();
}

}  // namespace roce

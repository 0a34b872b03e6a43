// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/netdev.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/directory.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/netdev_counters.h"

namespace roce {
namespace {

// What the RDMA core takes off the MTU: GRH or IP header, UDP, BTH, XRC and atomic extensions, ICRC.
constexpr std::uint64_t kHeaders = 40 + 8 + 12 + 4 + 28 + 4;
constexpr std::size_t kMaxProcNetDev = std::size_t{1} << 20;

// RFC 2863 states as numbered by linux/if.h.
constexpr std::array<std::string_view, 7> kOperationalStates{"unknown", "notpresent", "down", "lowerlayerdown",
                                                             "testing", "dormant",    "up"};

class NetdevCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    proc_.reset();
    Result<void> result;
    for (const InventoryNetdev& netdev : device().netdevs)
      if (auto done = collect_netdev(netdev, *part); !done && result) result = std::move(done);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return result;
  }

 private:
  Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part) {
    Result<void> result;
    const auto add = [&](const MetricDesc& metric, const Result<std::uint64_t>& value) {
      if (value)
        part.samples.add(metric, {netdev.device, netdev.port, netdev.name}, *value);
      else if (result && value.error().kind != ErrorKind::kAbsent && value.error().kind != ErrorKind::kUnsupported)
        result = tl::unexpected(value.error());
      return value.has_value();
    };
    const CallTracker::Scope scope(host().calls.get(), "sysfs_netdev", netdev.name);
    const Result<Directory> dir =
        netdev.path.empty() ? Result<Directory>(fail(ErrorKind::kAbsent, netdev.name)) : Directory::open(netdev.path);
    const auto read = [&](const char* file) -> Result<std::uint64_t> {
      if (!dir) return tl::unexpected(dir.error());
      return dir->read_u64(file);
    };
    const auto mtu = read("mtu");
    if (add(metric::netdev_mtu, mtu) && !netdev.lag_member && speaks_roce(netdev))
      add(metric::path_mtu, std::uint64_t{roce_path_mtu(*mtu)});
    add(metric::netdev_operational_state, operational_state(netdev, dir));
    const bool received = add(metric::netdev_receive_bytes, read("statistics/rx_bytes"));
    const bool sent = add(metric::netdev_transmit_bytes, read("statistics/tx_bytes"));
    if (received || sent) return result;
    const auto listed = proc_counters(netdev.name);
    if (!listed) {
      add(metric::netdev_receive_bytes, tl::unexpected(listed.error()));
    } else if (const NetdevCounters* counters = *listed) {
      add(metric::netdev_receive_bytes, counters->receive_bytes);
      add(metric::netdev_transmit_bytes, counters->transmit_bytes);
    }
    return result;
  }

  static Result<std::uint64_t> operational_state(const InventoryNetdev& netdev, const Result<Directory>& dir) {
    if (!dir) return tl::unexpected(dir.error());
    ROCE_TRY(const std::string text, dir->read_attribute("operstate"));
    for (std::size_t i = 0; i < kOperationalStates.size(); ++i)
      if (kOperationalStates[i] == text) return i;
    return fail(ErrorKind::kMalformed, netdev.path + "/operstate");
  }

  // InfiniBand ports have network devices too, and iWARP needs no path MTU: a RoCE port is one of a channel adapter
  // (1).
  bool speaks_roce(const InventoryNetdev& netdev) const {
    if (netdev.device.empty()) return false;
    const std::string& dir = device().path;
    if (dir.empty()) return true;
    const auto node_type = read_attribute(dir + "/node_type");
    if (node_type && parse_leading_number(*node_type).value_or(1) != 1) return false;
    return read_attribute(dir + "/ports/" + netdev.port + "/link_layer").value_or("Ethernet") == "Ethernet";
  }

  // Only for a tree whose sysfs has no statistics: the kernel sums up all devices for this file.
  Result<const NetdevCounters*> proc_counters(const std::string& name) {
    if (host().live) return nullptr;
    if (!proc_) {
      const std::string path = host().procfs + "/net/dev";
      ROCE_TRY(const std::string text, read_file(path, kMaxProcNetDev));
      proc_ = parse_proc_net_dev(text);
      if (proc_->empty() && !trim(text).empty() && text.find("Inter-") == std::string::npos) {
        proc_.reset();
        return fail(ErrorKind::kMalformed, path);
      }
    }
    for (const NetdevCounters& counters : *proc_)
      if (counters.name == name) return &counters;
    return nullptr;
  }

  std::optional<std::vector<NetdevCounters>> proc_;  // of this run
};

}  // namespace

unsigned roce_path_mtu(std::uint64_t netdev_mtu) {
  for (unsigned mtu = 4096; mtu >= 256; mtu /= 2)
    if (netdev_mtu >= mtu + kHeaders) return mtu;
  return 0;
}

std::unique_ptr<Collector> make_netdev_collector(const CollectorContext& context) {
  return std::make_unique<NetdevCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/dcb.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::array<std::string_view, kPriorities> kDigits{"0", "1", "2", "3", "4", "5", "6", "7"};
constexpr std::size_t kDscps = 64;
// Published of a whole table whatever they map to: the class selector and the assured class that RoCE guides use,
// expedited forwarding, and network control, which is the usual one of congestion notifications.
constexpr std::array<std::size_t, 4> kAlwaysTold{24, 26, 46, 48};
constexpr std::uint16_t kRoceV1EtherType = 0x8915;
constexpr std::uint16_t kRoceV2Port = 4791;

std::string_view algorithm_name(DcbAlgorithm algorithm) {
  const std::string_view name = dcb_name(algorithm);
  return name.empty() ? "unknown" : name;
}

std::string_view selector_name(DcbSelector selector) {
  switch (selector) {
    case DcbSelector::kEtherType:
      return "ethertype";
    case DcbSelector::kStreamPort:
      return "stream_port";
    case DcbSelector::kDatagramPort:
      return "datagram_port";
    case DcbSelector::kPort:
      return "port";
    case DcbSelector::kDscp:
      return "dscp";
    case DcbSelector::kPcp:
      return "pcp";
  }
  return "unknown";
}

// Adds samples of one network device.
class Writer {
 public:
  Writer(const InventoryNetdev& netdev, Part& part) : netdev_(netdev), part_(part) {}

  void add(const MetricDesc& metric, Value value) {
    part_.samples.add(metric, {netdev_.device, netdev_.port, netdev_.name}, value);
  }
  void add(const MetricDesc& metric, std::string_view label, Value value) {
    part_.samples.add(metric, {netdev_.device, netdev_.port, netdev_.name, label}, value);
  }
  void add(const MetricDesc& metric, std::string_view label, std::string_view other, Value value) {
    part_.samples.add(metric, {netdev_.device, netdev_.port, netdev_.name, label, other}, value);
  }

 private:
  const InventoryNetdev& netdev_;
  Part& part_;
};

void add_pfc(const DcbState& state, bool frames, Writer& out) {
  const DcbPfc& pfc = *state.pfc;
  for (std::size_t p = 0; p < kPriorities; ++p) out.add(metric::pfc_enabled, kDigits[p], pfc.on(p));
  if (pfc.capable) out.add(metric::pfc_priorities_limit, unsigned{*pfc.capable});
  if (pfc.delay) out.add(metric::pfc_delay, unsigned{*pfc.delay});
  if (!frames || !pfc.sent || !pfc.received) return;
  for (std::size_t p = 0; p < kPriorities; ++p) {
    const std::uint64_t sent = (*pfc.sent)[p];
    const std::uint64_t received = (*pfc.received)[p];
    if (!pfc.on(p) && sent == 0 && received == 0) continue;
    out.add(metric::dcb_pfc_frames, kDigits[p], "transmit", sent);
    out.add(metric::dcb_pfc_frames, kDigits[p], "receive", received);
  }
}

void add_buffers(const DcbBuffers& buffers, const std::optional<DcbPfc>& pfc, Writer& out) {
  if (buffers.total) out.add(metric::dcb_buffer_space, *buffers.total);
  if (!buffers.size) return;
  for (std::size_t i = 0; i < kPriorities; ++i)
    if ((*buffers.size)[i] != 0) out.add(metric::dcb_buffer, kDigits[i], (*buffers.size)[i]);
  if (!buffers.of_priority || !pfc) return;
  for (std::size_t p = 0; p < kPriorities; ++p) {
    const std::size_t buffer = (*buffers.of_priority)[p];
    if (pfc->on(p) && buffer < kPriorities) out.add(metric::pfc_buffer, kDigits[p], (*buffers.size)[buffer]);
  }
}

void add_ets(const DcbEts& ets, Writer& out) {
  if (ets.willing) out.add(metric::dcb_willing, *ets.willing);
  // Of classes that no priority is in nothing is sent.
  PerPriority<bool> used{};
  if (!ets.traffic_class) used.fill(true);
  for (std::size_t p = 0; ets.traffic_class && p < kPriorities; ++p) {
    const std::uint8_t traffic_class = (*ets.traffic_class)[p];
    out.add(metric::ets_traffic_class, kDigits[p], unsigned{traffic_class});
    if (traffic_class < kPriorities) used[traffic_class] = true;
  }
  for (std::size_t i = 0; ets.algorithm && i < kPriorities; ++i) {
    const DcbAlgorithm algorithm = (*ets.algorithm)[i];
    if (!used[i]) continue;
    out.add(metric::ets_info, kDigits[i], algorithm_name(algorithm), 1);
    if (ets.bandwidth && algorithm == DcbAlgorithm::kEts)
      out.add(metric::ets_bandwidth, kDigits[i], (*ets.bandwidth)[i] / 100.0);
  }
}

// The priority of each DSCP that the table holds. Of several the highest counts, as for the kernel.
std::array<std::optional<std::uint8_t>, kDscps> dscp_map(const std::vector<DcbApp>& apps) {
  std::array<std::optional<std::uint8_t>, kDscps> map;
  for (const DcbApp& app : apps) {
    if (app.selector != DcbSelector::kDscp || app.protocol >= kDscps || app.priority >= kPriorities) continue;
    auto& entry = map[app.protocol];
    entry = std::max(entry.value_or(0), app.priority);
  }
  return map;
}

bool holds_dscp(const std::vector<DcbApp>& apps) {
  return std::any_of(apps.begin(), apps.end(), [](const DcbApp& app) { return app.selector == DcbSelector::kDscp; });
}

void add_apps(const std::vector<DcbApp>& apps, const std::optional<DcbPfc>& pfc, Writer& out) {
  const auto map = dscp_map(apps);
  const auto entries =
      static_cast<std::size_t>(std::count_if(map.begin(), map.end(), [](auto& m) { return m.has_value(); }));
  for (std::size_t dscp = 0; dscp < kDscps; ++dscp) {
    if (!map[dscp]) continue;
    const std::size_t priority = *map[dscp];
    const bool always = std::find(kAlwaysTold.begin(), kAlwaysTold.end(), dscp) != kAlwaysTold.end();
    if (entries < kDscps || always || priority != dscp / 8 || (pfc && pfc->on(priority)))
      out.add(metric::dscp_priority, std::to_string(dscp), priority);
  }
  out.add(metric::dscp_entries, entries);

  std::array<std::optional<std::uint8_t>, 3> told;
  for (const DcbApp& app : apps) {
    std::optional<std::size_t> which;
    if (app.selector == DcbSelector::kEtherType && app.protocol == kRoceV1EtherType) which = 0;
    if ((app.selector == DcbSelector::kDatagramPort || app.selector == DcbSelector::kPort) &&
        app.protocol == kRoceV2Port)
      which = 1;
    if (app.selector == DcbSelector::kEtherType && app.protocol == 0) which = 2;
    if (which) told[*which] = std::max(told[*which].value_or(0), app.priority);
  }
  constexpr std::array<std::string_view, 3> kApplications{"roce_v1", "roce_v2", "default"};
  for (std::size_t i = 0; i < told.size(); ++i)
    if (told[i]) out.add(metric::dcb_app_priority, kApplications[i], unsigned{*told[i]});
}

void add_dcbx(std::uint8_t bits, Writer& out) {
  std::string_view manager = "none";
  if ((bits & kDcbxHost) != 0) manager = "host";
  if ((bits & kDcbxFirmware) != 0) manager = "firmware";
  if ((bits & kDcbxStatic) != 0) manager = "static";
  std::string_view version = "none";
  if ((bits & kDcbxIeee) != 0) version = "ieee";
  if ((bits & kDcbxCee) != 0) version = (bits & kDcbxIeee) != 0 ? "both" : "cee";
  out.add(metric::dcbx_info, manager, version, 1);
}

// Kernel drivers whose ethtool statistics have the pause frames of each priority, and the keys of the counter tables of
// their RDMA devices. Both would be two names of one quantity; what mlx5 answers here is even an old copy of the other.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kFramesByEthtool{
    {{"mlx5_core", "mlx5"}, {"bnxt_en", "bnxt_re"}, {"ice", "irdma"}, {"hns3", "hns"}}};

bool is_driver(const InventoryDevice& device, const InventoryNetdev& netdev,
               const std::pair<std::string_view, std::string_view>& names) {
  if (netdev.driver.empty()) return device.driver == names.second;
  // On the auxiliary bus the part's name follows: mlx5_core.sf.
  return std::string_view(netdev.driver).substr(0, netdev.driver.find('.')) == names.first;
}

// It has no trust operation: its DSCP map is filled when trust is set to dscp and emptied for pcp.
bool trusts_by_map(const InventoryDevice& device, const InventoryNetdev& netdev) {
  return is_driver(device, netdev, kFramesByEthtool[0]);
}

class DcbCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    Result<void> result;
    std::optional<Error> not_recorded;
    for (const InventoryNetdev& netdev : device().netdevs) {
      const auto done = collect_netdev(netdev, *part);
      if (done) continue;
      if (done.error().kind == ErrorKind::kNotRecorded)
        not_recorded = done.error();
      else if (result)
        result = done;
    }
    // A recording need not hold each leg of a bond, and the bond itself has nothing to record.
    if (result && not_recorded && part->samples.samples().empty()) result = tl::unexpected(*not_recorded);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return result;
  }

 private:
  Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part) const {
    Writer out(netdev, part);
    std::string trust = qos_trust(netdev);
    Result<DcbState> state = host().dcb ? host().dcb->state(netdev.name) : fail(ErrorKind::kAbsent, netdev.name);
    if (state) {
      add(*state, netdev, out);
      if (trust.empty()) trust = trust_of(*state, netdev);
    }
    if (!trust.empty()) out.add(metric::dcb_trust_info, trust, 1);
    // No such device, or a driver without bridging: there is nothing to tell.
    if (state || state.error().kind == ErrorKind::kAbsent || state.error().kind == ErrorKind::kUnsupported) return {};
    return tl::unexpected(state.error());
  }

  void add(const DcbState& state, const InventoryNetdev& netdev, Writer& out) const {
    const bool elsewhere = std::any_of(kFramesByEthtool.begin(), kFramesByEthtool.end(),
                                       [&](const auto& names) { return is_driver(device(), netdev, names); });
    if (state.pfc) add_pfc(state, !elsewhere, out);
    for (std::size_t p = 0; state.peer_pfc && p < kPriorities; ++p)
      out.add(metric::pfc_peer_enabled, kDigits[p], state.peer_pfc->on(p));
    if (state.buffers) add_buffers(*state.buffers, state.pfc, out);
    if (state.ets) add_ets(*state.ets, out);
    for (std::size_t i = 0; state.max_rate && i < kPriorities; ++i)
      if ((*state.max_rate)[i] != 0) out.add(metric::dcb_max_rate, kDigits[i], (*state.max_rate)[i]);
    if (state.apps) add_apps(*state.apps, state.pfc, out);
    if (state.dcbx) add_dcbx(*state.dcbx, out);
  }

  // What the drivers of the vendor's own package say.
  std::string qos_trust(const InventoryNetdev& netdev) const {
    if (netdev.path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_qos", netdev.name);
    auto text = read_attribute(netdev.path + "/qos/trust");
    return text && (*text == "dscp" || *text == "pcp") ? std::move(*text) : std::string();
  }

  std::string trust_of(const DcbState& state, const InventoryNetdev& netdev) const {
    std::string list;
    if (state.trust) {
      for (const DcbSelector selector : *state.trust) {
        if (!list.empty()) list += ',';
        list += selector_name(selector);
      }
      return list.empty() ? "none" : list;
    }
    if (trusts_by_map(device(), netdev) && state.apps) return holds_dscp(*state.apps) ? "dscp" : "pcp";
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_dcb_collector(const CollectorContext& context) {
  return std::make_unique<DcbCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/ethtool.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/ethtool_names.h"
#include "exporter/collectors/per_netdev.h"

namespace roce {
namespace {

constexpr auto kTableAgain = std::chrono::seconds(60);
constexpr std::uint64_t kInvalid = std::numeric_limits<std::uint64_t>::max();
// A name with a number in it need not be a queue's. So few cost nothing, many are one for each queue.
constexpr std::size_t kFewQueueStatistics = 16;

class EthtoolCollector : public PerNetdevCollector {
 public:
  using PerNetdevCollector::PerNetdevCollector;

 protected:
  Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part, Part& rest) override {
    if (!host().ethtool) return {};
    Present& present = present_[{netdev.port, netdev.name}] = {};
    if (refusals_.refused(netdev.name, "statistics")) return {};
    const auto statistics = host().ethtool->statistics(netdev.name);
    refusals_.note(netdev.name, "statistics", statistics ? nullptr : &statistics.error());
    if (!statistics) {
      const ErrorKind kind = statistics.error().kind;
      if (kind == ErrorKind::kUnsupported) return {};
      // What could not be read says nothing of what is there.
      present_.erase({netdev.port, netdev.name});
      if (kind == ErrorKind::kAbsent) return {};  // gone since the devices were listed
      return tl::unexpected(statistics.error());
    }
    Source& source = source_of(netdev);
    const std::vector<Use> uses = uses_of(source, *statistics);
    std::vector<CounterSet::Reading> families;
    std::vector<CounterSet::Reading> others;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const NamedValue& statistic = (*statistics)[i];
      if (uses[i].family != nullptr) {
        CounterSet::Reading reading{statistic.name, statistic.value};
        reading.replaced = has(*statistics, uses[i].family->twin_of);
        families.push_back(std::move(reading));
        note(present, *uses[i].family);
      }
      if (uses[i].count > 1)
        part.samples.add(metric::netdev_statistic_values, {netdev.device, netdev.port, netdev.name, statistic.name},
                         uses[i].count);
      if (uses[i].generic) others.push_back({statistic.name, statistic.value});
      // The very value that the driver gave, whatever became of it elsewhere.
      if (uses[i].copy && statistic.value != kInvalid)
        rest.samples.add(metric::netdev_counter, {netdev.device, netdev.port, netdev.name, statistic.name},
                         statistic.value);
    }
    auto result = source.families.publish(families, part);
    if (const auto done = source.others.publish(others, rest); !done && result) result = done;
    return result;
  }

  // Where a port has no PFC statistics (guests, drivers without them), nothing of it may be taken for "no pause".
  void conclude(Part& part) override {
    std::map<std::string, Present> of_ports;
    for (const InventoryNetdev& netdev : device().netdevs) {
      const auto found = present_.find({netdev.port, netdev.name});
      if (netdev.port.empty() || found == present_.end()) continue;
      Present& port = of_ports[netdev.port];
      port.pfc = port.pfc || found->second.pfc;
      port.physical_port = port.physical_port || found->second.physical_port;
    }
    for (const auto& [port, present] : of_ports) {
      part.samples.add(metric::source_present, {device().name, port, "pfc"}, present.pfc);
      part.samples.add(metric::source_present, {device().name, port, "physical_port"}, present.physical_port);
    }
  }

 private:
  // Where a statistic goes.
  struct Use {
    const CounterRow* family = nullptr;
    bool generic = false;  // it has no row, and goes to the generic family with all that belongs to a counter
    bool copy = false;     // a plain copy under the driver's spelling
    unsigned count = 1;    // values of this name; those behind the first go nowhere
  };
  struct Source {
    Source(const CollectorContext& context, const InventoryNetdev& netdev, EthtoolTable found)
        : table(std::move(found)),
          families(context, Interface::kEthtool, netdev, table.driver),
          others(context, Interface::kEthtool, netdev, table.driver) {}
    EthtoolTable table;
    CounterSet families;
    CounterSet others;
    std::vector<std::string> names;  // of the last read
    std::vector<Use> uses;           // of the same
    Part::Clock::time_point look_again{};
  };
  struct Present {
    bool pfc = false;
    bool physical_port = false;
  };

  Source& source_of(const InventoryNetdev& netdev) {
    const auto now = Part::Clock::now();
    const std::string key = netdev.port + "/" + netdev.name;
    const auto old = sources_.find(key);
    if (old != sources_.end() && now < old->second->look_again) return *old->second;
    EthtoolTable table = ethtool_table(host(), device(), netdev);
    if (old == sources_.end() || old->second->table.driver != table.driver || old->second->table.told != table.told)
      sources_.insert_or_assign(key, std::make_unique<Source>(context(), netdev, std::move(table)));
    Source& source = *sources_.at(key);
    source.look_again = now + kTableAgain;
    return source;
  }

  std::vector<Use> uses_of(Source& source, const std::vector<NamedValue>& statistics) const {
    const bool same =
        std::equal(statistics.begin(), statistics.end(), source.names.begin(), source.names.end(),
                   [](const NamedValue& statistic, const std::string& name) { return statistic.name == name; });
    if (same) return source.uses;
    const CollectorSettings& settings = context().settings;
    source.names.clear();
    source.uses.clear();
    std::size_t of_queues = 0;
    std::unordered_map<std::string_view, std::size_t> first;  // place of the name
    for (const NamedValue& statistic : statistics) of_queues += is_queue_statistic(statistic.name) ? 1 : 0;
    const bool queues = settings.ethtool_per_queue || of_queues <= kFewQueueStatistics;
    for (const NamedValue& statistic : statistics) {
      source.names.push_back(statistic.name);
      const auto [at, is_first] = first.emplace(statistic.name, source.uses.size());
      if (!is_first) {
        ++source.uses[at->second].count;
        source.uses.push_back({.count = 0});
        continue;
      }
      Use use;
      const CounterRow* row = find_counter(source.table.driver, Interface::kEthtool, statistic.name);
      const bool of_queue = row == nullptr && is_queue_statistic(statistic.name);
      const bool known_driver = source.table.told && !source.table.driver.empty();
      if (row != nullptr) {
        if (row->metric != nullptr) use.family = row;
        use.copy = settings.ethtool_raw && row->metric != &metric::netdev_counter;
      } else if (of_queue) {
        use.generic = settings.ethtool_per_queue || (queues && (settings.ethtool_raw || !known_driver));
      } else {
        use.generic = settings.ethtool_raw || !known_driver;
      }
      source.uses.push_back(use);
    }
    return source.uses;
  }

  static bool has(const std::vector<NamedValue>& statistics, std::string_view name) {
    return !name.empty() && std::any_of(statistics.begin(), statistics.end(),
                                        [&](const NamedValue& statistic) { return statistic.name == name; });
  }

  static void note(Present& present, const CounterRow& row) {
    present.pfc = present.pfc || row.metric == &metric::pfc_frames;
    present.physical_port = present.physical_port || row.metric == &metric::physical_port_bytes ||
                            row.metric == &metric::physical_port_discards ||
                            row.metric == &metric::physical_port_errors;
  }

  Refusals refusals_;
  std::map<std::string, std::unique_ptr<Source>> sources_;
  std::map<std::pair<std::string, std::string>, Present> present_;  // by port and name, as last read
};

}  // namespace

std::unique_ptr<Collector> make_ethtool_collector(const CollectorContext& context) {
  return std::make_unique<EthtoolCollector>(context);
}

}  // namespace roce

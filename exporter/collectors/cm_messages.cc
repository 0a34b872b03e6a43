// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/cm_messages.h"

#include <array>
#include <map>

#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/port_collector.h"

namespace roce {
namespace {

constexpr std::array<std::string_view, 4> kGroups{"cm_tx_msgs", "cm_tx_retries", "cm_rx_msgs", "cm_rx_duplicates"};

class CmMessagesCollector : public PortCollector {
 public:
  using PortCollector::PortCollector;

 protected:
  Result<void> collect_port(const InventoryPort& port, Part& part) override {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_cm", device().name);
    Source& source = sources_.try_emplace(port.number, context(), port, port_path(port)).first->second;
    Result<void> result;
    std::vector<CounterSet::Reading> readings;
    for (std::size_t group = 0; group < kGroups.size(); ++group) {
      if (const auto listed = source.files[group].list(); !listed && result) result = listed;
      for (CounterSet::Reading& reading : source.files[group].read()) {
        // The catalog names these counters with their directory: cm_rx_msgs/rej.
        const auto key = std::pair(group, std::string(reading.name));
        auto& name = source.names[key];
        if (name.empty()) name = std::string(kGroups[group]) + "/" + key.second;
        readings.push_back({name, std::move(reading.value)});
      }
    }
    if (const auto done = source.set.publish(readings, part); !done && result) result = done;
    return result;
  }

 private:
  struct Source {
    Source(const CollectorContext& context, const InventoryPort& port, const std::string& path)
        : files{CounterFiles(path + "/cm_tx_msgs"), CounterFiles(path + "/cm_tx_retries"),
                CounterFiles(path + "/cm_rx_msgs"), CounterFiles(path + "/cm_rx_duplicates")},
          set(context, Interface::kCmCounters, port.text, "cm") {}
    std::array<CounterFiles, 4> files;
    std::map<std::pair<std::size_t, std::string>, std::string> names;
    CounterSet set;
  };
  std::map<unsigned, Source> sources_;
};

}  // namespace

std::unique_ptr<Collector> make_cm_messages_collector(const CollectorContext& context) {
  return std::make_unique<CmMessagesCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/port_counters.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/port_collector.h"

namespace roce {
namespace {

class PortCountersCollector : public PortCollector {
 public:
  using PortCollector::PortCollector;

 protected:
  // Each of some twenty files is a question of its own to the device, and no packet passes a port that is down.
  bool rests_while_down() const override { return true; }

  Result<void> collect_port(const InventoryPort& port, Part& part) override {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_counters", device().name);
    Source& source = sources_.try_emplace(port.number, context(), port, port_path(port)).first->second;
    Result<void> result = source.plain_files.list();
    if (const auto listed = source.extended_files.list(); !listed && result) result = listed;

    auto plain = source.plain_files.read();
    const auto extended = source.extended_files.read();
    if (!extended.empty()) {
      // One series a quantity: a plain counter goes when its 64-bit twin has a value.
      const auto twin_has_value = [&](const CounterSet::Reading& reading) {
        const CounterRow* row = find_row(device().driver, Interface::kPortCounters, reading.name);
        return row != nullptr && std::any_of(extended.begin(), extended.end(), [&](const CounterSet::Reading& twin) {
                 const CounterRow* twin_row = find_row(device().driver, Interface::kPortCounters, twin.name);
                 return twin.value && !why_no_value(twin_row, *twin.value) && twin_row != nullptr &&
                        twin_row->metric == row->metric && twin_row->labels == row->labels;
               });
      };
      // Once it had one it keeps the series: a step to the plain counter and back would be a reset and a leap.
      for (CounterSet::Reading& reading : plain) {
        if (twin_has_value(reading)) source.replaced.emplace(reading.name);
        reading.replaced = source.replaced.contains(reading.name);
      }
    }
    if (const auto done = source.plain.publish(plain, part); !done && result) result = done;
    if (const auto done = source.extended.publish(extended, part); !done && result) result = done;
    return result;
  }

 private:
  struct Source {
    Source(const CollectorContext& context, const InventoryPort& port, const std::string& path)
        : plain_files(path + "/counters"),
          extended_files(path + "/counters_ext"),
          plain(context, Interface::kPortCounters, port.text, "counters"),
          extended(context, Interface::kPortCounters, port.text, "counters_ext") {}
    CounterFiles plain_files;
    CounterFiles extended_files;
    CounterSet plain;
    CounterSet extended;
    std::set<std::string, std::less<>> replaced;  // plain counters whose twin had a value
  };
  std::map<unsigned, Source> sources_;
};

}  // namespace

std::unique_ptr<Collector> make_port_counters_collector(const CollectorContext& context) {
  return std::make_unique<PortCountersCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The metric catalog: every metric that the programs publish, and for every driver counter where it goes. Names, help,
// the metrics reference, rules and dashboards all come from here. To add a metric: one row in metrics.def. To map a
// counter: one row in counters/<driver>.def. Rules that rows must keep are checked while compiling.
//
// All data is constant and lives for the whole process; every function may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "exporter/metrics/metric.h"

namespace roce {

// One constant a metric, named as the row's identifier: metric::port_state and so on.
namespace metric {
#define ROCE_METRIC(id, ...) extern const MetricDesc& id;
#include "exporter/catalog/metrics.def"
#undef ROCE_METRIC
// process_cpu_seconds_total and the like.
#define ROCE_PROCESS_METRIC(id, ...) extern const MetricDesc& id;
#include "exporter/catalog/process.def"
#undef ROCE_PROCESS_METRIC
}  // namespace metric

// All metrics in the order of metrics.def; those of the process are apart.
std::span<const MetricDesc> all_metrics();
std::span<const MetricDesc> process_metrics();

// Where a counter is read.
enum class Interface : std::uint8_t {
  kPortCounters,    // sysfs ports/N/counters and counters_ext
  kHwCounters,      // STAT_GET or sysfs ports/N/hw_counters
  kDeviceCounters,  // sysfs hw_counters of the device
  kCmCounters,      // sysfs ports/N/cm_*; the counter is DIRECTORY/FILE
  kNetdev,          // sysfs class/net/NAME
  kEthtool,         // ethtool -S
  kOther,           // the remaining sources, each read by its own collector
};

std::string_view to_string(Interface interface);

// What a counter does at the top of its width.
enum class AtTop : std::uint8_t { kPlain, kWraps, kSaturates };

// Labels that say of which object a value is; the others say which counter.
constexpr bool is_object_label(std::string_view name) {
  for (std::string_view own : {"device", "port", "netdev", "controller", "subsystem", "namespace", "mount", "gpu",
                               "pci_address", "pid", "comm"})
    if (name == own) return true;
  return false;
}

// Values of a metric's labels after the object's own, in the order of the metric's labels.
struct LabelValues {
  std::array<std::string_view, 3> text{};
  std::size_t count = 0;

  std::span<const std::string_view> span() const { return {text.data(), count}; }
};

struct CounterRow {
  std::string_view driver;             // key of the table: mlx5, bnxt_re, ib-port, ib-cm, ...
  std::string_view counter;            // the driver's spelling, or a pattern with one [a-b] of digits
  const MetricDesc* metric = nullptr;  // null: omitted
  std::string_view labels;             // the same as `values` with names: "side=requester,reason=local_length"
  LabelValues values;  // of the generic families the counter itself; see value_of() for those of a pattern
  // Another spelling, in another kernel or directory, of this counter of the same driver. Both give the same series:
  // where both are there the row with the greater width counts.
  std::string_view twin_of;
  std::string_view why;        // omitted: the reason; else a short meaning of the counter
  std::uint32_t multiply = 1;  // published value = raw * multiply / divide
  std::uint32_t divide = 1;
  Interface interface = Interface::kOther;
  std::uint8_t width = 64;  // bits of the narrowest field in use; a greater value shows that this device has 64
  AtTop at_top = AtTop::kPlain;
  bool gauge = false;     // goes up and down (a level, a high-water mark)
  bool optional = false;  // switchable by `rdma statistic set`; off by default
  // Publishes the series only where ports/N/counters of the port does not exist; where it does, that directory has the
  // same quantity and this row's counter goes to driver_counter.
  bool fallback = false;
};

std::span<const CounterRow> all_counters();

// Row of a counter of that driver on that interface; null when the catalog does not know it. No allocation. A hardware
// counter is found at the port and at the device alike, since some drivers move theirs with the mode of the device
// (publish those of a device with an empty port); a row for exactly that level comes first.
const CounterRow* find_counter(std::string_view driver, Interface interface, std::string_view counter);

// The i-th label value for a counter that matches the row: a value such as "[0-7]" stands for the digit of the counter.
std::string_view value_of(const CounterRow& row, std::size_t i, std::string_view counter);

// True where `text` is what the pattern (one [a-b] of single digits, or none) stands for.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The metric catalog: every metric that the programs publish, and for every driver counter where it goes. Names, help,
// the metrics reference, rules and dashboards all come from here. To add a metric: one row in metrics.def. To map a
// counter: one row in counters/<driver>.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "exporter/metrics/metric.h"

namespace roce {

// One constant a metric, named as the row's identifier: metric::port_state and so on.
namespace metric {
#define ROCE_METRIC(id, ...) extern const MetricDesc& id;
#include "exporter/catalog/metrics.def"
#undef ROCE_METRIC
}  // namespace metric

// All metrics in the order of metrics.def.
std::span<const MetricDesc> all_metrics();

// Where a counter is read.
enum class Interface : std::uint8_t {
  kPortCounters,    // sysfs ports/N/counters (and counters_ext)
  kHwCounters,      // STAT_GET or sysfs ports/N/hw_counters
  kDeviceCounters,  // sysfs hw_counters of the device
  kCmCounters,      // sysfs ports/N/cm_*
  kEthtool,         // ethtool -S
  kOther,           // the remaining sources, each read by its own collector
};

// What a counter does at the top of its width.
enum class AtTop : std::uint8_t { kPlain, kWraps, kSaturates };

struct CounterRow {
  std::string_view driver;     // key of the table: mlx5, bnxt_re, ib-port, ib-cm, ...
  std::string_view counter;    // the driver's spelling
  Interface interface = Interface::kOther;
  const MetricDesc* metric = nullptr;  // null: omitted
  std::string_view labels;     // values of the metric's further labels after the object's own: "reason=rnr,direction=receive"
  std::uint32_t multiply = 1;  // published value = raw * multiply / divide
  std::uint32_t divide = 1;
  std::uint8_t width = 64;     // bits
  AtTop at_top = AtTop::kPlain;
  bool gauge = false;          // goes up and down (a level, a high-water mark)
  bool optional = false;       // switchable by `rdma statistic set`; off by default
  std::string_view why;        // omitted: the reason; else a short meaning of the counter
};

std::span<const CounterRow> all_counters();

// Row of a counter of that driver on that interface; null when the catalog does not know it.
const CounterRow* find_counter(std::string_view driver, Interface interface, std::string_view counter);

}  // namespace roce

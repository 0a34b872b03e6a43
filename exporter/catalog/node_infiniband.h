// SPDX-License-Identifier: Apache-2.0
//
// Names of Prometheus' node_exporter for InfiniBand and RoCE ports, published by --compat.node-infiniband beside our
// own so that existing dashboards and rules go on. Each counter is one file below ports/N, read and published by
// itself: the directories counters and counters_ext give two series here, and a file that is absent or not a number
// gives none. Two points differ from node_exporter on purpose: a device without board_id, hca_type or counters does not
// take the others down, and a lifespan below one second is not rounded to 0.
//
// All data is constant; every function may be called from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "exporter/metrics/metric.h"

namespace roce {

namespace node_infiniband {
extern const MetricDesc& info;               // device, board_id, firmware_version, hca_type; value 1
extern const MetricDesc& state_id;           // device, port; number of ports/N/state
extern const MetricDesc& physical_state_id;  // device, port; number of ports/N/phys_state
extern const MetricDesc& rate;               // device, port; bytes per second of ports/N/rate
extern const MetricDesc& lifespan;           // device, port; seconds of ports/N/hw_counters/lifespan
}  // namespace node_infiniband

// One counter with the labels device and port.
struct NodeInfinibandCounter {
  std::string_view directory;  // counters, counters_ext or hw_counters
  std::string_view file;
  const MetricDesc* metric = nullptr;
  std::uint32_t multiply = 1;
};

// All metrics of the family, gauges first.
std::span<const MetricDesc> node_infiniband_metrics();

// All counters, by directory.
std::span<const NodeInfinibandCounter> node_infiniband_counters();

// The counter of a file of the port; null where node_exporter has none. No allocation.
const NodeInfinibandCounter* find_node_infiniband(std::string_view directory, std::string_view file);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/node_infiniband.h"

#include <array>
#include <cstddef>

namespace roce {
namespace {

constexpr MetricDesc gauge(std::string_view name, std::string_view unit, std::string_view labels,
                           std::string_view help) {
  return MetricDesc{name, MetricType::kGauge, unit, labels, "compat", false, Proof::kReal, help};
}

enum Gauge : std::uint8_t { kInfo, kState, kPhysicalState, kRate, kLifespan, kGauges };

#define NODE_INFINIBAND(directory, file, stem, multiply, help) \
  MetricDesc{"node_infiniband_" stem "_total",                 \
             MetricType::kCounter,                             \
             (multiply) == 4 ? "bytes" : "",                   \
             "device,port",                                    \
             "compat",                                         \
             false,                                            \
             Proof::kMade,                                     \
             help},
constexpr MetricDesc kMetrics[] = {
    gauge("node_infiniband_info", "", "device,board_id,firmware_version,hca_type",
          "Identity of the device under node_exporter's names, always 1."),
    gauge("node_infiniband_state_id", "", "device,port",
          "State of the port: 0 none, 1 down, 2 initialising, 3 armed, 4 active, 5 active with deferred changes."),
    gauge("node_infiniband_physical_state_id", "", "device,port",
          "Physical state of the port: 0 none, 1 sleep, 2 polling, 3 disabled, 4 shift, 5 link up, 6 link error "
          "recovery, 7 physical test."),
    gauge("node_infiniband_rate_bytes_per_second", "bytes_per_second", "device,port", "Data rate of the port."),
    gauge("node_infiniband_lifespan_seconds", "seconds", "device,port",
          "How long the kernel serves cached hardware counters."),
#include "exporter/catalog/node_infiniband.def"
};
#undef NODE_INFINIBAND

struct File {
  std::string_view directory;
  std::string_view name;
  std::uint32_t multiply;
};
#define NODE_INFINIBAND(directory, file, stem, multiply, help) File{directory, file, multiply},
constexpr File kFiles[] = {
#include "exporter/catalog/node_infiniband.def"
};
#undef NODE_INFINIBAND
static_assert(std::size(kMetrics) == kGauges + std::size(kFiles));

constexpr auto kCounters = [] {
  std::array<NodeInfinibandCounter, std::size(kFiles)> counters{};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    counters[i] = {kFiles[i].directory, kFiles[i].name, &kMetrics[kGauges + i], kFiles[i].multiply};
  }
  return counters;
}();

}  // namespace

namespace node_infiniband {
const MetricDesc& info = kMetrics[kInfo];
const MetricDesc& state_id = kMetrics[kState];
const MetricDesc& physical_state_id = kMetrics[kPhysicalState];
const MetricDesc& rate = kMetrics[kRate];
const MetricDesc& lifespan = kMetrics[kLifespan];
}  // namespace node_infiniband

std::span<const MetricDesc> node_infiniband_metrics() { return kMetrics; }

std::span<const NodeInfinibandCounter> node_infiniband_counters() { return kCounters; }

const NodeInfinibandCounter* find_node_infiniband(std::string_view directory, std::string_view file) {
  for (const NodeInfinibandCounter& counter : kCounters) {
    if (counter.file == file && counter.directory == directory) return &counter;
  }
  return nullptr;
}

}  // namespace roce

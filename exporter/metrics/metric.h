// SPDX-License-Identifier: Apache-2.0
//
// What a metric is. Descriptors are constants of the catalog and live for the whole process.
#pragma once

#include <cstdint>
#include <string_view>

namespace roce {

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

// How the value was seen to be right: against a real kernel, on the simulated RNIC, on a made tree, or by reading the
// driver's source only.
enum class Proof : std::uint8_t { kReal, kSimulated, kMade, kRead };

// What a metric is for, where not all can be kept: see exporter/catalog/metrics.def.
enum class Weight : std::uint8_t { kEvidence, kDetail };

struct MetricDesc {
  std::string_view name;  // full name, e.g. roce_port_state
  MetricType type = MetricType::kGauge;
  std::string_view unit;       // bytes, seconds, ratio, bytes_per_second, or empty for plain counts, states and infos
  std::string_view labels;     // label names in order, separated by commas; may be empty
  std::string_view collector;  // name of the collector that publishes it ("exporter" for the program itself)
  bool by_default = true;      // published with default flags
  Proof proof = Proof::kRead;
  std::string_view help;  // one line
  Weight weight = Weight::kEvidence;
};

// Number of label names in a comma-separated list.
constexpr std::size_t label_count(std::string_view labels) {
  if (labels.empty()) return 0;
  std::size_t n = 1;
  for (char c : labels) n += c == ',' ? 1 : 0;
  return n;
}

constexpr std::string_view to_string(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace roce

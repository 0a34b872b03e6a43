// SPDX-License-Identifier: Apache-2.0
//
// The metrics of the prober: names, help and the reference come from metrics.def. All data is constant.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "exporter/metrics/metric.h"

namespace roce::probe {

namespace metric {
#define ROCE_PROBE_METRIC(id, ...) extern const MetricDesc& id;
#define ROCE_PROBE_HISTOGRAM(id, ...) extern const MetricDesc& id;
#include "probes/catalog/metrics.def"
#undef ROCE_PROBE_METRIC
#undef ROCE_PROBE_HISTOGRAM
}  // namespace metric

std::span<const MetricDesc> probe_metrics();

// What `roce_prober metrics-reference` prints; JSON in the form of the exporter's.
std::string metrics_reference_json();
std::string metrics_reference_markdown();

}  // namespace roce::probe

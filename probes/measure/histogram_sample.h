// SPDX-License-Identifier: Apache-2.0
//
// A latency histogram as it stands on a page. Thread-safe (no state).
#pragma once

#include "exporter/metrics/histogram.h"
#include "probes/measure/latency_histogram.h"

namespace roce::probe {

// In seconds: the published bounds, exact, and native buckets of schema 3 (lower where they would be more than 160).
// A fine cell counts in the native bucket of its middle; a cell is at most 1/64 wide, a bucket 1/11.
Histogram to_histogram(const HistogramSnapshot& snapshot);

}  // namespace roce::probe

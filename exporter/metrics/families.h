// SPDX-License-Identifier: Apache-2.0
//
// What all expositions have in common: the samples of many batches, put together by family.
#pragma once

#include <span>
#include <vector>

#include "exporter/metrics/samples.h"

namespace roce {

struct Family {
  struct Series {
    const SampleBatch* batch;
    const SampleBatch::Sample* sample;
  };
  const MetricDesc* metric;
  std::vector<Series> series;  // in the order of the batches
};

// Sorted by name, each once.
std::vector<Family> families_of(std::span<const SampleBatch* const> batches);

}  // namespace roce

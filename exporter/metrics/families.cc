// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/families.h"

#include <algorithm>
#include <unordered_map>

namespace roce {

std::vector<Family> families_of(std::span<const SampleBatch* const> batches) {
  std::vector<Family> families;
  std::unordered_map<const MetricDesc*, std::size_t> places;
  for (const SampleBatch* batch : batches) {
    Family* family = nullptr;
    for (const SampleBatch::Sample& sample : batch->samples()) {
      if (family == nullptr || sample.metric != family->metric) {
        const auto [place, fresh] = places.try_emplace(sample.metric, families.size());
        if (fresh) families.push_back({sample.metric, {}});
        family = &families[place->second];
      }
      family->series.push_back({batch, &sample});
    }
  }
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.metric->name < b.metric->name; });
  return families;
}

}  // namespace roce

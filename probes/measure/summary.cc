// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/summary.h"

#include <algorithm>
#include <cmath>

namespace roce::probe {

Summary summarise(std::vector<std::uint64_t> samples) {
  Summary summary;
  summary.count = samples.size();
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const auto rank = [&](double q) { return samples[static_cast<std::size_t>(std::max(1.0, std::ceil(q * n))) - 1]; };
  summary.min = samples.front();
  summary.median = rank(0.5);
  summary.p99 = rank(0.99);
  summary.p999 = rank(0.999);
  summary.max = samples.back();
  for (const std::uint64_t s : samples) summary.mean += static_cast<double>(s) / n;
  double squares = 0;
  for (const std::uint64_t s : samples) {
    const double away = static_cast<double>(s) - summary.mean;
    squares += away * away;
  }
  if (samples.size() > 1) summary.deviation = std::sqrt(squares / (n - 1));
  return summary;
}

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/histogram.h"

#include <cmath>
#include <numeric>

namespace roce {

std::uint64_t Histogram::count() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

std::uint64_t Histogram::native_count() const {
  std::uint64_t total = zero_count;
  for (const auto& [index, n] : buckets) total += n;
  return total;
}

std::int32_t native_bucket(double value, int schema) {
  // A power of two is a bound at every schema and must not fall above it by rounding.
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  if (schema <= 0) {
    // Bounds are 2^(2^-schema x i); at a bound the fraction is 0.5.
    const int power = fraction == 0.5 ? exponent - 1 : exponent;
    const int step = 1 << -schema;
    return static_cast<std::int32_t>(std::ceil(static_cast<double>(power) / step));
  }
  const int steps = 1 << schema;
  if (fraction == 0.5) return (exponent - 1) * steps;
  const auto within = static_cast<std::int32_t>(std::ceil((std::log2(fraction) + 1) * steps));  // 1 to steps
  return (exponent - 1) * steps + within;
}

void limit_native_buckets(Histogram& histogram, std::size_t most) {
  while (histogram.buckets.size() > most && histogram.schema > -4) {
    std::vector<std::pair<std::int32_t, std::uint64_t>> joined;
    for (const auto& [index, n] : histogram.buckets) {
      // Two buckets of the finer schema end where one of the coarser does: (i + 1) / 2, rounded down.
      const std::int32_t coarse = (index + 1) >> 1;
      if (!joined.empty() && joined.back().first == coarse)
        joined.back().second += n;
      else
        joined.emplace_back(coarse, n);
    }
    histogram.buckets = std::move(joined);
    --histogram.schema;
  }
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace roce::probe {
namespace {

constexpr std::uint64_t kSubBuckets = std::uint64_t{1} << kSubBucketBits;

// One thread writes, so a load and a store are an increment, without the cost of a locked instruction.
template <class T>
void bump(std::atomic<T>& cell, T by) {
  cell.store(static_cast<T>(cell.load(std::memory_order_relaxed) + by), std::memory_order_relaxed);
}

}  // namespace

std::size_t fine_cell(std::uint64_t ns) {
  if (ns < kSubBuckets) return ns;
  const auto octave = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBucketBits;  // 0: [64, 128)
  if (octave >= kOctaves) return kFineCells - 1;
  return (octave + 1) * kSubBuckets + ((ns >> octave) - kSubBuckets);
}

std::uint64_t fine_cell_begin(std::size_t cell) {
  if (cell < kSubBuckets) return cell;
  const std::size_t octave = cell / kSubBuckets - 1;
  return (kSubBuckets + cell % kSubBuckets) << octave;
}

std::uint64_t HistogramSnapshot::quantile_ns(double q) const {
  std::uint64_t total = 0;
  for (const auto& [cell, n] : fine) total += n;
  if (total == 0) return 0;
  // The smallest value that a share of at least q of all values does not exceed.
  const double wanted = std::clamp(q, 0.0, 1.0) * static_cast<double>(total);
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(wanted)));
  std::uint64_t seen = 0;
  for (const auto& [cell, n] : fine) {
    seen += n;
    if (seen >= rank) {
      const std::uint64_t begin = fine_cell_begin(cell);
      return cell + 1u < kFineCells ? begin + (fine_cell_begin(cell + 1u) - begin) / 2 : begin;
    }
  }
  return fine_cell_begin(fine.back().first);
}

void LatencyHistogram::record(std::uint64_t ns) {
  const auto bound = std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), ns);
  bump(buckets_[static_cast<std::size_t>(bound - kLatencyBounds.begin())], std::uint64_t{1});
  bump(fine_[fine_cell(ns)], std::uint32_t{1});
  bump(sum_ns_, ns);
}

HistogramSnapshot LatencyHistogram::snapshot() const {
  HistogramSnapshot out;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    out.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
    out.count += out.buckets[i];
  }
  for (std::size_t i = 0; i < fine_.size(); ++i)
    if (const auto n = fine_[i].load(std::memory_order_relaxed); n != 0)
      out.fine.emplace_back(static_cast<std::uint16_t>(i), n);
  out.sum_ns = sum_ns_.load(std::memory_order_relaxed);
  return out;
}

}  // namespace roce::probe

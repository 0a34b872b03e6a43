// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/histogram_sample.h"

#include <algorithm>
#include <array>

namespace roce::probe {
namespace {

constexpr int kSchema = 3;

// Divided, not multiplied by 1e-9: so 625'000 ns becomes the double that "0.000625" is.
constexpr auto kBounds = [] {
  std::array<double, kLatencyBounds.size()> seconds{};
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = static_cast<double>(kLatencyBounds[i]) / 1e9;
  return seconds;
}();

// Native bucket of each fine cell but that of 0 ns.
const std::array<std::int16_t, kFineCells>& native_buckets() {
  static const auto kTable = [] {
    std::array<std::int16_t, kFineCells> table{};
    for (std::size_t cell = 1; cell < kFineCells; ++cell) {
      const std::uint64_t begin = fine_cell_begin(cell);
      // The last value of the cell, so that a cell of one value stands for that value.
      const std::uint64_t last = cell + 1 < kFineCells ? fine_cell_begin(cell + 1) - 1 : begin;
      const double middle = (static_cast<double>(begin) + static_cast<double>(last)) / 2;
      table[cell] = static_cast<std::int16_t>(native_bucket(middle / 1e9, kSchema));
    }
    return table;
  }();
  return kTable;
}

}  // namespace

Histogram to_histogram(const HistogramSnapshot& snapshot) {
  Histogram out;
  out.bounds = kBounds;
  out.counts.assign(snapshot.buckets.begin(), snapshot.buckets.end());
  out.sum = static_cast<double>(snapshot.sum_ns) / 1e9;
  out.native = true;
  out.schema = kSchema;
  const auto& table = native_buckets();
  for (const auto& [cell, n] : snapshot.fine) {
    if (cell == 0) {
      out.zero_count += n;
      continue;
    }
    const std::int32_t index = table[std::min<std::size_t>(cell, kFineCells - 1)];
    if (!out.buckets.empty() && out.buckets.back().first == index)
      out.buckets.back().second += n;
    else
      out.buckets.emplace_back(index, n);
  }
  limit_native_buckets(out);
  return out;
}

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/latency_histogram.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>

namespace roce::probe {
namespace {

TEST(LatencyHistogramTest, CellsCoverEveryValueInOrderToOnePart64) {
  for (std::size_t cell = 0; cell + 1 < kFineCells; ++cell) {
    const std::uint64_t begin = fine_cell_begin(cell), end = fine_cell_begin(cell + 1);
    ASSERT_LT(begin, end);
    ASSERT_EQ(fine_cell(begin), cell);
    ASSERT_EQ(fine_cell(end - 1), cell);
    if (begin >= 64) {
      ASSERT_LE((end - begin) * 64, begin);
    }
  }
  EXPECT_EQ(fine_cell(std::numeric_limits<std::uint64_t>::max()), kFineCells - 1);
}

TEST(LatencyHistogramTest, AValueOnABoundIsWithinIt) {
  auto h = std::make_unique<LatencyHistogram>();
  for (const std::uint64_t bound : kLatencyBounds) {
    h->record(bound);
    h->record(bound + 1);
  }
  const HistogramSnapshot s = h->snapshot();
  EXPECT_EQ(s.buckets.front(), 1u);
  for (std::size_t i = 1; i < kLatencyBounds.size(); ++i) EXPECT_EQ(s.buckets[i], 2u) << kLatencyBounds[i];
  EXPECT_EQ(s.buckets.back(), 1u);
  EXPECT_EQ(s.count, 2 * kLatencyBounds.size());
  EXPECT_EQ(s.sum_ns, 2 * std::accumulate(kLatencyBounds.begin(), kLatencyBounds.end(), std::uint64_t{0}) +
                          kLatencyBounds.size());
}

TEST(LatencyHistogramTest, EachRetransmissionTimeoutFallsIntoABucketOfItsOwn) {
  // 4.096 us x 2^n and up to 100 us of latency on top, from n = 8 on (bounds double from 0.625 ms).
  std::size_t last = 0;
  for (unsigned n = 8; n <= 18; ++n) {
    auto h = std::make_unique<LatencyHistogram>();
    h->record(std::uint64_t{4096} << n);
    h->record((std::uint64_t{4096} << n) + 100'000);
    const HistogramSnapshot s = h->snapshot();
    std::size_t hit = 0;
    for (std::size_t i = 0; i < s.buckets.size(); ++i)
      if (s.buckets[i] == 2) hit = i;
    EXPECT_GT(hit, last) << n;
    last = hit;
  }
}

TEST(LatencyHistogramTest, QuantilesAreWithinACell) {
  auto h = std::make_unique<LatencyHistogram>();
  for (std::uint64_t i = 1; i <= 1000; ++i) h->record(i * 1000);
  const HistogramSnapshot s = h->snapshot();
  for (const double q : {0.0, 0.01, 0.5, 0.99, 0.999, 1.0}) {
    const double want = std::max(1.0, q * 1000) * 1000;
    EXPECT_NEAR(static_cast<double>(s.quantile_ns(q)), want, want / 64 + 1000) << q;
  }
  EXPECT_EQ(HistogramSnapshot{}.quantile_ns(0.5), 0u);
}

}  // namespace
}  // namespace roce::probe

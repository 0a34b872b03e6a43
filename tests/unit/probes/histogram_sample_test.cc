// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/histogram_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "exporter/metrics/samples.h"

namespace roce::probe {
namespace {

TEST(HistogramSampleTest, BoundsReadAsTheyAreWritten) {
  const char* expected[] = {"1e-06",    "1.5e-06",  "2e-06",    "3e-06",   "4e-06",   "6e-06",   "8e-06",    "1.2e-05",
                            "1.6e-05",  "2.4e-05",  "3.2e-05",  "4.8e-05", "6.4e-05", "9.6e-05", "0.000128", "0.000192",
                            "0.000256", "0.000384", "0.000625", "0.00125", "0.0025",  "0.005",   "0.01",     "0.02",
                            "0.04",     "0.08",     "0.16",     "0.32",    "0.64",    "1.28"};
  const Histogram h = to_histogram({});
  ASSERT_EQ(h.bounds.size(), std::size(expected));
  for (std::size_t i = 0; i < h.bounds.size(); ++i) {
    std::string text;
    Value(h.bounds[i]).append_to(text);
    EXPECT_EQ(std::stod(text), std::stod(expected[i])) << text;
    EXPECT_LE(text.size(), std::string(expected[i]).size()) << text;
  }
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.native_count(), 0u);
}

TEST(HistogramSampleTest, NativeBucketsHoldEveryValueWithinACell) {
  auto latencies = std::make_unique<LatencyHistogram>();
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> rtt(std::log(4800.0), 1.5);
  std::map<std::int32_t, std::int64_t> exact;
  for (int i = 0; i < 20000; ++i) {
    const auto ns = static_cast<std::uint64_t>(rtt(random));
    latencies->record(ns);
    if (ns > 0) ++exact[native_bucket(static_cast<double>(ns) / 1e9, 3)];
  }
  latencies->record(0);
  const Histogram h = to_histogram(latencies->snapshot());
  EXPECT_EQ(h.schema, 3);
  EXPECT_EQ(h.count(), 20001u);
  EXPECT_EQ(h.native_count(), 20001u);
  EXPECT_EQ(h.zero_count, 1u);
  // A value is in its bucket or, where its cell crosses a bound, in the one beside it.
  std::int64_t difference = 0;
  for (const auto& [index, n] : h.buckets) exact[index] -= static_cast<std::int64_t>(n);
  for (const auto& [index, left] : exact) {
    difference += left;
    EXPECT_LT(std::abs(difference), 20000 / 64) << index;
  }
  EXPECT_EQ(difference, 0);
  EXPECT_TRUE(std::is_sorted(h.buckets.begin(), h.buckets.end()));
}

TEST(HistogramSampleTest, AWholeRangeOfLatenciesIsCapped) {
  auto latencies = std::make_unique<LatencyHistogram>();
  for (std::uint64_t ns = 1; ns < 60'000'000'000; ns += ns / 20 + 1) latencies->record(ns);
  const Histogram h = to_histogram(latencies->snapshot());
  EXPECT_LE(h.buckets.size(), kMaxNativeBuckets);
  EXPECT_EQ(h.schema, 2);
  EXPECT_EQ(h.native_count(), h.count());
}

}  // namespace
}  // namespace roce::probe

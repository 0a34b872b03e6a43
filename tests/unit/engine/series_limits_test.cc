// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/series_limits.h"

#include <gtest/gtest.h>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

// Parts with as many series of each port: errors of a kind, which are evidence, or counters of a driver, which are
// details.
Part evidence(const std::string& port, int count) {
  Part part;
  for (int i = 0; i < count; ++i)
    part.samples.add(metric::counter_support, {"mlx5_0", port, "counter" + std::to_string(i), "denied"}, 1);
  return part;
}
Part details(const std::string& port, int count) {
  Part part;
  for (int i = 0; i < count; ++i)
    part.samples.add(metric::driver_counter, {"mlx5_0", port, "counter" + std::to_string(i)}, 1);
  return part;
}

std::size_t left(const LimitedPart& of, const LimitedSeries& series) {
  return series.cut ? series.cut->samples().size() : of.part->samples.samples().size();
}

TEST(SeriesLimitsTest, WhatFitsIsLeftWhole) {
  const Part a = details("1", 4);
  const Part b = evidence("1", 6);
  const LimitedPart parts[] = {{&a, true, ""}, {&b, true, ""}};
  for (const LimitedSeries& series : apply_limits(parts, {10, 10})) {
    EXPECT_EQ(series.cut, nullptr);
    EXPECT_EQ(series.dropped, 0U);
  }
}

TEST(SeriesLimitsTest, EachPortHasItsOwnLimitAndDetailsGoFirst) {
  const Part a = details("1", 8);
  const Part b = evidence("1", 6);
  const Part c = evidence("2", 12);
  const LimitedPart parts[] = {{&a, true, ""}, {&b, true, ""}, {&c, true, ""}};
  const auto series = apply_limits(parts, {10, 10});
  EXPECT_EQ(left(parts[0], series[0]), 4U);
  EXPECT_EQ(series[0].dropped, 4U);
  EXPECT_EQ(series[0].evidence_dropped, 0U);
  EXPECT_EQ(left(parts[1], series[1]), 6U);
  EXPECT_EQ(left(parts[2], series[2]), 10U);
  EXPECT_EQ(series[2].evidence_dropped, 2U);
}

TEST(SeriesLimitsTest, OfANetworkDeviceDetailsGoFirstToo) {
  const Part a = details("", 8);
  const Part b = evidence("", 6);
  const Part host = evidence("", 5);
  const LimitedPart parts[] = {{&host, false, ""}, {&a, false, "eth0"}, {&b, false, "eth0"}};
  const auto series = apply_limits(parts, {100, 10});
  EXPECT_EQ(left(parts[0], series[0]), 5U);
  EXPECT_EQ(left(parts[1], series[1]), 4U);
  EXPECT_EQ(left(parts[2], series[2]), 6U);
  const auto tight = apply_limits(parts, {12, 10});
  EXPECT_EQ(left(parts[1], tight[1]), 1U);
  EXPECT_EQ(left(parts[2], tight[2]), 6U);
  EXPECT_EQ(tight[2].evidence_dropped, 0U);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/counter_history.h"

#include <gtest/gtest.h>

#include <vector>

namespace roce {
namespace {

constexpr std::uint64_t kRange32 = std::uint64_t{1} << 32U;

std::vector<std::uint64_t> published(const std::vector<std::uint64_t>& raw, unsigned wrap_bits,
                                     unsigned* regressions = nullptr) {
  CounterHistory history;
  std::vector<std::uint64_t> values;
  for (const std::uint64_t r : raw) {
    const auto step = history.next(r, wrap_bits);
    values.push_back(step.value);
    if (regressions != nullptr && step.regression) ++*regressions;
  }
  return values;
}

TEST(CounterHistoryTest, HoldsASmallStepBackAndLetsARestartThrough) {
  unsigned regressions = 0;
  EXPECT_EQ(published({1000, 1500, 1490, 1600, 3, 40}, 0, &regressions),
            (std::vector<std::uint64_t>{1000, 1500, 1500, 1600, 3, 40}));
  EXPECT_EQ(regressions, 1U);
}

TEST(CounterHistoryTest, HoldsForTwoReadsAtMost) {
  unsigned regressions = 0;
  EXPECT_EQ(published({1500, 1490, 1490, 1490, 1491}, 0, &regressions),
            (std::vector<std::uint64_t>{1500, 1500, 1500, 1490, 1491}));
  EXPECT_EQ(regressions, 1U);
}

TEST(CounterHistoryTest, WidensACounterThatWraps) {
  EXPECT_EQ(published({kRange32 - 10, 5, 20}, 32),
            (std::vector<std::uint64_t>{kRange32 - 10, kRange32 + 5, kRange32 + 20}));
  // The kernel adds a 64-bit history of its own to the field, so values above the width occur and still wrap.
  EXPECT_EQ(published({kRange32 + 100, 200}, 32), (std::vector<std::uint64_t>{kRange32 + 100, kRange32 + 200}));
}

TEST(CounterHistoryTest, WrapsAgainAndAgain) {
  EXPECT_EQ(published({4000000000, 100, 4000000000, 100}, 32),
            (std::vector<std::uint64_t>{4000000000, kRange32 + 100, kRange32 + 4000000000, 2 * kRange32 + 100}));
}

TEST(CounterHistoryTest, TakesAFallFromLowValuesForARestart) {
  EXPECT_EQ(published({1000000, 3}, 32), (std::vector<std::uint64_t>{1000000, 3}));
}

TEST(CounterHistoryTest, NeverWidensAPlain64BitCounter) {
  EXPECT_EQ(published({kRange32 - 1, 0}, 0), (std::vector<std::uint64_t>{kRange32 - 1, 0}));
}

TEST(CounterHistoryTest, ASmallStepBackKeepsWhatWrapsHaveAdded) {
  EXPECT_EQ(
      published({kRange32 - 10, 1000, 990, 990, 990}, 32),
      (std::vector<std::uint64_t>{kRange32 - 10, kRange32 + 1000, kRange32 + 1000, kRange32 + 1000, kRange32 + 990}));
}

}  // namespace
}  // namespace roce

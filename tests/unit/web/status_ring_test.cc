// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_ring.h"

#include <gtest/gtest.h>

#include <cmath>

#include "exporter/catalog/catalog.h"
#include "exporter/web/status_board.h"

namespace roce {
namespace {

using std::chrono::seconds;

class StatusRingTest : public testing::Test {
 protected:
  static constexpr auto kReceive = Measure::kReceive;

  void record(const SampleBatch& batch, int at) {
    const SampleBatch* const batches[] = {&batch};
    ring_.record(batches, time(at));
  }
  void receive(std::uint64_t bytes, int at) {
    SampleBatch batch;
    batch.add(metric::port_receive_bytes, {"mlx5_0", "1"}, bytes);
    record(batch, at);
  }
  std::vector<StatusRing::Point> points(int at) const { return ring_.points("mlx5_0", "1", time(at)); }
  static StatusRing::Clock::time_point time(int at) { return StatusRing::Clock::time_point(seconds(100000 + at)); }

  StatusRing ring_;
};

TEST_F(StatusRingTest, EveryFamilyBeginsWithDeviceAndPort) {
  for (const auto& [family, measure] : ring_families())
    EXPECT_TRUE(family->labels.starts_with("device,port")) << family->name;
}

TEST_F(StatusRingTest, KeepsRatesOfTheLastFifteenMinutes) {
  for (int at = 0; at <= 3600; at += 15) receive(static_cast<std::uint64_t>(at) * 1000, at);
  const auto kept = points(3600);
  ASSERT_EQ(kept.size(), 61U);
  for (const auto& point : kept) EXPECT_FLOAT_EQ(point.at(kReceive), 1000);
  EXPECT_EQ(kept.back().time, time(3600));
  EXPECT_TRUE(points(3600 + 901).empty()) << "what is too old is not shown, though nothing new came";
}

TEST_F(StatusRingTest, PagesThatComeSoonAreLeftOut) {
  receive(0, 0);
  receive(500, 5);
  receive(1000, 10);
  const auto kept = points(10);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_FLOAT_EQ(kept[0].at(kReceive), 100);
}

TEST_F(StatusRingTest, ARestartAndALostSourceAreGapsNotPeaks) {
  receive(5000, 0);
  receive(100, 10);
  record({}, 20);
  receive(200, 30);
  receive(300, 40);
  const auto kept = points(40);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_TRUE(std::isnan(kept[0].at(kReceive)));
  EXPECT_FLOAT_EQ(kept[1].at(kReceive), 5) << "over the time in which nothing was read";
  EXPECT_FLOAT_EQ(kept[2].at(kReceive), 10);
}

TEST_F(StatusRingTest, AFamilyThatAppearsIsNoPeak) {
  SampleBatch one;
  one.add(metric::receive_out_of_sequence, {"mlx5_0", "1"}, 7);
  SampleBatch two;
  two.add(metric::receive_out_of_sequence, {"mlx5_0", "1"}, 8);
  two.add(metric::receiver_not_ready, {"mlx5_0", "1"}, 1000000);
  record(one, 0);
  record(two, 10);
  record(two, 20);
  const auto kept = points(20);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_TRUE(std::isnan(kept[0].at(Measure::kLoss)));
  EXPECT_FLOAT_EQ(kept[1].at(Measure::kLoss), 0);
  EXPECT_TRUE(std::isnan(kept[1].at(Measure::kReceive))) << "not offered";
}

TEST_F(StatusRingTest, PauseIsTheShareOfTheWorstPriorityNotASum) {
  const auto paused = [](double each, double worst) {
    SampleBatch batch;
    for (int priority = 0; priority < 8; ++priority)
      for (const char* direction : {"receive", "transmit"})
        batch.add(metric::pfc_pause_seconds, {"mlx5_0", "1", "ens1", std::to_string(priority), direction},
                  priority == 3 && direction[0] == 't' ? worst : each);
    return batch;
  };
  record(paused(0, 0), 0);
  record(paused(2.1, 2.1), 10);
  record(paused(4.2, 7.1), 20);
  record(paused(6.3, 1), 30);
  const auto kept = points(30);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_FLOAT_EQ(kept[0].at(Measure::kPauseSeconds), 0.21F) << "each of eight priorities, and not eight times that";
  EXPECT_FLOAT_EQ(kept[1].at(Measure::kPauseSeconds), 0.5F) << "one is worse than the others";
  EXPECT_FLOAT_EQ(kept[2].at(Measure::kPauseSeconds), 0.21F) << "of one that started again nothing is known";
}

TEST_F(StatusRingTest, PausesOfAPortThatAreReadAgainAreAGap) {
  SampleBatch one;
  one.add(metric::pfc_pause_seconds, {"mlx5_0", "1", "ens1", "3", "receive"}, 5.0);
  SampleBatch other;
  other.add(metric::pfc_pause_seconds, {"mlx5_0", "1", "ens1", "4", "receive"}, 900.0);
  record(one, 0);
  record(other, 10);
  EXPECT_TRUE(std::isnan(points(10).at(0).at(Measure::kPauseSeconds))) << "another series, no growth";
}

TEST_F(StatusRingTest, IsBoundedInPortsAndPoints) {
  for (int round = 0; round < 300; ++round) {
    SampleBatch batch;
    for (int device = 0; device < 600; ++device)
      batch.add(metric::port_receive_bytes, {"mlx5_" + std::to_string(device), "1"}, round);
    record(batch, round * 10);
  }
  EXPECT_EQ(ring_.ports(), StatusRing::kMaxPorts);
  EXPECT_LE(ring_.points("mlx5_0", "1", time(2990)).size(), StatusRing::kMaxPoints);
  EXPECT_GE(ring_.points("mlx5_0", "1", time(2990)).size(), 90U);
  EXPECT_LT(ring_.bytes(), 512U << 10);
  // Devices that come and go leave nothing behind.
  for (int round = 0; round < 200; ++round) {
    SampleBatch batch;
    batch.add(metric::port_receive_bytes, {"gone_" + std::to_string(round), "1"}, 1);
    record(batch, 3000 + round * 10);
  }
  EXPECT_LE(ring_.ports(), StatusRing::kMaxPorts);
  record({}, 3000 + 2000 + 901);
  EXPECT_EQ(ring_.ports(), 0U);
}

TEST(StatusBoardTest, CollectsByItselfOnlyWhileNoScrapeComes) {
  StatusBoard board;
  const StatusBoard::Clock::time_point start(seconds(1000));
  EXPECT_FALSE(board.latest(start)) << "nothing is known yet";
  board.put({}, true, start);
  EXPECT_TRUE(board.latest(start + seconds(59))) << "scrapes come once a minute";
  EXPECT_FALSE(board.latest(start + seconds(60)));
  board.put({}, false, start + seconds(60));
  EXPECT_TRUE(board.latest(start + seconds(69)));
  EXPECT_FALSE(board.latest(start + seconds(70))) << "a page that is open goes on by itself";
  board.put({}, true, start + seconds(71));
  EXPECT_TRUE(board.latest(start + seconds(130)));
}

TEST(StatusBoardTest, AnOlderPageDoesNotReplaceAYoungerOne) {
  StatusBoard board;
  const StatusBoard::Clock::time_point start(seconds(1000));
  Page young;
  young.devices = 2;
  board.put(std::move(young), true, start + seconds(1));
  board.put({}, true, start);
  ASSERT_TRUE(board.latest(start + seconds(2)));
  EXPECT_EQ(board.latest(start + seconds(2))->page->devices, 2U);
}

}  // namespace
}  // namespace roce

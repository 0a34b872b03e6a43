// SPDX-License-Identifier: Apache-2.0
//
// Rates of false and right alarms are simulated with fixed seeds; bounds are those of the design's own simulation.
#include "probes/measure/detectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

namespace roce::probe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// One probe a second of a path with a median of 4.8 us, a spread of 6 %, and 2 % of outliers that the hosts make.
class Path {
 public:
  explicit Path(std::uint64_t seed) : random_(seed) {}

  double slower = 1;  // factor on all
  double outliers = 0.02;
  double loss = 0;

  void run(int probes) {
    for (int i = 0; i < probes; ++i) step();
  }
  // Probes until `found` is true, at most `most`; -1 where it never is.
  template <class Found>
  int until(Found found, int most) {
    for (int i = 1; i <= most; ++i) {
      step();
      if (found()) return i;
    }
    return -1;
  }
  PairDetector& detector() { return *detector_; }
  std::int64_t now() const { return now_; }
  void pass(std::int64_t ns) { now_ += ns; }
  std::uint64_t rtt() {
    double ns = 4800 * slower * std::exp(0.06 * normal_(random_));
    if (uniform_(random_) < outliers) ns *= 1.5 + 8 * uniform_(random_);
    return static_cast<std::uint64_t>(ns);
  }
  void step() {
    now_ += kSecond;
    if (loss > 0 && uniform_(random_) < loss)
      detector_->lost(now_);
    else
      detector_->answered(now_, rtt());
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  std::unique_ptr<PairDetector> detector_ = std::make_unique<PairDetector>();
  std::int64_t now_ = 0;
};

constexpr int kHour = 3600;
constexpr int kRuns = 40;

int median(std::vector<int> values) {
  for (int& v : values) v = v < 0 ? 1'000'000 : v;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

TEST(DetectorSimulation, AQuietPathRaisesFewAlarms) {
  int shifts = 0, tails = 0, losses = 0;
  for (int run = 0; run < kRuns; ++run) {
    Path path(static_cast<std::uint64_t>(run) + 1);
    path.run(kHour);  // learns
    bool shift = false, tail = false;
    for (int i = 0; i < 4 * kHour; ++i) {
      path.step();
      shifts += path.detector().shift() && !shift;
      tails += path.detector().tail() && !tail;
      losses += path.detector().loss();
      shift = path.detector().shift();
      tail = path.detector().tail();
    }
  }
  RecordProperty("shifts", shifts);
  RecordProperty("tails", tails);
  EXPECT_LE(shifts, 14) << "0.35 in four hours";
  EXPECT_LE(tails, 6);
  EXPECT_EQ(losses, 0);
}

int windows_until_shift(double factor) {
  std::vector<int> windows;
  for (int run = 0; run < kRuns; ++run) {
    Path path(static_cast<std::uint64_t>(run) + 100);
    path.run(2 * kHour);
    path.slower = factor;
    const int probes = path.until([&] { return path.detector().shift(); }, kHour);
    windows.push_back(probes < 0 ? -1 : (probes + 59) / 60);
  }
  return median(windows);
}

TEST(DetectorSimulation, AShiftOf4PercentIsFoundInTwoWindowsAndOneOf10InOne) {
  EXPECT_LE(windows_until_shift(1.04), 2);
  EXPECT_EQ(windows_until_shift(1.10), 1);
}

int probes_until_tail(double outliers) {
  std::vector<int> probes;
  for (int run = 0; run < kRuns; ++run) {
    Path path(static_cast<std::uint64_t>(run) + 200);
    path.run(4 * kHour);
    path.outliers = outliers;
    probes.push_back(path.until([&] { return path.detector().tail(); }, kHour));
  }
  return median(probes);
}

TEST(DetectorSimulation, AHeavierTailIsFoundThoughTheMedianStays) {
  EXPECT_LE(probes_until_tail(0.06), 500);
  EXPECT_LE(probes_until_tail(0.20), 100);
}

int probes_until_loss(double loss) {
  std::vector<int> probes;
  for (int run = 0; run < kRuns; ++run) {
    Path path(static_cast<std::uint64_t>(run) + 300);
    path.run(kHour / 2);
    path.loss = loss;
    probes.push_back(path.until([&] { return path.detector().loss(); }, 20'000));
  }
  return median(probes);
}

TEST(DetectorSimulation, LossIsFoundByTheEvidenceOfTwoProbes) {
  EXPECT_LE(probes_until_loss(0.1), 24);
  EXPECT_LE(probes_until_loss(0.01), 200);
  EXPECT_LE(probes_until_loss(0.001), 4500);
}

// Who heals a path that lost a quarter is told within a minute; of one that lost 1 % nobody can know that soon.
TEST(DetectorTest, AnAlarmOfLossEndsAsSoonAsItCanBeKnown) {
  const auto answers_until_over = [](unsigned distance) {
    PairDetector detector;
    std::int64_t now = 0;
    for (unsigned i = 0; i < 40 * distance; ++i) {
      now += kSecond;
      if (i % distance == 0)
        detector.lost(now);
      else
        detector.answered(now, 10'000);
    }
    EXPECT_TRUE(detector.loss()) << distance;
    unsigned answers = 0;
    while (detector.loss() && answers < 2000) {
      detector.answered(now += kSecond, 10'000);
      ++answers;
    }
    return answers;
  };
  EXPECT_EQ(answers_until_over(4), 30U - 3U);  // three answers had come since the last loss
  EXPECT_LE(answers_until_over(20), 100U);
  EXPECT_GE(answers_until_over(100), 300U);
  EXPECT_LE(answers_until_over(100), 603U);
}

// Losses come in runs where a queue overflows. What looks like heavy loss within one run is none, and answers between
// runs are no end of it.
TEST(DetectorTest, LossInBurstsStaysAnAlarm) {
  const auto share_of_time = [](unsigned run, unsigned every, unsigned distance) {
    PairDetector detector;
    std::int64_t now = 0;
    unsigned open = 0, trials = 0;
    const auto answer = [&](unsigned n) {
      for (; n != 0; --n, ++trials) {
        detector.answered(now += kSecond, 10'000);
        open += detector.loss() ? 1U : 0U;
      }
    };
    for (int i = 0; i < 40; ++i) {
      for (unsigned n = 0; n < run; ++n, ++trials) {
        detector.lost(now += kSecond);
        open += detector.loss() ? 1U : 0U;
        answer(every);
      }
      answer(distance);
    }
    EXPECT_NE(detector.state(now), PeerState::kDown);
    return static_cast<double>(open) / trials;
  };
  EXPECT_GE(share_of_time(2, 0, 98), 0.95);   // 2 % in pairs
  EXPECT_GE(share_of_time(4, 0, 196), 0.95);  // 2 % in fours
  EXPECT_GE(share_of_time(10, 1, 400), 0.9);  // every second one for a while: ended early once, and then no more
}

TEST(DetectorTest, OneRunOfLossesEndsByItsEvidenceAlone) {
  PairDetector detector;
  std::int64_t now = 0;
  for (int i = 0; i < 2; ++i) detector.lost(now += kSecond);
  unsigned answers = 0;
  while (detector.loss() && answers < 2000) {
    detector.answered(now += kSecond, 10'000);
    ++answers;
  }
  EXPECT_GE(answers, 500U);
  EXPECT_LE(answers, 610U);
}

// Losses count on a host that is a little late; what comes then has to count as well, or a rate of one in a thousand
// looks like one in a hundred.
TEST(DetectorTest, AnAnswerIsNoLossHoweverLateTheHost) {
  PairDetector detector;
  std::int64_t now = 0;
  unsigned open = 0;
  for (int i = 1; i <= 6000; ++i) {
    now += kSecond;
    if (i % 1000 == 0)
      detector.lost(now);
    else
      detector.answered(now, 10'000, i % 10 != 0);
    open += detector.loss() ? 1U : 0U;
  }
  EXPECT_EQ(open, 0U);
}

TEST(DetectorSimulation, RareLossIsNoAlarmFor30Days) {
  PairDetector detector;
  std::mt19937_64 random(5);
  std::geometric_distribution<int> gap(1e-5);
  int alarms = 0;
  int next = gap(random);
  for (int i = 0; i < 30 * 24 * kHour; ++i) {
    if (i == next) {
      detector.lost(i * kSecond);
      next += 1 + gap(random);
    } else {
      detector.answered(i * kSecond, 4800);
    }
    alarms += detector.loss();
  }
  EXPECT_EQ(alarms, 0);
}

TEST(DetectorTest, TheBaselineStandsStillWhileAnAlarmIsOpen) {
  Path path(1);
  path.run(2 * kHour);
  const std::uint64_t before = path.detector().baseline_ns();
  EXPECT_NEAR(static_cast<double>(before), 4800, 100);
  EXPECT_EQ(path.detector().state(path.now()), PeerState::kOk);
  path.slower = 1.5;
  path.run(12 * kHour);
  EXPECT_TRUE(path.detector().shift());
  EXPECT_EQ(path.detector().state(path.now()), PeerState::kDegraded);
  EXPECT_NEAR(static_cast<double>(path.detector().baseline_ns()), static_cast<double>(before), 30);
  path.slower = 1;
  path.run(kHour / 2);
  EXPECT_FALSE(path.detector().shift());
  EXPECT_FALSE(path.detector().tail());
  EXPECT_EQ(path.detector().state(path.now()), PeerState::kOk);
}

TEST(DetectorTest, AfterADayTheNewLatencyIsNormal) {
  Path path(2);
  path.run(2 * kHour);
  path.slower = 1.5;
  path.run(23 * kHour);
  EXPECT_TRUE(path.detector().shift());
  path.run(4 * kHour);
  EXPECT_FALSE(path.detector().shift());
  EXPECT_NEAR(static_cast<double>(path.detector().baseline_ns()), 7200, 200);
}

TEST(DetectorTest, AnAcknowledgementMakesItNormalAtOnce) {
  Path path(3);
  path.run(2 * kHour);
  path.slower = 1.5;
  path.run(kHour);
  ASSERT_TRUE(path.detector().shift());
  path.detector().acknowledge();
  EXPECT_EQ(path.detector().baseline_ns(), 0u) << "learns anew";
  EXPECT_EQ(path.detector().state(path.now()), PeerState::kOk);
  path.run(2 * kHour);
  EXPECT_FALSE(path.detector().shift());
  EXPECT_NEAR(static_cast<double>(path.detector().baseline_ns()), 7200, 200);
}

TEST(DetectorTest, WhatTheHostSpoiltCountsNowhere) {
  Path path(4);
  path.run(2 * kHour);
  const Baseline before = path.detector().baseline();
  for (int i = 0; i < kHour; ++i) {
    path.pass(kSecond);
    path.detector().answered(path.now(), 5'000'000, true);
    path.detector().lost(path.now(), true);
  }
  EXPECT_EQ(path.detector().state(path.now()), PeerState::kOk);
  EXPECT_FALSE(path.detector().take_burst());
  EXPECT_EQ(path.detector().baseline(), before);
}

TEST(DetectorTest, AnExactPathIsJudgedByItsLeastDeviation) {
  PairDetector detector;
  std::int64_t now = 0;
  const auto run = [&](std::uint64_t rtt, int probes) {
    for (int i = 0; i < probes; ++i) detector.answered(now += kSecond, rtt);
  };
  run(4800, kHour);
  EXPECT_EQ(detector.baseline_ns(), 4800u);
  run(4805, kHour);
  EXPECT_FALSE(detector.shift()) << "a thousandth is nothing";
  run(5200, 120);
  EXPECT_TRUE(detector.shift());
}

TEST(DetectorTest, ThreeTimeoutsInARowAskForABurstThatDecides) {
  PairDetector detector;
  std::int64_t now = 0;
  for (int i = 0; i < 100; ++i) detector.answered(now += kSecond, 4800);
  EXPECT_FALSE(detector.take_burst());
  detector.lost(now += kSecond);
  detector.lost(now += kSecond);
  EXPECT_FALSE(detector.take_burst());
  detector.lost(now += kSecond);
  EXPECT_TRUE(detector.take_burst());
  EXPECT_FALSE(detector.take_burst()) << "once";
  EXPECT_NE(detector.state(now), PeerState::kDown);
  detector.burst(now += kSecond, 10, 4);
  EXPECT_EQ(detector.state(now), PeerState::kLossy);
  for (int i = 0; i < 3; ++i) detector.lost(now += kSecond);
  EXPECT_TRUE(detector.take_burst());
  detector.burst(now += kSecond, 10, 0);
  EXPECT_EQ(detector.state(now), PeerState::kDown);
  for (int i = 0; i < 30; ++i) detector.lost(now += kSecond);
  EXPECT_FALSE(detector.take_burst()) << "that it is down is known";
}

TEST(DetectorTest, APeerThatComesBackIsNotCalledLossy) {
  PairDetector detector;
  std::int64_t now = 0;
  for (int i = 0; i < 1000; ++i) detector.answered(now += kSecond, 4800);
  for (int i = 0; i < 500; ++i) detector.lost(now += kSecond);
  EXPECT_EQ(detector.state(now), PeerState::kDown) << "without a burst too";
  detector.answered(now += kSecond, 4800);
  EXPECT_EQ(detector.state(now), PeerState::kOk);
  for (int i = 0; i < 500; ++i) detector.lost(now += kSecond);
  EXPECT_EQ(detector.state(now), PeerState::kDown);
  detector.late(now += kSecond);
  EXPECT_EQ(detector.state(now), PeerState::kOk) << "a late answer is one";
  // Two lost probes, on the other hand, are evidence of a lossy path.
  detector.lost(now += kSecond);
  detector.answered(now += kSecond, 4800);
  detector.lost(now += kSecond);
  detector.answered(now += kSecond, 4800);
  EXPECT_EQ(detector.state(now), PeerState::kLossy);
  for (int i = 0; i < 700; ++i) detector.answered(now += kSecond, 4800);
  EXPECT_EQ(detector.state(now), PeerState::kOk);
}

TEST(DetectorTest, ABurstThatCameTooLateSaysNothing) {
  PairDetector detector;
  std::int64_t now = 0;
  for (int i = 0; i < 3; ++i) detector.lost(now += kSecond);
  EXPECT_TRUE(detector.take_burst());
  detector.answered(now += kSecond, 4800);
  detector.burst(now += kSecond, 10, 0);
  EXPECT_NE(detector.state(now), PeerState::kDown);
}

TEST(DetectorTest, NothingHeardIsUnknown) {
  PairDetector detector(10 * kSecond);
  EXPECT_EQ(detector.state(0), PeerState::kUnknown);
  detector.answered(5 * kSecond, 4800);
  EXPECT_EQ(detector.state(15 * kSecond), PeerState::kOk);
  EXPECT_EQ(detector.state(16 * kSecond), PeerState::kUnknown);
}

TEST(DetectorTest, TheWorstClassSpeaksForThePeer) {
  using enum PeerState;
  const auto worst = [](std::vector<PeerState> states) { return worst_state(states); };
  EXPECT_EQ(worst({}), kUnknown);
  EXPECT_EQ(worst({kUnknown, kUnknown}), kUnknown);
  EXPECT_EQ(worst({kUnknown, kOk}), kOk);
  EXPECT_EQ(worst({kOk, kDegraded}), kDegraded);
  EXPECT_EQ(worst({kLossy, kDegraded}), kLossy);
  EXPECT_EQ(worst({kLossy, kDown, kOk}), kDown);
}

TEST(DetectorTest, TakesFixedMemory) { EXPECT_LE(sizeof(PairDetector), 6u * 1024); }

TEST(BaselineTest, SurvivesARestart) {
  Path path(5);
  path.run(3 * kHour);
  const std::vector<SavedBaseline> saved = {{"node2/mlx5_0", "storage", path.detector().baseline()},
                                            {"", "b\xC3\xB6 \n%", {}}};
  const std::string text = write_baselines(saved);
  const auto read = read_baselines(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, saved);
  PairDetector restored;
  restored.restore((*read)[0].baseline);
  EXPECT_EQ(restored.baseline_ns(), path.detector().baseline_ns());
  EXPECT_EQ(restored.tail_threshold_ns(), path.detector().tail_threshold_ns());
  EXPECT_EQ(restored.baseline(), path.detector().baseline());
  EXPECT_NE(restored.tail_threshold_ns(), 0u);
  // What it knows, it uses: a shift is found in its first window.
  for (int i = 0; i < 60; ++i) restored.answered(i * kSecond, 9000);
  EXPECT_TRUE(restored.shift());
}

TEST(BaselineTest, AnyDamageIsNoticed) {
  Path path(6);
  path.run(kHour);
  const std::vector<SavedBaseline> saved = {{"node2", "storage", path.detector().baseline()}};
  const std::string text = write_baselines(saved);
  ASSERT_TRUE(read_baselines(text));
  for (std::size_t length = 0; length < text.size(); length += length < 100 || length + 40 > text.size() ? 1 : 97)
    EXPECT_FALSE(read_baselines(text.substr(0, length))) << length;
  for (std::size_t at = 0; at < text.size(); at += 13) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(read_baselines(changed)) << at;
  }
  EXPECT_FALSE(read_baselines(text + "x"));
  EXPECT_FALSE(read_baselines(text + text));
  std::string other = text;
  other.replace(other.find(" 1\n"), 3, " 2\n");
  EXPECT_NE(read_baselines(other).error().message().find("line 1: another version"), std::string::npos);
  EXPECT_TRUE(read_baselines(write_baselines({}))->empty());
}

TEST(BaselineTest, ARestoredTextCannotOverfillADetector) {
  Baseline odd;
  for (std::uint16_t cell = 0; cell < kFineCells; ++cell) odd.cells.emplace_back(cell, std::uint16_t{65535});
  odd.medians.assign(60, 0);
  PairDetector detector;
  detector.restore(odd);
  for (int i = 0; i < 1000; ++i) detector.answered(i * kSecond, 4800);
  SUCCEED();
}

}  // namespace
}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// Tells from the outcomes of one pair's probes whether its path got slower, its tail heavier, or lossy, and whether the
// peer is gone. Fixed memory; no clock and no chance of its own: the same samples at the same times give the same
// answers. One thread at a time.
//
// Three sums that grow with evidence and fall without (CUSUM), each an alarm above its limit, which ends when the sum
// is back at 0. That of loss ends sooner, once, where losses came often before and then none for five times their mean
// distance; losses in a row count as one there, and if they come back the alarm stays for the whole way to 0:
// - shift: medians of windows of 60 samples, in robust deviations from the median of such medians;
// - tail: share of samples above the baseline's 99th percentile, 1 % against 3 %;
// - loss: share of probes without an answer in time, 1e-4 against 1e-2.
// The baseline learns from windows without an alarm. While shift or tail is open it stands still; after 24 hours, or
// when told that this is normal now, it begins anew. The time of an answer that a busy host spoilt (`host_limited`)
// counts nowhere; that it came does.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "probes/engine.h"
#include "probes/measure/latency_histogram.h"

namespace roce::probe {

// What is kept over a restart. Nanoseconds.
struct Baseline {
  std::vector<std::uint64_t> medians;                          // of the last windows, oldest first; at most 60
  std::vector<std::pair<std::uint16_t, std::uint16_t>> cells;  // fine cells and how many samples they had, in order
  bool operator==(const Baseline&) const = default;
};

class PairDetector {
 public:
  static constexpr std::size_t kWindow = 60;         // samples
  static constexpr std::size_t kMedians = 60;        // windows of the baseline
  static constexpr std::size_t kLearnWindows = 20;   // before a shift can be told
  static constexpr std::uint32_t kLearnTail = 2000;  // samples before a heavier tail can be told
  static constexpr unsigned kTimeoutsInARow = 3;     // that ask for a burst
  static constexpr unsigned kTimeoutsDown = 10;      // in a row are down, burst or not
  static constexpr std::int64_t kRelearnAfter = std::int64_t{24} * 3600 * 1'000'000'000;

  // Without a sample for this long the state is unknown.
  explicit PairDetector(std::int64_t stale_ns = std::int64_t{60} * 1'000'000'000) : stale_ns_(stale_ns) {}

  // `now` is in nanoseconds and does not go back.
  void answered(std::int64_t now, std::uint64_t rtt_ns, bool host_limited = false);
  void lost(std::int64_t now, bool host_limited = false);
  void late(std::int64_t now);  // an answer after its deadline: lost has been told, yet the peer is there

  // True once after three timeouts in a row: ten probes, 20 ms apart, shall tell whether the peer is gone. Their
  // outcome goes to burst(), not to answered() and lost().
  bool take_burst();
  void burst(std::int64_t now, unsigned sent, unsigned answered);

  // An operator says that what is measured now is normal.
  void acknowledge();

  PeerState state(std::int64_t now) const;
  bool shift() const { return shift_.open; }
  bool tail() const { return tail_.open; }
  bool loss() const { return loss_.sum.open; }
  std::uint64_t baseline_ns() const { return baseline_ns_; }          // 0: still learning
  std::uint64_t tail_threshold_ns() const { return tail_above_ns_; }  // 0: still learning

  Baseline baseline() const;
  void restore(const Baseline& baseline);

 private:
  struct Sum {
    double value = 0;
    bool open = false;
    void add(double evidence, double limit);
  };
  void seen(std::int64_t now);
  void close_window();
  void learn_median(std::uint64_t median);
  void learn_tail();
  void judge_baseline();
  void judge_tail();
  void relearn();

  std::int64_t stale_ns_;
  std::int64_t last_sample_ = 0;
  bool any_sample_ = false;

  std::array<std::uint64_t, kWindow> window_{};
  std::size_t in_window_ = 0;
  std::array<std::uint64_t, kMedians> medians_{};  // a ring
  std::size_t median_count_ = 0, median_next_ = 0;
  std::uint64_t baseline_ns_ = 0;
  double deviation_ns_ = 0;
  std::array<std::uint16_t, kFineCells> cells_{};
  std::uint32_t in_cells_ = 0;
  std::uint64_t tail_above_ns_ = 0;

  struct Losses {
    Sum sum;
    std::uint32_t trials = 0, runs = 0;  // since the sum last was 0, up to the last loss; losses in a row are a run
    std::uint32_t clean = 0;             // answers since then
    bool ended_early = false;            // since the sum last was 0
  };
  Sum shift_, tail_;
  Losses loss_;
  std::int64_t frozen_since_ = 0;
  bool frozen_ = false;
  Losses loss_before_;  // as it was before the timeouts in a row
  unsigned timeouts_ = 0;
  bool burst_wanted_ = false;
  bool down_ = false;
};

// The worst of several classes' states: down, lossy, degraded, ok; unknown only where all are.
PeerState worst_state(std::span<const PeerState> states);

struct SavedBaseline {
  std::string peer, qos;
  Baseline baseline;
  bool operator==(const SavedBaseline&) const = default;
};

// Baselines as text: a line that names the version, one a pair, one with a check sum. Reading accepts that alone: a
// text of another version, cut or changed is an error (kMalformed) that names the line, and nothing of it is taken.
std::string write_baselines(std::span<const SavedBaseline> baselines);
Result<std::vector<SavedBaseline>> read_baselines(std::string_view text);

}  // namespace roce::probe

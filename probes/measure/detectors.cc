// SPDX-License-Identifier: Apache-2.0
#include "probes/measure/detectors.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace roce::probe {
namespace {

constexpr double kShiftSlack = 0.75, kShiftLimit = 6;
constexpr double kTailNormal = 0.01, kTailBad = 0.03, kTailLimit = 7;
constexpr double kLossNormal = 1e-4, kLossBad = 1e-2, kLossLimit = 6;
// What ends an alarm of loss early: answers in a row for so many mean distances of losses, and so many at least.
constexpr std::uint64_t kLossOver = 5, kLeastClean = 30;
constexpr std::uint32_t kMaxInCells = 14400;  // samples that the tail remembers; then all cells are halved
// A path that never varies would make any change an alarm: so much of the median counts as one deviation at least.
constexpr double kLeastDeviation = 0.005;

// Evidence for the worse of two rates by one trial: the logarithm of the ratio of its likelihoods.
double evidence(double normal, double bad, bool hit) {
  return hit ? std::log(bad / normal) : std::log((1 - bad) / (1 - normal));
}

template <class Iterator>
auto median_of(Iterator begin, Iterator end) {
  const auto middle = begin + (end - begin) / 2;
  std::nth_element(begin, middle, end);
  return *middle;
}

}  // namespace

// The sum is kept between 0 and its limit: an alarm ends as soon after a long fault as after a short one.
void PairDetector::Sum::add(double by, double limit) {
  value += by;
  if (value > limit) {
    value = limit;
    open = true;
  }
  if (value <= 0) {
    value = 0;
    open = false;
  }
}

void PairDetector::seen(std::int64_t now) {
  last_sample_ = now;
  any_sample_ = true;
  if (frozen_ && now - frozen_since_ >= kRelearnAfter) relearn();
}

void PairDetector::answered(std::int64_t now, std::uint64_t rtt_ns, bool host_limited) {
  seen(now);
  if (down_) loss_ = loss_before_;  // an outage is no lossy path
  timeouts_ = 0;
  down_ = false;
  burst_wanted_ = false;
  loss_.sum.add(evidence(kLossNormal, kLossBad, false), kLossLimit);
  ++loss_.clean;
  if (loss_.sum.value <= 0) {
    loss_ = {};
  } else if (loss_.sum.open && !loss_.ended_early && loss_.runs >= 2 && loss_.clean >= kLeastClean &&
             std::uint64_t{loss_.clean} * (loss_.runs - 1) >= kLossOver * loss_.trials) {
    loss_.sum.open = false;
    loss_.ended_early = true;
  }
  if (host_limited) return;
  if (tail_above_ns_ != 0) tail_.add(evidence(kTailNormal, kTailBad, rtt_ns > tail_above_ns_), kTailLimit);
  window_[in_window_++] = rtt_ns;
  if (in_window_ == kWindow) close_window();
  const bool bad = shift_.open || tail_.open;
  if (bad && !frozen_) frozen_since_ = now;
  frozen_ = bad;
}

void PairDetector::lost(std::int64_t now, bool host_limited) {
  seen(now);
  if (host_limited) return;
  if (timeouts_ == 0) loss_before_ = loss_;
  loss_.sum.add(evidence(kLossNormal, kLossBad, true), kLossLimit);
  if (loss_.clean != 0 || loss_.runs == 0) ++loss_.runs;
  loss_.trials += loss_.clean + 1;
  loss_.clean = 0;
  ++timeouts_;
  if (timeouts_ >= kTimeoutsDown) down_ = true;
  if (!down_ && timeouts_ % kTimeoutsInARow == 0) burst_wanted_ = true;
}

void PairDetector::late(std::int64_t now) {
  seen(now);
  if (down_) loss_ = loss_before_;
  timeouts_ = 0;
  down_ = false;
  burst_wanted_ = false;
}

bool PairDetector::take_burst() { return std::exchange(burst_wanted_, false); }

void PairDetector::burst(std::int64_t now, unsigned sent, unsigned answered) {
  if (sent == 0) return;
  seen(now);
  if (answered != 0) {
    if (down_) loss_ = loss_before_;
    timeouts_ = 0;
    down_ = false;
  } else if (timeouts_ >= kTimeoutsInARow) {
    down_ = true;  // nothing has come since the burst was asked for either
  }
}

void PairDetector::close_window() {
  in_window_ = 0;
  auto sorted = window_;
  const std::uint64_t median = median_of(sorted.begin(), sorted.end());
  if (baseline_ns_ != 0) {
    const double deviations = (static_cast<double>(median) - static_cast<double>(baseline_ns_)) / deviation_ns_;
    shift_.add(deviations - kShiftSlack, kShiftLimit);
  }
  if (shift_.open || tail_.open) return;
  learn_tail();
  // A window that may be the first of a shift teaches nothing.
  if (shift_.value < kShiftLimit / 2) learn_median(median);
}

void PairDetector::learn_median(std::uint64_t median) {
  medians_[median_next_] = median;
  median_next_ = (median_next_ + 1) % kMedians;
  median_count_ = std::min(median_count_ + 1, kMedians);
  judge_baseline();
}

void PairDetector::judge_baseline() {
  if (median_count_ < kLearnWindows) return;
  auto sorted = medians_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(median_count_);
  baseline_ns_ = std::max<std::uint64_t>(1, median_of(sorted.begin(), end));
  std::array<double, kMedians> distances{};
  for (std::size_t i = 0; i < median_count_; ++i)
    distances[i] = std::abs(static_cast<double>(medians_[i]) - static_cast<double>(baseline_ns_));
  const double spread = median_of(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(median_count_));
  // 1.4826 makes it a standard deviation where medians are normal; few windows know it too badly to be believed.
  const double caution = 1 + 5 / static_cast<double>(median_count_);
  deviation_ns_ = std::max(1.4826 * spread * caution, kLeastDeviation * static_cast<double>(baseline_ns_));
}

void PairDetector::learn_tail() {
  for (const std::uint64_t ns : window_) {
    ++cells_[fine_cell(ns)];
    ++in_cells_;
  }
  if (in_cells_ > kMaxInCells) {
    in_cells_ = 0;
    for (std::uint16_t& n : cells_) {
      n /= 2;
      in_cells_ += n;
    }
  }
  judge_tail();
}

void PairDetector::judge_tail() {
  if (in_cells_ < kLearnTail) return;
  // The lowest cell above which no more than 1 % lie, with a standard deviation of doubt.
  double above = 0;
  std::size_t cell = kFineCells;
  while (cell > 1) {
    const double with = above + cells_[cell - 1];
    if (with + std::sqrt(with) > kTailNormal * in_cells_) break;
    above = with;
    --cell;
  }
  tail_above_ns_ = cell < kFineCells ? fine_cell_begin(cell) - 1 : fine_cell_begin(kFineCells - 1);
}

void PairDetector::relearn() {
  in_window_ = 0;
  median_count_ = median_next_ = 0;
  baseline_ns_ = 0;
  deviation_ns_ = 0;
  cells_.fill(0);
  in_cells_ = 0;
  tail_above_ns_ = 0;
  shift_ = tail_ = {};
  frozen_ = false;
}

void PairDetector::acknowledge() {
  relearn();
  loss_ = loss_before_ = {};
}

PeerState PairDetector::state(std::int64_t now) const {
  if (!any_sample_ || now - last_sample_ > stale_ns_) return PeerState::kUnknown;
  if (down_) return PeerState::kDown;
  if (loss_.sum.open) return PeerState::kLossy;
  return shift_.open || tail_.open ? PeerState::kDegraded : PeerState::kOk;
}

Baseline PairDetector::baseline() const {
  Baseline out;
  for (std::size_t i = 0; i < median_count_; ++i)
    out.medians.push_back(medians_[(median_next_ + kMedians - median_count_ + i) % kMedians]);
  for (std::size_t cell = 0; cell < kFineCells; ++cell)
    if (cells_[cell] != 0) out.cells.emplace_back(static_cast<std::uint16_t>(cell), cells_[cell]);
  return out;
}

void PairDetector::restore(const Baseline& baseline) {
  relearn();
  for (const std::uint64_t median : baseline.medians) learn_median(median);
  for (const auto& [cell, n] : baseline.cells) {
    if (cell >= kFineCells || in_cells_ + n > 2 * kMaxInCells) continue;
    in_cells_ += n - cells_[cell];
    cells_[cell] = n;
  }
  judge_tail();
}

PeerState worst_state(std::span<const PeerState> states) {
  constexpr PeerState kOrder[] = {PeerState::kDown, PeerState::kLossy, PeerState::kDegraded, PeerState::kOk};
  for (const PeerState state : kOrder)
    if (std::find(states.begin(), states.end(), state) != states.end()) return state;
  return PeerState::kUnknown;
}

}  // namespace roce::probe

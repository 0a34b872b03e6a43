// SPDX-License-Identifier: Apache-2.0
#include "probes/schedule/schedule.h"

#include <cmath>

namespace roce::probe {

void JitteredSchedule::start(std::uint64_t now, std::uint64_t period) {
  period_ = period;
  // A quarter of a period later, so that no jitter leads to before now.
  base_ = now + period / 4 + random_.below(period);
  due_ = jittered();
}

std::uint64_t JitteredSchedule::jittered() { return base_ - period_ / 4 + random_.below(period_ / 2 + 1); }

std::uint64_t JitteredSchedule::advance(std::uint64_t now) {
  if (period_ == 0) return 0;
  std::uint64_t lost = 0;
  base_ += period_;
  // Its earliest time is past by more than a period: the whole interval was lost.
  if (now > base_ + period_) {
    lost = (now - base_) / period_;
    base_ += lost * period_;
  }
  due_ = jittered();
  return lost;
}

bool Throttle::observe(std::uint64_t now, std::uint64_t lag) {
  const bool late = lag > kTooLate;
  if (!started_ || late != late_) {
    started_ = true;
    late_ = late;
    since_ = now;
    return false;
  }
  if (late && now - since_ >= kBadTime && shift_ < kMaxShift) {
    ++shift_;
    since_ = now;
    return true;
  }
  if (!late && now - since_ >= kGoodTime && shift_ > 0) {
    --shift_;
    since_ = now;
    return true;
  }
  return false;
}

std::uint64_t stretched_interval(std::uint64_t wanted, double budget, std::size_t pairs) {
  // A budget that is not a positive number is no budget for anything.
  const double rate = std::clamp(std::isfinite(budget) && budget > 0 ? budget : 0.1, 0.1, kMaxBudget);
  const double least = static_cast<double>(pairs) / rate * 1e9;
  return std::max(std::max<std::uint64_t>(wanted, 1'000'000), static_cast<std::uint64_t>(std::ceil(least)));
}

}  // namespace roce::probe

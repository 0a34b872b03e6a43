// SPDX-License-Identifier: Apache-2.0
//
// When probes are sent. Times are nanoseconds of CLOCK_MONOTONIC. Nothing here allocates.
#pragma once

#include <algorithm>
#include <cstdint>

namespace roce::probe {

// Small and fast; for jitter and phases, not for secrets.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  // Uniform in [0, bound).
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

 private:
  std::uint64_t state_;
};

// An absolute schedule: the n-th probe is due at start + n periods, give or take a quarter of one. It never depends on
// when, or whether, an earlier probe was sent or answered.
class JitteredSchedule {
 public:
  explicit JitteredSchedule(std::uint64_t seed = 0) : random_(seed) {}

  // The first probe comes at a random time within one period. Another period starts again from `now`.
  void start(std::uint64_t now, std::uint64_t period);
  void set_period(std::uint64_t now, std::uint64_t period) {
    if (period != period_) start(now, period);
  }
  std::uint64_t period() const { return period_; }
  std::uint64_t due() const { return due_; }
  // Goes to the next probe after `now`; returns how many others were due before it and are lost.
  std::uint64_t advance(std::uint64_t now);

 private:
  std::uint64_t jittered();
  Random random_;
  std::uint64_t period_ = 0, base_ = 0, due_ = 0;
};

class TokenBucket {
 public:
  TokenBucket() = default;
  TokenBucket(double rate, double burst, std::uint64_t now) : tokens_(burst), filled_(now) { set(rate, burst); }
  void set(double rate, double burst) {
    rate_ = rate;
    burst_ = burst;
  }
  bool take(std::uint64_t now) {
    if (now > filled_) {
      tokens_ = std::min(burst_, tokens_ + static_cast<double>(now - filled_) * 1e-9 * rate_);
      filled_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double rate_ = 0, burst_ = 0, tokens_ = 0;
  std::uint64_t filled_ = 0;
};

// Sends less while this thread is woken too late: 1, 1/2, 1/4, 1/8 of the rate. Never stops.
class Throttle {
 public:
  static constexpr std::uint64_t kTooLate = 10'000'000;       // ns of lag
  static constexpr std::uint64_t kBadTime = 10'000'000'000;   // of only late wake-ups halve the rate
  static constexpr std::uint64_t kGoodTime = 60'000'000'000;  // without a late one double it
  static constexpr unsigned kMaxShift = 3;

  // Takes the lag of one wake-up; true when the rate changed.
  bool observe(std::uint64_t now, std::uint64_t lag);
  unsigned shift() const { return shift_; }
  double share() const { return 1.0 / static_cast<double>(1U << shift_); }

 private:
  unsigned shift_ = 0;
  std::uint64_t since_ = 0;
  bool late_ = false, started_ = false;
};

// The interval between probes of one pair and class, in nanoseconds, so that `pairs` of them (of all devices) stay
// within `budget` a second, which is at most 200.
inline constexpr double kMaxBudget = 200;
std::uint64_t stretched_interval(std::uint64_t wanted, double budget, std::size_t pairs);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/counter_history.h"

namespace roce {
namespace {

constexpr unsigned kMaxHeldReads = 2;

}  // namespace

bool CounterHistory::is_small_step(std::uint64_t raw) const { return raw < last_ && last_ - raw <= last_ / 10; }

bool CounterHistory::is_wrap(std::uint64_t raw, unsigned wrap_bits) const {
  if (wrap_bits == 0 || wrap_bits >= 64 || raw >= last_) return false;
  // The kernel may add a 64-bit history to the hardware's field, so the wrap shows as a fall by 2^bits less the
  // increase. An increase of more than half the range between two reads cannot be told from a restart.
  const std::uint64_t range = std::uint64_t{1} << wrap_bits;
  const std::uint64_t fall = last_ - raw;
  return fall <= range && fall > range / 2;
}

CounterHistory::Step CounterHistory::next(std::uint64_t raw, unsigned wrap_bits) {
  Step step;
  if (!known_ || raw >= last_) {
    held_ = 0;
  } else if (is_wrap(raw, wrap_bits)) {
    added_ += std::uint64_t{1} << wrap_bits;
    held_ = 0;
  } else if (is_small_step(raw) && held_ < kMaxHeldReads) {
    step.regression = held_ == 0;
    ++held_;
    step.value = last_ + added_;
    return step;
  } else {
    if (!is_small_step(raw)) added_ = 0;
    held_ = 0;
  }
  known_ = true;
  last_ = raw;
  step.value = last_ + added_;
  return step;
}

}  // namespace roce

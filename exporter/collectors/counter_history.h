// SPDX-License-Identifier: Apache-2.0
//
// The memory of one counter between reads: widens a counter that wraps, holds back a small step backwards, lets a
// restart through. Not thread-safe.
#pragma once

#include <cstdint>

namespace roce {

class CounterHistory {
 public:
  struct Step {
    std::uint64_t value = 0;
    bool regression = false;  // a small step back began with this read
  };

  // The value to publish for a raw value. `wrap_bits`: width at which the hardware wraps (below 64), 0 for a counter
  // that does not.
  Step next(std::uint64_t raw, unsigned wrap_bits);

  // True when the value fell by more than a small step back: a wrap or a restart.
  bool fell(std::uint64_t raw) const { return known_ && raw < last_ && !is_small_step(raw); }
  bool moved() const { return known_ && last_ != 0; }

  // The counter began again (driver or firmware restart): the next raw value stands as it is.
  void restart() { *this = CounterHistory(); }

 private:
  bool is_small_step(std::uint64_t raw) const;
  bool is_wrap(std::uint64_t raw, unsigned wrap_bits) const;

  bool known_ = false;
  std::uint64_t last_ = 0;   // last raw value that was taken
  std::uint64_t added_ = 0;  // what wraps have added
  unsigned held_ = 0;        // reads for which the last value has been held
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Which of the last 64 numbers of a stream were seen.
#pragma once

#include <cstdint>

namespace roce::probe {

class ReplayWindow {
 public:
  // True the first time that a number is seen which is not more than 63 behind the highest one.
  bool accept(std::uint64_t number) {
    if (!started_ || number > highest_) {
      const std::uint64_t ahead = started_ ? number - highest_ : 64;
      seen_ = ahead >= 64 ? 1 : seen_ << ahead | 1;
      highest_ = number;
      started_ = true;
      return true;
    }
    const std::uint64_t behind = highest_ - number;
    if (behind >= 64) return false;
    const std::uint64_t bit = std::uint64_t{1} << behind;
    if ((seen_ & bit) != 0) return false;
    seen_ |= bit;
    return true;
  }

 private:
  std::uint64_t highest_ = 0, seen_ = 0;
  bool started_ = false;
};

}  // namespace roce::probe

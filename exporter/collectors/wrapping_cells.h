// SPDX-License-Identifier: Apache-2.0
//
// The memory of a row of counters that the kernel keeps in 32 bits, one for each CPU: their sum wraps at no fixed
// value, so each is followed by itself. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace roce {

// What a 32-bit counter has counted between two reads. A fall from near the top to near the bottom is a wrap, any other
// fall a restart. Greater values are taken as they are: the field was wider.
constexpr std::uint64_t step_of_32_bits(std::uint64_t before, std::uint64_t now) {
  constexpr std::uint64_t kTop = std::uint64_t{1} << 32U;
  if (now >= before) return now - before;
  const bool wrapped = before < kTop && before >= kTop / 4 * 3 && now < kTop / 4;
  return wrapped ? now + (kTop - before) : now;
}

class WrappingCells {
 public:
  // Takes what the CPUs' counters read now; `cpus[i]` is the number of the CPU of `cells[i]`. Gives what has been added
  // since the last call on each of them; at the first call, and for a CPU that is new, that is all. A CPU that is not
  // listed keeps its value for when it comes back.
  std::vector<std::uint64_t> next(std::span<const std::uint32_t> cpus, std::span<const std::uint64_t> cells) {
    std::vector<std::uint64_t> steps(cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t cpu = cpus[i];
      if (cpu >= last_.size()) last_.resize(cpu + 1);
      steps[i] = step_of_32_bits(last_[cpu], cells[i]);
      last_[cpu] = cells[i];
      total_ += steps[i];
    }
    return steps;
  }

  // All that was ever added.
  std::uint64_t total() const { return total_; }

 private:
  std::vector<std::uint64_t> last_;
  std::uint64_t total_ = 0;
};

}  // namespace roce

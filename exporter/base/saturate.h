// SPDX-License-Identifier: Apache-2.0
//
// Sums that stop at the top of their type: a number that is too great for it reads as the greatest, never as a small
// one.
#pragma once

#include <cstdint>
#include <limits>

namespace roce {

constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

constexpr std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

}  // namespace roce

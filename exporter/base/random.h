// SPDX-License-Identifier: Apache-2.0
//
// Random bytes of the kernel (getrandom(2)): keys, epochs, numbers that nobody may guess. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

namespace roce {

// Fills all of it. Where the kernel gives none the process ends: a number that can be guessed would be worse.
void fill_random(std::span<std::byte> out);

template <class T>
T random_number() {
  T value{};
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace roce

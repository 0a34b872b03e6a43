// SPDX-License-Identifier: Apache-2.0
//
// What a fuzz target promises: a promise that is broken ends the program, which libFuzzer takes for a crash and keeps
// the input of.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

// `line` is the text that broke the promise, where there is one.
inline void require(bool holds, std::string_view line = {}) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(line.size()), line.data());
  std::abort();
}

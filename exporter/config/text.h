// SPDX-License-Identifier: Apache-2.0
//
// Wording of what is wrong with a flag or a key: what was found, what is allowed, what was probably meant. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace roce::config {

// `found` and `allowed` read as the ends of "found ..." and "allowed ..."; `meant` is empty or the likely right
// spelling.
struct Problem {
  std::string found;
  std::string allowed;
  std::string meant;

  std::string text() const;  // one line: "found ..., allowed ...; did you mean `...`?"
};

// Foreign text made safe for one line: control bytes and broken UTF-8 escaped, cut at `max` bytes.
std::string one_line(std::string_view text, std::size_t max = 80);

// one_line() in backticks, "nothing" when empty.
std::string ticked(std::string_view text);

// "a, b or c".
std::string either(std::span<const std::string_view> words);

// The candidate that `text` is a near miss of, empty when none is near: few typing errors, `-`, `_` and `.` mixed up,
// or the last part of a dotted name without its beginning.
std::string nearest(std::string_view text, std::span<const std::string> candidates);

// Length of the well-formed UTF-8 sequence that `text` (not empty) begins with; 0 when there is none.
std::size_t utf8_length(std::string_view text);

}  // namespace roce::config

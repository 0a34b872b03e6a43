// SPDX-License-Identifier: Apache-2.0
//
// Parsers for the small texts of sysfs and procfs. They allocate nothing, throw nothing, log nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace roce {

// The text without blanks, tabs and line ends at both ends.
std::string_view trim(std::string_view text);

// Takes the first line off the text and gives it without its end.
std::string_view take_line(std::string_view& text);

// Takes the first word off the text, and the blanks before it; empty when there is none. Blanks are what trim() takes.
std::string_view take_word(std::string_view& text);

// A whole decimal number up to 2^64-1; surrounding blanks allowed, anything else refused.
std::optional<std::uint64_t> parse_u64(std::string_view text);

// A whole decimal number with an optional minus sign.
std::optional<std::int64_t> parse_i64(std::string_view text);

// Hexadecimal with or without 0x.
std::optional<std::uint64_t> parse_hex(std::string_view text);

// The leading number of "4: ACTIVE" (sysfs state, phys_state, node_type).
std::optional<std::uint64_t> parse_leading_number(std::string_view text);

// The text behind the colon of "4: ACTIVE"; the whole trimmed text when there is no colon.
std::string_view text_after_colon(std::string_view text);

// "100 Gb/sec (4X EDR)" to bytes per second. The number already includes the lanes, so neither the lane count nor the
// speed name in brackets matters; the spelling of the unit and the brackets are optional. Zero is legal.
std::optional<double> parse_rate(std::string_view text);

}  // namespace roce

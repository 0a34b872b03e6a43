// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace roce {
namespace {

constexpr std::string_view kBlank = " \t\r\n\f\v";

template <class T>
std::optional<T> parse_whole(std::string_view text, int base) {
  text = trim(text);
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string_view take_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& text) {
  const auto begin = std::min(text.find_first_not_of(kBlank), text.size());
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(kBlank));
  text.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) { return parse_whole<std::uint64_t>(text, 10); }

std::optional<std::int64_t> parse_i64(std::string_view text) { return parse_whole<std::int64_t>(text, 10); }

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  text = trim(text);
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return parse_whole<std::uint64_t>(text, 16);
}

std::optional<std::uint64_t> parse_leading_number(std::string_view text) {
  text = trim(text);
  return parse_u64(text.substr(0, text.find(':')));
}

std::string_view text_after_colon(std::string_view text) {
  const auto colon = text.find(':');
  return trim(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

std::optional<double> parse_rate(std::string_view text) {
  text = trim(text);
  double gigabits = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), gigabits, std::chars_format::fixed);
  if (ec != std::errc{} || !std::isfinite(gigabits) || gigabits < 0 || std::signbit(gigabits)) return std::nullopt;
  // What follows must be a unit word or nothing: "12abc" and "1e5" are not rates.
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (!rest.empty() && kBlank.find(rest.front()) == std::string_view::npos && rest.front() != 'G' &&
      rest.front() != 'g')
    return std::nullopt;
  const double bytes = gigabits * 1e9 / 8;
  return std::isfinite(bytes) ? std::optional(bytes) : std::nullopt;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace roce::config {
namespace {

std::string normal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    out += c == '_' || c == '.' ? '-' : upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// Typing errors between two words: a letter too many, missing, wrong, or two swapped.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string Problem::text() const {
  std::string out = "found " + found + ", allowed " + allowed;
  if (!meant.empty()) out += "; did you mean `" + meant + "`?";
  return out;
}

std::size_t utf8_length(std::string_view text) {
  const auto in = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && static_cast<unsigned char>(text[i]) >= low && static_cast<unsigned char>(text[i]) <= high;
  };
  if (in(0, 0x00, 0x7F)) return 1;
  if (in(0, 0xC2, 0xDF)) return in(1, 0x80, 0xBF) ? 2 : 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (in(0, 0xE0, 0xEF)) {
    return in(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (in(0, 0xF0, 0xF4)) {
    return in(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

std::string one_line(std::string_view text, std::size_t max) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max) return out + "...";
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool c1 = length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (sequence == "\n") {
      out += "\\n";
    } else if (sequence == "\t") {
      out += "\\t";
    } else if (length == 0 || c1 || first < 0x20 || first == 0x7F || sequence == "\xE2\x80\xA8" ||
               sequence == "\xE2\x80\xA9") {
      for (const char c : sequence) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
      }
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string ticked(std::string_view text) { return text.empty() ? "nothing" : "`" + one_line(text) + "`"; }

std::string either(std::span<const std::string_view> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

std::string nearest(std::string_view text, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 64;  // longer text is no typing error, and the distance costs its square
  if (text.empty() || text.size() > kLongest) return {};
  const std::string wanted = normal(text);
  const std::size_t limit = std::clamp<std::size_t>(wanted.size() / 4, 1, 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const std::string name = normal(candidate);
    const std::size_t d = distance(wanted, name);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  if (!best.empty()) return best;
  for (const std::string& candidate : candidates) {
    const std::string name = normal(candidate);
    if (wanted.size() >= 4 && name.size() > wanted.size() && name.ends_with("-" + wanted)) return candidate;
  }
  return {};
}

}  // namespace roce::config

// SPDX-License-Identifier: Apache-2.0
//
// The text in which baselines are kept: "roce-probe-baselines 1", then "PEER QOS MEDIAN,MEDIAN,... CELL:N,CELL:N,..." a
// pair ("-" for none), then "sum HEX" over all bytes before that line.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "probes/measure/detectors.h"

namespace roce::probe {
namespace {

constexpr std::string_view kFirstLine = "roce-probe-baselines 1";
constexpr std::size_t kMaxText = std::size_t{8} << 20;
constexpr std::size_t kMaxPairs = 4096;
constexpr std::size_t kMaxName = 512;

// FNV-1a: it tells a cut or overwritten file, which is all that is asked of it.
std::uint64_t check_sum(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return sum;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '/' || c == ':';
}

// A name without blanks: other bytes as %XX; "%" alone is the empty name.
std::string encode(std::string_view name) {
  if (name.empty()) return "%";
  std::string out;
  for (const char c : name) {
    if (is_plain(c))
      out += c;
    else
      fmt::format_to(std::back_inserter(out), "%{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

template <class T>
bool parse(std::string_view text, T& out, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  if (text == "%") return out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      unsigned char byte = 0;
      if (i + 2 >= text.size() || !parse(text.substr(i + 1, 2), byte, 16)) return std::nullopt;
      out += static_cast<char>(byte);
      i += 2;
    } else if (is_plain(text[i])) {
      out += text[i];
    } else {
      return std::nullopt;
    }
  }
  if (out.empty() || out.size() > kMaxName) return std::nullopt;
  return out;
}

// Cuts the text at the first separator: returns what stands before it, leaves what stands behind.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return part;
}

std::optional<Baseline> parse_baseline(std::string_view medians, std::string_view cells) {
  Baseline out;
  if (medians != "-") {
    if (medians.empty() || medians.ends_with(',')) return std::nullopt;
    while (!medians.empty()) {
      std::uint64_t ns = 0;
      if (out.medians.size() == PairDetector::kMedians || !parse(take(medians, ','), ns)) return std::nullopt;
      out.medians.push_back(ns);
    }
  }
  if (cells != "-") {
    if (cells.empty() || cells.ends_with(',')) return std::nullopt;
    while (!cells.empty()) {
      std::string_view count = take(cells, ',');
      const std::string_view place = take(count, ':');
      std::uint16_t cell = 0, n = 0;
      if (!parse(place, cell) || !parse(count, n) || cell >= kFineCells || n == 0 ||
          (!out.cells.empty() && out.cells.back().first >= cell))
        return std::nullopt;
      out.cells.emplace_back(cell, n);
    }
  }
  return out;
}

}  // namespace

std::string write_baselines(std::span<const SavedBaseline> baselines) {
  std::string out(kFirstLine);
  out += '\n';
  for (const SavedBaseline& saved : baselines.first(std::min(baselines.size(), kMaxPairs))) {
    out += encode(saved.peer) + " " + encode(saved.qos) + " ";
    if (saved.baseline.medians.empty()) out += '-';
    for (std::size_t i = 0; i < saved.baseline.medians.size(); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", saved.baseline.medians[i]);
    out += ' ';
    if (saved.baseline.cells.empty()) out += '-';
    for (std::size_t i = 0; i < saved.baseline.cells.size(); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}:{}", i == 0 ? "" : ",", saved.baseline.cells[i].first,
                     saved.baseline.cells[i].second);
    out += '\n';
  }
  out += fmt::format("sum {:016x}\n", check_sum(out));
  return out;
}

Result<std::vector<SavedBaseline>> read_baselines(std::string_view text) {
  int number = 0;
  const auto bad = [&number](std::string_view what) {
    return fail(ErrorKind::kMalformed, fmt::format("baselines, line {}: {}", number, what));
  };
  if (text.size() > kMaxText) return bad("more than 8 MiB");
  const std::string_view whole = text;
  std::vector<SavedBaseline> out;
  ++number;
  if (take(text, '\n') != kFirstLine) return bad("another version, or no baselines");
  while (!text.empty()) {
    ++number;
    const auto before = static_cast<std::size_t>(text.data() - whole.data());
    std::string_view line = take(text, '\n');
    if (line.starts_with("sum ")) {
      std::uint64_t sum = 0;
      if (line.size() != 20 || !parse(line.substr(4), sum, 16) || sum != check_sum(whole.substr(0, before)))
        return bad("the check sum is wrong");
      if (!text.empty()) return bad("text behind the check sum");
      if (!whole.ends_with('\n')) return bad("it is cut");
      return out;
    }
    const auto peer = decode(take(line, ' '));
    const auto qos = decode(take(line, ' '));
    const std::string_view medians = take(line, ' ');
    auto baseline = parse_baseline(medians, line);
    if (!peer || !qos || !baseline) return bad("no baseline of a pair");
    if (out.size() == kMaxPairs) return bad("too many pairs");
    out.push_back({*peer, *qos, std::move(*baseline)});
  }
  return bad("it is cut");
}

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/motion.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numbers>
#include <optional>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/recording.h"

namespace roce {
namespace {

constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;
constexpr std::size_t kFields = 5;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

using Place = std::optional<std::pair<std::size_t, std::size_t>>;  // beginning and length

Place place_of_word(std::string_view text, std::uint64_t number) {
  constexpr std::string_view kBlanks = " \t\n";
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = text.find_first_not_of(kBlanks, at)) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    if (--number == 0) return std::pair(at, end - at);
    at = end;
  }
  return std::nullopt;
}

// The number behind "     name: ", or the word of that number.
Place place_of(std::string_view text, std::string_view name) {
  if (const auto number = parse_u64(name); number && *number != 0) return place_of_word(text, *number);
  const std::string wanted = " " + std::string(name) + ": ";
  const std::size_t at = text.find(wanted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = at + wanted.size();
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return std::pair(begin, end - begin);
}

}  // namespace

double moved_by(double per_second, double swing, double period, double phase, double seconds) {
  const double turn = 2 * std::numbers::pi / period;
  return per_second * (seconds + swing / turn * (std::cos(turn * phase) - std::cos(turn * (seconds + phase))));
}

Result<Motion> Motion::open(const std::string& folder) {
  ROCE_TRY(const std::string text, read_file(folder + "/motion.tsv", kMaxFileSize));
  Motion motion(folder);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.empty() || line.starts_with('#')) continue;
    ROCE_TRY_VOID(motion.add(line));
  }
  return motion;
}

Result<void> Motion::add(std::string_view line) {
  const auto refuse = [&] { return fail(ErrorKind::kMalformed, "motion.tsv: `" + std::string(line) + "`"); };
  std::array<std::string_view, kFields> fields;
  std::string_view rest = line;
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t tab = rest.find('\t');
    if ((tab == std::string_view::npos) != (i + 1 == kFields)) return refuse();
    fields[i] = rest.substr(0, tab);
    rest.remove_prefix(std::min(rest.size(), fields[i].size() + 1));
  }
  const std::size_t hash = fields[0].find('#');
  ROCE_TRY(const std::string file, path_within(fields[0].substr(0, hash)));
  ROCE_TRY(const std::string text, read_file(folder_ + "/" + file, kMaxFileSize));
  const auto a = number(fields[2]);
  const auto b = number(fields[3]);
  const auto c = number(fields[4]);
  if (!a || !b || !c) return refuse();
  if (fields[1].starts_with('=')) {
    if (*a <= 0 || *b < 0 || *c > *a || hash != std::string_view::npos) return refuse();
    states_.push_back({file, text, std::string(fields[1].substr(1)) + "\n", *a, *b, *c});
    return {};
  }
  const auto per_second = number(fields[1]);
  if (!per_second || *per_second < 0 || *a < 0 || *a > 1 || *b <= 0) return refuse();
  Counter counter{file, {}, 0, *per_second, *a, *b, *c};
  std::string_view start = text;
  if (hash != std::string_view::npos) {
    counter.name = fields[0].substr(hash + 1);
    const auto place = place_of(text, counter.name);
    if (!place) return refuse();
    start = start.substr(place->first, place->second);
    texts_[file] = text;
  }
  const auto value = parse_u64(trim(start));
  if (!value) return refuse();
  counter.start = *value;
  counters_.push_back(std::move(counter));
  return {};
}

Result<void> Motion::show(std::chrono::duration<double> since) {
  std::map<std::string, std::string> texts = texts_;
  for (const Counter& counter : counters_) {
    const double by = moved_by(counter.per_second, counter.swing, counter.period, counter.phase, since.count());
    const std::string value = std::to_string(counter.start + static_cast<std::uint64_t>(std::max(0.0, by)));
    if (counter.name.empty()) {
      ROCE_TRY_VOID(write(counter.file, value + "\n"));
      continue;
    }
    std::string& text = texts[counter.file];
    if (const auto place = place_of(text, counter.name)) text.replace(place->first, place->second, value);
  }
  for (const auto& [file, text] : texts) ROCE_TRY_VOID(write(file, text));
  for (const State& state : states_) {
    const double at = std::fmod(since.count(), state.period);
    ROCE_TRY_VOID(write(state.file, at >= state.from && at < state.to ? state.other : state.usual));
  }
  return {};
}

// By a new file in the old one's place: whoever reads sees the one or the other.
Result<void> Motion::write(const std::string& file, const std::string& text) const {
  const std::string path = folder_ + "/" + file;
  const std::string fresh = folder_ + "/.fresh";  // not beside it, where it would be one more counter
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << text;
    if (!out.flush()) return fail(ErrorKind::kIo, fresh);
  }
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno(errno, path);
  return {};
}

}  // namespace roce

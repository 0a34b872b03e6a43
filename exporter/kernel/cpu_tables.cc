// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/cpu_tables.h"

#include <algorithm>
#include <array>

#include "exporter/base/parse.h"

namespace roce {
namespace {

std::optional<std::uint32_t> cpu_number(std::string_view text) {
  const auto number = parse_u64(text);
  if (!number || *number >= kMostCpus) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

CpuTable parse_cpu_table(std::string_view text,
                         const std::function<bool(std::string_view name, std::string_view rest)>& wanted) {
  CpuTable table;
  std::string_view header = take_line(text);
  for (;;) {
    const std::string_view word = take_word(header);
    if (word.empty()) break;
    const auto cpu = word.starts_with("CPU") ? cpu_number(word.substr(3)) : std::nullopt;
    if (!cpu) return {};
    table.cpus.push_back(*cpu);
  }
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    CpuTable::Row row;
    row.name = trim(line.substr(0, colon));
    line.remove_prefix(colon + 1);
    if (wanted && !wanted(row.name, line)) continue;
    while (row.counts.size() < table.cpus.size()) {
      std::string_view rest = line;
      const auto count = parse_u64(take_word(rest));
      if (!count) break;
      row.counts.push_back(*count);
      line = rest;
    }
    row.text = trim(line);
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::uint32_t> parse_cpu_list(std::string_view text) {
  std::vector<std::uint32_t> cpus;
  text = trim(text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const auto dash = range.find('-');
    const auto first = cpu_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : cpu_number(range.substr(dash + 1));
    if (!first || !last || *first > *last) return {};
    for (std::uint32_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (cpus.size() > kMostCpus) return {};
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::vector<SoftnetRow> parse_softnet(std::string_view text) {
  constexpr std::size_t kCpuColumn = 12;
  std::vector<SoftnetRow> rows;
  for (std::uint32_t place = 0; !text.empty() && place < kMostCpus; ++place) {
    std::string_view line = take_line(text);
    std::array<std::optional<std::uint64_t>, kCpuColumn + 1> columns;
    for (auto& column : columns) column = parse_hex(take_word(line));
    if (!columns[0] || !columns[1] || !columns[2]) continue;
    SoftnetRow row;
    row.cpu = place;
    if (const auto cpu = columns[kCpuColumn]; cpu && *cpu < kMostCpus) row.cpu = static_cast<std::uint32_t>(*cpu);
    row.processed = *columns[0];
    row.dropped = *columns[1];
    row.time_squeezes = *columns[2];
    rows.push_back(row);
  }
  return rows;
}

std::vector<CpuTime> parse_cpu_times(std::string_view text) {
  constexpr std::size_t kColumns = 8;  // user nice system idle iowait irq softirq steal; guest time is in user time
  std::vector<CpuTime> times;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const std::string_view name = take_word(line);
    const auto cpu = name.starts_with("cpu") ? cpu_number(name.substr(3)) : std::nullopt;
    if (!cpu) continue;
    CpuTime time;
    time.cpu = *cpu;
    std::size_t column = 0;
    for (; column < kColumns; ++column) {
      const auto ticks = parse_u64(take_word(line));
      if (!ticks) break;
      time.all += *ticks;
      if (column == 5 || column == 6) time.interrupt += *ticks;
    }
    if (column >= 7) times.push_back(time);
  }
  return times;
}

std::optional<std::uint64_t> parse_pressure_total(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_word(line) != "some") continue;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line))
      if (word.starts_with("total=")) return parse_u64(word.substr(6));
  }
  return std::nullopt;
}

}  // namespace roce

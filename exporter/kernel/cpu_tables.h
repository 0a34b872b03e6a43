// SPDX-License-Identifier: Apache-2.0
//
// The kernel's texts with a column or a line for each CPU: /proc/interrupts, /proc/softirqs, /proc/net/softnet_stat,
// /proc/stat, and lists of CPUs. Pure functions over any text: thread-safe; what cannot be read is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace roce {

// Numbers of CPUs are below this; a greater one is no CPU.
inline constexpr std::uint32_t kMostCpus = 16384;

// Lines "NAME: count count ... text" below a line "CPU0 CPU1 CPU4".
struct CpuTable {
  struct Row {
    std::string_view name;              // "31", "NMI", "NET_RX"
    std::vector<std::uint64_t> counts;  // as many as `cpus`, or fewer where the line is shorter
    std::string_view text;              // what follows the counts: chip, trigger and names of the users
  };
  std::vector<std::uint32_t> cpus;
  std::vector<Row> rows;
};

// `wanted` says by name and rest of the line whether its counts are worth reading; none: all are. Views into `text`.
CpuTable parse_cpu_table(std::string_view text,
                         const std::function<bool(std::string_view name, std::string_view rest)>& wanted = {});

// "0-3,8" to its numbers, in order; empty for a text that is none.
std::vector<std::uint32_t> parse_cpu_list(std::string_view text);

struct SoftnetRow {
  std::uint32_t cpu = 0;  // column 13 where there is one, else the line's place
  std::uint64_t processed = 0;
  std::uint64_t dropped = 0;
  std::uint64_t time_squeezes = 0;
};
std::vector<SoftnetRow> parse_softnet(std::string_view text);

// Clock ticks of one CPU line of /proc/stat.
struct CpuTime {
  std::uint32_t cpu = 0;
  std::uint64_t interrupt = 0;  // hard and soft
  std::uint64_t all = 0;
};
std::vector<CpuTime> parse_cpu_times(std::string_view text);

// Microseconds behind total= of the line "some" of a pressure file.
std::optional<std::uint64_t> parse_pressure_total(std::string_view text);

}  // namespace roce

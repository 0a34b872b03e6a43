// SPDX-License-Identifier: Apache-2.0
//
// Texts of the kernel's memory management as numbers. Pure functions over any bytes, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/process.h"

namespace roce {

// The word in brackets of "always [madvise] never"; empty when there is none.
std::string_view selected_word(std::string_view text);

// The number of a line "Name: 12 kB" or "name 12" (meminfo, vmstat); nothing when the line is not there.
std::optional<std::uint64_t> number_of_line(std::string_view text, std::string_view name);

// The page size in the name of a directory: "hugepages-2048kB" gives 2097152.
std::optional<std::uint64_t> huge_page_size(std::string_view directory);

// Size as the hugetlb controller names it: 64KB, 2MB, 1GB.
std::string huge_page_label(std::uint64_t bytes);

struct SharedMemory {
  std::uint64_t segments = 0;
  std::optional<std::uint64_t> bytes;     // sum of their sizes
  std::optional<std::uint64_t> orphaned;  // segments that no process has attached
};
// From the text of /proc/sysvipc/shm. Columns are found by the names in its first line; without that line segments are
// counted and no more.
Result<SharedMemory> parse_shared_memory(std::string_view text);

}  // namespace roce

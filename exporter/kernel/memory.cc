// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/memory.h"

#include <algorithm>
#include <limits>

#include "exporter/base/parse.h"
#include "exporter/base/saturate.h"

namespace roce {
namespace {

constexpr std::uint64_t kKib = 1024;

}  // namespace

std::string_view selected_word(std::string_view text) {
  const auto open = text.find('[');
  if (open == std::string_view::npos) return {};
  const auto close = text.find(']', open);
  if (close == std::string_view::npos) return {};
  return trim(text.substr(open + 1, close - open - 1));
}

std::optional<std::uint64_t> number_of_line(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    if (line.empty() || (line.front() != ':' && line.front() != ' ')) continue;
    if (line.front() == ':') line.remove_prefix(1);
    return parse_u64(take_word(line));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> huge_page_size(std::string_view directory) {
  constexpr std::string_view kPrefix = "hugepages-";
  constexpr std::string_view kSuffix = "kB";
  if (!directory.starts_with(kPrefix) || !directory.ends_with(kSuffix)) return std::nullopt;
  directory.remove_prefix(kPrefix.size());
  directory.remove_suffix(kSuffix.size());
  const auto kilobytes = parse_u64(directory);
  if (!kilobytes || *kilobytes == 0 || *kilobytes > std::numeric_limits<std::uint64_t>::max() / kKib)
    return std::nullopt;
  return *kilobytes * kKib;
}

std::string huge_page_label(std::uint64_t bytes) {
  const std::uint64_t kib = bytes / kKib;
  const std::uint64_t mib = kib / kKib;
  const std::uint64_t gib = mib / kKib;
  if (gib != 0) return std::to_string(gib) + "GB";
  if (mib != 0) return std::to_string(mib) + "MB";
  return std::to_string(kib) + "KB";
}

Result<SharedMemory> parse_shared_memory(std::string_view text) {
  std::string_view rest = text;
  std::string_view header = take_line(rest);
  SharedMemory memory;
  std::optional<std::size_t> size_column;
  std::optional<std::size_t> attached_column;
  if (const std::string_view first = take_word(header); first == "key") {
    bool shared_memory = false;
    std::size_t column = 1;
    for (std::string_view name = take_word(header); !name.empty(); name = take_word(header), ++column) {
      if (name == "shmid") shared_memory = true;
      if (name == "size") size_column = column;
      if (name == "nattch") attached_column = column;
    }
    if (!shared_memory) return fail(ErrorKind::kMalformed, "sysvipc/shm");
    text = rest;
  } else if (!parse_i64(first)) {
    return fail(ErrorKind::kMalformed, "sysvipc/shm");
  }
  if (size_column) memory.bytes = 0;
  if (attached_column) memory.orphaned = 0;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    std::size_t column = 0;
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line), ++column) {
      const auto number = parse_u64(word);
      if (size_column == column && number) memory.bytes = saturating_add(*memory.bytes, *number);
      if (attached_column == column && number == 0U) ++*memory.orphaned;
    }
    if (column != 0) ++memory.segments;
  }
  return memory;
}

}  // namespace roce

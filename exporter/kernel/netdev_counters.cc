// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/netdev_counters.h"

#include <algorithm>
#include <optional>

#include "exporter/base/parse.h"

namespace roce {
namespace {

constexpr std::size_t kTransmitBytes = 8;  // column, counted from the colon; received bytes are the first

std::optional<std::uint64_t> column(std::string_view text, std::size_t number) {
  constexpr std::string_view kBlank = " \t\r";
  for (;;) {
    const auto begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return std::nullopt;
    text.remove_prefix(begin);
    const auto size = std::min(text.find_first_of(kBlank), text.size());
    if (number-- == 0) return parse_u64(text.substr(0, size));
    text.remove_prefix(size);
  }
}

}  // namespace

std::vector<NetdevCounters> parse_proc_net_dev(std::string_view text) {
  std::vector<NetdevCounters> all;
  while (!text.empty()) {
    const auto size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    const auto colon = line.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    const auto received = column(line.substr(colon + 1), 0);
    const auto sent = column(line.substr(colon + 1), kTransmitBytes);
    if (!name.empty() && received && sent) all.push_back({std::string(name), *received, *sent});
  }
  return all;
}

}  // namespace roce

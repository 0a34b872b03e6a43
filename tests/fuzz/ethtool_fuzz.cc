// SPDX-License-Identifier: Apache-2.0
//
// What ethtool prints and what its netlink family sends. Whatever comes in, the outcome is a value or an error; names
// are of their bounded sets, no standard statistic comes twice, and a driver's own statistics written out as text again
// read the same. A driver may give one name twice: the parser keeps both, for the collector to count.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/collectors/ethtool_names.h"
#include "exporter/kernel/ethtool_messages.h"
#include "tests/fuzz/require.h"

namespace {

bool is_word(std::string_view text) { return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == text.npos; }

void check(const roce::Result<std::vector<roce::NamedValue>>& result) {
  if (!result) {
    require(!result.error().object.empty());
    return;
  }
  std::set<std::string> names;
  for (const auto& statistic : *result) require(!statistic.name.empty() && names.insert(statistic.name).second);
}

void check(const roce::Result<roce::EthtoolLink>& link) {
  if (link) require(is_word(link->reason) && is_word(link->detail));
}

void check(const roce::Result<roce::EthtoolFec>& fec) {
  if (!fec) return;
  for (const auto* modes : {&fec->configured, &fec->active}) {
    require(modes->size() <= 6);
    for (const std::string& mode : *modes) require(!mode.empty() && is_word(mode));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const roce::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  check(roce::parse_ethtool_link(bytes));
  check(roce::parse_ethtool_link_json(text));
  check(roce::parse_ethtool_fec(bytes));
  check(roce::parse_ethtool_fec_json(text));
  check(roce::parse_ethtool_standard_statistics(bytes));
  check(roce::parse_ethtool_standard_statistics_json(text));
  (void)roce::parse_ethtool_pause(bytes);
  (void)roce::parse_ethtool_pause_json(text);
  const auto first = roce::parse_ethtool_statistics_text(text);
  if (!first) {
    require(!first.error().object.empty());
    return 0;
  }
  std::string again;
  for (const auto& statistic : *first) {
    require(!statistic.name.empty());
    (void)roce::is_queue_statistic(statistic.name);
    again += "     " + statistic.name + ": " + std::to_string(statistic.value) + "\n";
  }
  const auto second = roce::parse_ethtool_statistics_text(again);
  require(second.has_value() && second->size() == first->size());
  for (std::size_t i = 0; i < first->size(); ++i)
    require((*second)[i].name == (*first)[i].name && (*second)[i].value == (*first)[i].value);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Recorded counters, text and JSON. Whatever comes in, the outcome is a value or an error; no port has two lists, no
// list a name twice, and what is written out as text again reads the same.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/kernel/rdma_recorded.h"
#include "tests/fuzz/require.h"

namespace {

void check(const roce::Result<roce::RecordedStatistics>& result) {
  if (!result) {
    require(!result.error().object.empty());
    return;
  }
  std::set<std::pair<std::string, std::uint32_t>> ports;
  for (const auto& port : result->ports) {
    require(!port.device.empty() && port.port != 0);
    require(ports.emplace(port.device, port.port).second);
    std::set<std::string> names;
    for (const auto& counter : port.counters) require(names.insert(counter.name).second);
  }
  for (const auto& set : result->sets) require(!set.device.empty());
}

std::string as_text(const roce::RecordedStatistics& statistics) {
  std::string text;
  for (const auto& port : statistics.ports) {
    text += "link " + port.device + "/" + std::to_string(port.port);
    for (const auto& counter : port.counters) text += " " + counter.name + "\t" + std::to_string(counter.value);
    text += "\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check(roce::parse_rdma_statistic_json(input));
  const auto first = roce::parse_rdma_statistic_text(input);
  check(first);
  if (!first) return 0;
  const auto again = roce::parse_rdma_statistic_text(as_text(*first));
  require(again.has_value() && again->ports.size() == first->ports.size());
  for (std::size_t i = 0; i < again->ports.size(); ++i) {
    require(again->ports[i].device == first->ports[i].device && again->ports[i].port == first->ports[i].port);
    require(again->ports[i].counters.size() == first->ports[i].counters.size());
    for (std::size_t k = 0; k < again->ports[i].counters.size(); ++k) {
      require(again->ports[i].counters[k].name == first->ports[i].counters[k].name);
      require(again->ports[i].counters[k].value == first->ports[i].counters[k].value);
    }
  }
  return 0;
}

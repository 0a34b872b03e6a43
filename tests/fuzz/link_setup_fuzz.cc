// SPDX-License-Identifier: Apache-2.0
//
// What tells how a link is set up: the first byte chooses DCB netlink, a recorded dcb.json, a file of
// /proc/net/bonding, or /proc/net/dev; the rest is its content. Whatever comes in, a parser ends with a value or an
// error, and names are never empty.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "exporter/kernel/bonding.h"
#include "exporter/kernel/dcb_messages.h"
#include "exporter/kernel/dcb_recorded.h"
#include "exporter/kernel/netdev_counters.h"
#include "tests/fuzz/require.h"

namespace {

void require_bond(std::string_view text) {
  const auto bond = roce::parse_proc_bonding("bond0", text);
  if (!bond) return;
  require(!bond->mode.empty());
  for (const roce::BondMember& member : bond->members) {
    require(!member.name.empty());
    require(!bond->active(member).value_or(false) || *member.up);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const roce::Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      (void)roce::parse_dcb_state(bytes);
      break;
    case 1:
      (void)roce::parse_dcb_json(text);
      break;
    case 2:
      require_bond(text);
      break;
    default:
      for (const roce::NetdevCounters& counters : roce::parse_proc_net_dev(text)) require(!counters.name.empty());
      break;
  }
  return 0;
}

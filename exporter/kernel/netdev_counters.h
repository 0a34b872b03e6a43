// SPDX-License-Identifier: Apache-2.0
//
// /proc/net/dev: the traffic counters of all network devices of a namespace. A pure parser; takes any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roce {

struct NetdevCounters {
  std::string name;
  std::uint64_t receive_bytes = 0;
  std::uint64_t transmit_bytes = 0;
};

// Lines without a colon (the heading) and lines with too few or odd numbers are passed over. Of a name with a colon in
// it (an old alias) the last colon counts.
std::vector<NetdevCounters> parse_proc_net_dev(std::string_view text);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Which network device leads to an address. Behind an interface: the live kernel (rtnetlink) or the tables of a procfs
// tree. All calls are thread-safe. Errors: kAbsent where no route leads there or nobody has the address.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/result.h"
#include "exporter/kernel/call_tracker.h"

namespace roce {

struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // the first four of IPv4
  bool operator==(const IpAddress&) const = default;
};

// "192.0.2.1", "2001:db8::1"; brackets around and a zone ("%eth0") behind an IPv6 address are left out.
std::optional<IpAddress> parse_ip_address(std::string_view text);

class RouteSource {
 public:
  virtual ~RouteSource() = default;
  // Name of the network device by which packets to `target` leave, as the kernel would choose now.
  virtual Result<std::string> route(const IpAddress& target) = 0;
  // Name of the network device that has `own` as one of its addresses.
  virtual Result<std::string> owner(const IpAddress& own) = 0;
};

// Asks the kernel (RTM_GETROUTE, which takes no RTNL lock since Linux 4.14). Opens a socket for each question.
std::shared_ptr<RouteSource> open_route_netlink(std::shared_ptr<CallTracker> calls);

// Reads net/route, net/ipv6_route and net/if_inet6 below `procfs`, which know the main table alone. Read anew each
// time.
std::shared_ptr<RouteSource> open_route_tables(std::string procfs);

// The tables' texts: the device of the longest prefix that holds the address, nothing when none does. `connected`
// leaves out routes by a gateway and the default route, and gives nothing when several devices are in that network.
std::optional<std::string> find_ipv4_route(std::string_view table, const IpAddress& address, bool connected);
std::optional<std::string> find_ipv6_route(std::string_view table, const IpAddress& address);
std::optional<std::string> find_ipv6_owner(std::string_view table, const IpAddress& address);

}  // namespace roce

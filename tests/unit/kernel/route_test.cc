// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/route.h"

#include <gtest/gtest.h>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

IpAddress address(const char* text) { return parse_ip_address(text).value(); }

TEST(IpAddress, BothFamiliesBracketsAndZones) {
  EXPECT_FALSE(address("192.0.2.7").v6);
  EXPECT_EQ(address("192.0.2.7").bytes[3], 7);
  EXPECT_TRUE(address("2001:db8::7").v6);
  EXPECT_EQ(address("[2001:db8::7]"), address("2001:db8::7"));
  EXPECT_EQ(address("fe80::1%eth0"), address("fe80::1"));
  for (const char* text : {"", "host", "192.0.2", "192.0.2.256", "2001:db8::g", "%eth0"})
    EXPECT_FALSE(parse_ip_address(text).has_value()) << text;
}

// 192.0.2.0/24 by eth0, 192.0.2.128/25 by eth1, default by eth9 with two metrics, 198.51.100.0/24 forbidden.
constexpr const char* kTable =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "eth8\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    "eth9\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "eth1\t800200C0\t00000000\t0001\t0\t0\t0\t80FFFFFF\t0\t0\t0\n"
    "eth0\t006433C6\t010200C0\t0203\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "odd\tline\n";

TEST(Ipv4Routes, TheLongestPrefixWinsThenTheLowestMetric) {
  EXPECT_EQ(find_ipv4_route(kTable, address("192.0.2.5"), false), "eth0");
  EXPECT_EQ(find_ipv4_route(kTable, address("192.0.2.200"), false), "eth1");
  EXPECT_EQ(find_ipv4_route(kTable, address("203.0.113.1"), false), "eth9");
  EXPECT_EQ(find_ipv4_route(kTable, address("198.51.100.1"), false), std::nullopt);
  EXPECT_EQ(find_ipv4_route("", address("192.0.2.5"), false), std::nullopt);
}

TEST(Ipv4Routes, OwnAddressesLieInConnectedNetworks) {
  EXPECT_EQ(find_ipv4_route(kTable, address("192.0.2.129"), true), "eth1");
  EXPECT_EQ(find_ipv4_route(kTable, address("203.0.113.1"), true), std::nullopt);
}

constexpr const char* kTable6 =
    "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 "
    "00000001 00000000 00000001     eth0\n"
    "20010db8000000010000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 "
    "00000001 00000000 00000001     eth1\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff "
    "00000001 00000000 00200200       lo\n"
    "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 "
    "00000001 00000000 00000003     eth2\n";

TEST(Ipv6Routes, TheLongestPrefixWinsThenTheLowestMetric) {
  EXPECT_EQ(find_ipv6_route(kTable6, address("2001:db8::9")), "eth0");
  EXPECT_EQ(find_ipv6_route(kTable6, address("2001:db8:0:1::9")), "eth1");
  EXPECT_EQ(find_ipv6_route(kTable6, address("2001:db8:0:2::9")), "eth2");
  EXPECT_EQ(find_ipv6_route("zz\n", address("2001:db8::9")), std::nullopt);
}

TEST(Ipv6Routes, OwnAddresses) {
  const char* table =
      "fe800000000000000200ff00fe000001 02 40 20 80     eth0\n"
      "20010db8000000000000000000000011 03 40 00 80     eth1\nshort\n";
  EXPECT_EQ(find_ipv6_owner(table, address("2001:db8::11")), "eth1");
  EXPECT_EQ(find_ipv6_owner(table, address("2001:db8::12")), std::nullopt);
}

TEST(RouteTables, AreReadAnewEachTime) {
  TempTree tree;
  const auto routes = open_route_tables(tree.path("proc"));
  EXPECT_EQ(routes->route(address("192.0.2.5")).error().kind, ErrorKind::kAbsent);
  tree.write("proc/net/route", kTable);
  EXPECT_EQ(routes->route(address("192.0.2.5")).value(), "eth0");
  EXPECT_EQ(routes->owner(address("192.0.2.200")).value(), "eth1");
  tree.write("proc/net/route", "eth7\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n");
  EXPECT_EQ(routes->route(address("192.0.2.5")).value(), "eth7");
  EXPECT_EQ(routes->owner(address("203.0.113.1")).error().kind, ErrorKind::kAbsent);
}

// Every kernel that this program runs on answers for its own loopback addresses.
TEST(RouteNetlink, TheKernelKnowsLoopback) {
  const auto routes = open_route_netlink(std::make_shared<CallTracker>());
  const auto owner = routes->owner(address("127.0.0.1"));
  ASSERT_TRUE(owner.has_value()) << owner.error().message();
  EXPECT_EQ(*owner, "lo");
  EXPECT_EQ(routes->route(address("127.0.0.2")).value(), "lo");
  // An address of documentation is nobody's own.
  EXPECT_EQ(routes->owner(address("192.0.2.77")).error().kind, ErrorKind::kAbsent);
}

}  // namespace
}  // namespace roce

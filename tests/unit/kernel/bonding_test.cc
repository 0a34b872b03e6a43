// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/bonding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "exporter/kernel/netdev_counters.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

constexpr std::string_view kBackup =
    "Ethernet Channel Bonding Driver: v6.1.0-49-amd64\n\n"
    "Bonding Mode: fault-tolerance (active-backup) (fail_over_mac active)\n"
    "Primary Slave: eth8 (primary_reselect always)\n"
    "Currently Active Slave: eth8\n"
    "MII Status: up\n"
    "MII Polling Interval (ms): 100\nUp Delay (ms): 0\n\n"
    "Slave Interface: eth8\nMII Status: up\nSpeed: 200000 Mbps\nDuplex: full\nLink Failure Count: 1\n"
    "Permanent HW addr: 02:00:00:00:01:08\nSlave queue ID: 0\n\n"
    "Slave Interface: eth9\nMII Status: going back\nSpeed: Unknown\nDuplex: Unknown\nLink Failure Count: 4294967295\n";

// As the kernel shows it to those with CAP_NET_ADMIN: numbers of both ends of the link follow each member.
constexpr std::string_view kLacp =
    "Ethernet Channel Bonding Driver: v6.12.0\n\n"
    "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nTransmit Hash Policy: layer3+4 (1)\nMII Status: up\n\n"
    "802.3ad info\nLACP active: on\nLACP rate: fast\nMin links: 0\nSystem priority: 65535\n"
    "Active Aggregator Info:\n\tAggregator ID: 2\n\tNumber of ports: 1\n\tPartner Mac Address: 02:00:00:00:02:01\n\n"
    "Slave Interface: eth2\nMII Status: up\nSpeed: 100000 Mbps\nLink Failure Count: 0\nAggregator ID: 1\n"
    "Actor Churn State: churned\ndetails actor lacp pdu:\n    port state: 69\ndetails partner lacp pdu:\n"
    "    Aggregator ID: 7\n\n"
    "Slave Interface: eth3\nMII Status: up\nSpeed: 100000 Mbps\nLink Failure Count: 2\nAggregator ID: 2\n\n"
    "Slave Interface: eth4\nMII Status: up\nSpeed: 100000 Mbps\nLink Failure Count: 2\nAggregator ID: N/A\n";

TEST(ProcBonding, ActiveBackup) {
  const auto bond = parse_proc_bonding("bond0", kBackup);
  ASSERT_TRUE(bond) << bond.error().message();
  EXPECT_EQ(bond->name, "bond0");
  EXPECT_EQ(bond->mode, "active-backup");
  EXPECT_EQ(bond->in_use, "eth8");
  EXPECT_EQ(bond->transmit_hash, "");
  EXPECT_EQ(bond->up, true);
  ASSERT_EQ(bond->members.size(), 2U);
  EXPECT_EQ(bond->members[0].speed, 200000U);
  EXPECT_EQ(bond->active(bond->members[0]), true);
  EXPECT_EQ(bond->members[1].name, "eth9");
  EXPECT_EQ(bond->members[1].up, false);
  EXPECT_EQ(bond->members[1].speed, std::nullopt);
  EXPECT_EQ(bond->members[1].link_failures, 4294967295U);
}

TEST(ProcBonding, AMemberOutsideOfTheAggregatorInUseIsUpButNotActive) {
  const auto bond = parse_proc_bonding("bond1", kLacp);
  ASSERT_TRUE(bond);
  EXPECT_EQ(bond->mode, "802.3ad");
  EXPECT_EQ(bond->transmit_hash, "layer3+4");
  EXPECT_EQ(bond->active_aggregator, 2U);
  ASSERT_EQ(bond->members.size(), 3U);
  EXPECT_EQ(bond->members[0].aggregator, 1U);
  EXPECT_EQ(bond->members[0].up, true);
  EXPECT_EQ(bond->active(bond->members[0]), false);
  EXPECT_EQ(bond->active(bond->members[1]), true);
  EXPECT_EQ(bond->active(bond->members[2]), false);
}

TEST(ProcBonding, NoAggregatorInUseMeansNoActiveMember) {
  const auto bond = parse_proc_bonding(
      "bond1",
      "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\nMII Status: down\nbond bond1 has no active aggregator\n\n"
      "Slave Interface: eth2\nMII Status: up\nAggregator ID: N/A\n");
  ASSERT_TRUE(bond);
  EXPECT_EQ(bond->up, false);
  EXPECT_EQ(bond->active(bond->members[0]), false);
}

TEST(ProcBonding, ABondWithoutMembersAndOtherModes) {
  const auto bond = parse_proc_bonding("b", "Bonding Mode: load balancing (xor)\nCurrently Active Slave: None\n");
  ASSERT_TRUE(bond);
  EXPECT_EQ(bond->mode, "balance-xor");
  EXPECT_EQ(bond->in_use, "");
  EXPECT_TRUE(bond->members.empty());
  EXPECT_EQ(parse_proc_bonding("b", "Bonding Mode: of tomorrow\n")->mode, "of tomorrow");
}

TEST(ProcBonding, AnyBytesGiveAValueOrAnError) {
  for (const char* text :
       {"", "\n\n", "MII Status: up\n", "Slave Interface: eth0\n", "Bonding Mode: x\nSlave Interface:\n"})
    EXPECT_FALSE(parse_proc_bonding("b", text)) << text;
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string text(kLacp);
    text.resize(random() % text.size());
    for (int j = 0; j < 4 && !text.empty(); ++j) text[random() % text.size()] = static_cast<char>(random());
    (void)parse_proc_bonding("b", text);
  }
}

class BondsTest : public testing::Test {
 protected:
  TempTree tree_;
  const std::shared_ptr<const Host> host_ = tree_.host();
};

TEST_F(BondsTest, NoBondingIsNoError) {
  const Bonds bonds = read_bonds(*host_);
  EXPECT_TRUE(bonds.all.empty());
  EXPECT_FALSE(bonds.error);
}

TEST_F(BondsTest, OneBadFileLeavesTheOthers) {
  tree_.write("proc/net/bonding/bond0", std::string(kBackup));
  tree_.write("proc/net/bonding/bond1", "");
  const Bonds bonds = read_bonds(*host_);
  ASSERT_EQ(bonds.all.size(), 1U);
  EXPECT_EQ(bonds.all[0].name, "bond0");
  ASSERT_TRUE(bonds.error);
  EXPECT_EQ(bonds.error->kind, ErrorKind::kMalformed);
}

TEST_F(BondsTest, EachCallReadsAnew) {
  tree_.write("proc/net/bonding/bond0", std::string(kBackup));
  EXPECT_EQ(read_bonds(*host_).all[0].members[0].up, true);
  std::string text(kBackup);
  text.replace(text.find("MII Status: up\nSpeed"), 14, "MII Status: down");
  tree_.write("proc/net/bonding/bond0", text);
  EXPECT_EQ(read_bonds(*host_).all[0].members[0].up, false);
}

TEST_F(BondsTest, SysfsTellsTheAggregatorThatProcHides) {
  tree_.write("proc/net/bonding/bond1",
              "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n\nSlave Interface: eth2\nMII Status: up\n"
              "Aggregator ID: 1\n");
  tree_.write("sys/class/net/bond1/bonding/ad_aggregator", "2\n");
  const Bonds bonds = read_bonds(*host_);
  ASSERT_EQ(bonds.all.size(), 1U);
  EXPECT_EQ(bonds.all[0].active(bonds.all[0].members[0]), false);
}

TEST_F(BondsTest, SysfsStandsInForProc) {
  const std::string bond = "sys/class/net/bond0/";
  tree_.write(bond + "bonding/mode", "802.3ad 4\n");
  tree_.write(bond + "bonding/xmit_hash_policy", "layer2+3 2\n");
  tree_.write(bond + "bonding/mii_status", "up\n");
  tree_.write(bond + "bonding/slaves", "eth2 eth3\n");
  tree_.write(bond + "bonding/ad_aggregator", "1\n");
  tree_.write("sys/class/net/eth2/bonding_slave/mii_status", "up\n");
  tree_.write("sys/class/net/eth2/bonding_slave/link_failure_count", "5\n");
  tree_.write("sys/class/net/eth2/bonding_slave/ad_aggregator_id", "1\n");
  tree_.write("sys/class/net/eth2/speed", "100000\n");
  tree_.write("sys/class/net/eth3/operstate", "down\n");
  const Bonds bonds = read_bonds(*host_);
  EXPECT_FALSE(bonds.error);
  ASSERT_EQ(bonds.all.size(), 1U);
  const Bond& found = bonds.all[0];
  EXPECT_EQ(found.mode, "802.3ad");
  EXPECT_EQ(found.transmit_hash, "layer2+3");
  ASSERT_EQ(found.members.size(), 2U);
  EXPECT_EQ(found.active(found.members[0]), true);
  EXPECT_EQ(found.members[0].link_failures, 5U);
  EXPECT_EQ(found.members[0].speed, 100000U);
  EXPECT_EQ(found.active(found.members[1]), false);
  EXPECT_EQ(found.members[1].link_failures, std::nullopt);
}

TEST_F(BondsTest, LinksNameTheMembersToo) {
  tree_.write("sys/class/net/bond0/bonding/mode", "balance-rr 0\n");
  tree_.link("sys/class/net/bond0/lower_eth2", "../eth2");
  tree_.write("sys/class/net/eth2/mtu", "1500\n");
  const Bonds bonds = read_bonds(*host_);
  ASSERT_EQ(bonds.all.size(), 1U);
  ASSERT_EQ(bonds.all[0].members.size(), 1U);
  EXPECT_EQ(bonds.all[0].active(bonds.all[0].members[0]), std::nullopt);
}

TEST(ProcNetDev, CountersOfEachDevice) {
  const auto all = parse_proc_net_dev(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
      "compressed\n"
      "    lo:       1       1    0    0    0     0          0         0        2       1    0    0    0     0       0 "
      "         0\n"
      "eth1np0:18446744073709551615 10 0 0 0 0 0 0 42 20 0 0 0 0 0 0\n"
      "eth0:1: 3 10 0 0 0 0 0 0 4 20 0 0 0 0 0 0\n"
      "short: 1 2 3\nodd: x 10 0 0 0 0 0 0 42\n: 1 1 1 1 1 1 1 1 1\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].name, "eth1np0");
  EXPECT_EQ(all[1].receive_bytes, 18446744073709551615ULL);
  EXPECT_EQ(all[1].transmit_bytes, 42U);
  EXPECT_EQ(all[2].name, "eth0:1");
  EXPECT_TRUE(parse_proc_net_dev("").empty());
}

}  // namespace
}  // namespace roce

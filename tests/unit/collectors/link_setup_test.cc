// SPDX-License-Identifier: Apache-2.0
//
// The collectors of how the link below a port is set up: netdev, bond, dcb, congestion_control, sriov.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <string>

#include "exporter/collectors/collector.h"
#include "exporter/collectors/netdev.h"
#include "exporter/collectors/sriov.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeDcb : public DcbSource {
 public:
  Result<DcbState> state(const std::string& netdev) override {
    const auto at = states.find(netdev);
    if (at == states.end()) return fail(ErrorKind::kUnsupported, netdev);
    return at->second;
  }
  std::map<std::string, Result<DcbState>> states;
};

class LinkSetupTest : public testing::Test {
 protected:
  LinkSetupTest() : host_(std::make_shared<Host>(*tree_.host())) {}

  // An RDMA device on a PCI function with one network device.
  void add_device(const std::string& name, const std::string& pci, const std::string& netdev) {
    tree_.add_port(name);
    tree_.write("sys/class/infiniband/" + name + "/hca_type", "MT4129\n");
    const std::string function = "sys/devices/pci0000:00/" + pci;
    tree_.write(function + "/vendor", "0x15b3\n");
    tree_.write(function + "/infiniband/" + name + "/x", "");
    tree_.link("sys/class/infiniband/" + name + "/device", "../../../devices/pci0000:00/" + pci);
    if (netdev.empty()) return;
    tree_.link(function + "/net/" + netdev, "../../../../class/net/" + netdev);
    add_netdev(netdev, pci);
  }
  void add_netdev(const std::string& netdev, const std::string& pci) {
    tree_.write("sys/devices/pci0000:00/" + pci + "/vendor", "0x15b3\n");
    tree_.link("sys/class/net/" + netdev + "/device", "../../../devices/pci0000:00/" + pci);
  }

  // The page of one collector over all objects that it serves.
  std::string page(std::string_view collector) {
    for (const CollectorEntry& entry : collector_registry())
      if (entry.name == collector) return page(entry);
    ADD_FAILURE() << "no collector " << collector;
    return {};
  }

  std::string page(const CollectorEntry& entry) {
    Inventory inventory(host_, [](std::string_view) { return true; }, [](std::string_view) { return true; });
    DeviceList objects = inventory.refresh().value();
    objects.insert(objects.end(), inventory.others().begin(), inventory.others().end());
    outputs_.clear();
    error_.reset();
    std::vector<const SampleBatch*> batches;
    for (const auto& object : objects) {
      if (!serves(entry.scope, *object)) continue;
      // Collectors live on, so that a second page would show what one kept by mistake.
      auto& collector = collectors_[{std::string(entry.name), object->name}];
      if (!collector)
        collector = entry.create({host_, object, std::make_shared<PortStates>(), settings_});
      else
        collector->update(object);
      const auto result = collector->collect(outputs_.emplace_back());
      if (!result) error_ = result.error();
    }
    for (const Output& output : outputs_)
      for (const auto& part : output.parts) {
        EXPECT_EQ(part->samples.malformed(), 0U) << "a sample had not the labels of its metric";
        batches.push_back(&part->samples);
      }
    return render_text(batches);
  }

  TempTree tree_;
  std::shared_ptr<Host> host_;
  CollectorSettings settings_;
  std::optional<Error> error_;
  std::list<Output> outputs_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Collector>> collectors_;
};

constexpr std::string_view kEth2 = R"({device="mlx5_0",port="1",netdev="eth2")";

std::string series(std::string_view name, std::string_view more, std::string_view value) {
  return std::string(name) + std::string(kEth2) + std::string(more) + "} " + std::string(value) + "\n";
}

// ---- netdev ----

TEST(RocePathMtu, LargestThatFitsWithAllHeaders) {
  for (const auto& [netdev, path] : std::initializer_list<std::pair<std::uint64_t, unsigned>>{{0, 0},
                                                                                              {351, 0},
                                                                                              {352, 256},
                                                                                              {1500, 1024},
                                                                                              {2143, 1024},
                                                                                              {2144, 2048},
                                                                                              {4096, 2048},
                                                                                              {4191, 2048},
                                                                                              {4192, 4096},
                                                                                              {9000, 4096},
                                                                                              {65536, 4096}})
    EXPECT_EQ(roce_path_mtu(netdev), path) << netdev;
}

TEST_F(LinkSetupTest, MtuAndThePathMtuThatFollowAreReadAtEachRun) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  tree_.write("sys/class/net/eth2/mtu", "4200\n");
  tree_.write("sys/class/net/eth2/operstate", "up\n");
  tree_.write("sys/class/net/eth2/statistics/rx_bytes", "18446744073709551615\n");
  tree_.write("sys/class/net/eth2/statistics/tx_bytes", "7\n");
  std::string text = page("netdev");
  EXPECT_FALSE(error_) << error_->message();
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_mtu_bytes", "", "4200")));
  EXPECT_THAT(text, HasSubstr(series("roce_path_mtu_bytes", "", "4096")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_operational_state", "", "6")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_receive_bytes_total", "", "18446744073709551615")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_transmit_bytes_total", "", "7")));
  tree_.write("sys/class/net/eth2/mtu", "1500\n");
  tree_.write("sys/class/net/eth2/operstate", "lowerlayerdown\n");
  text = page("netdev");
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_mtu_bytes", "", "1500")));
  EXPECT_THAT(text, HasSubstr(series("roce_path_mtu_bytes", "", "1024")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_operational_state", "", "3")));
}

TEST_F(LinkSetupTest, NoPathMtuWherePortsSpeakNoRoce) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  add_netdev("eth9", "0000:5e:00.0");
  tree_.write("sys/class/net/eth2/mtu", "2044\n");
  tree_.write("sys/class/net/eth9/mtu", "9000\n");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  std::string text = page("netdev");
  EXPECT_THAT(text, HasSubstr("roce_netdev_mtu_bytes{device=\"\",port=\"\",netdev=\"eth9\"} 9000\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_path_mtu_bytes{")));
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
  tree_.write("sys/class/infiniband/mlx5_0/node_type", "4: RNIC\n");
  text = page("netdev");
  EXPECT_THAT(text, Not(HasSubstr("roce_path_mtu_bytes{")));
}

TEST_F(LinkSetupTest, OddNetdevFilesAreAbsentAndOnlyGarbageIsAFailure) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  std::string text = page("netdev");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, Not(HasSubstr("roce_netdev_")));
  tree_.write("sys/class/net/eth2/mtu", "\n");
  tree_.write("sys/class/net/eth2/operstate", "up\n");
  text = page("netdev");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, Not(HasSubstr("roce_netdev_mtu_bytes{")));
  tree_.write("sys/class/net/eth2/mtu", "15x0\n");
  text = page("netdev");
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->kind, ErrorKind::kMalformed);
  EXPECT_THAT(text, Not(HasSubstr("roce_netdev_mtu_bytes{")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_operational_state", "", "6")));
}

TEST_F(LinkSetupTest, ProcNamesTheOnlyNetworkDeviceOfATreeAndItsTraffic) {
  tree_.add_port("mlx5_0");
  tree_.write("proc/net/dev",
              "Inter-| Receive | Transmit\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
              "  eth2: 4711 10 0 0 0 0 0 0 815 20 0 0 0 0 0 0\n");
  const std::string text = page("netdev");
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_receive_bytes_total", "", "4711")));
  EXPECT_THAT(text, HasSubstr(series("roce_netdev_transmit_bytes_total", "", "815")));
  EXPECT_THAT(text, Not(HasSubstr("netdev=\"lo\"")));
}

// ---- bond ----

constexpr std::string_view kMembers =
    "Slave Interface: eth2\nMII Status: up\nSpeed: 100000 Mbps\nLink Failure Count: 3\n\n"
    "Slave Interface: eth3\nMII Status: %\nSpeed: Unknown\nLink Failure Count: 8\n";

std::string bonding(std::string_view mode, std::string_view second) {
  std::string text = "Bonding Mode: " + std::string(mode) + "\nCurrently Active Slave: eth2\nMII Status: up\n\n" +
                     std::string(kMembers);
  return text.replace(text.find('%'), 1, second);
}

TEST_F(LinkSetupTest, ABondOfOneCardBelongsToItsRdmaDevice) {
  add_device("mlx5_bond_0", "0000:3b:00.0", "eth2");
  add_netdev("eth3", "0000:3b:00.1");
  tree_.write("sys/class/net/bond0/bonding/slaves", "eth2 eth3\n");
  tree_.write("sys/class/net/bond0/mtu", "9000\n");
  tree_.write("sys/class/net/eth3/mtu", "9000\n");
  tree_.write("proc/net/bonding/bond0", bonding("fault-tolerance (active-backup)", "up"));
  std::string text = page("bond");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, HasSubstr("roce_bond_members{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_active_members{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond0\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_bond_member_up{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth3\",bond=\"bond0\"} 1\n"));
  EXPECT_THAT(
      text, HasSubstr("roce_bond_member_in_use{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth3\",bond=\"bond0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("netdev=\"bond0\",mode=\"active-backup\",transmit_hash=\"\"} 1\n"));
  tree_.write("proc/net/bonding/bond0", bonding("fault-tolerance (active-backup)", "down"));
  text = page("bond");
  EXPECT_THAT(text, HasSubstr("roce_bond_active_members{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_up{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond0\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_bond_member_active{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth3\",bond=\"bond0\"} "
                        "0\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_member_link_failures_total{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth3\","
                              "bond=\"bond0\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_member_speed_bytes_per_second{device=\"mlx5_bond_0\",port=\"1\","
                              "netdev=\"eth2\",bond=\"bond0\"} 12500000000\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_bond_member_speed_bytes_per_second{device=\"mlx5_bond_0\",port=\"1\","
                                  "netdev=\"eth3\"")));
  // The path MTU is the bond's.
  text = page("netdev");
  EXPECT_THAT(text, HasSubstr("roce_path_mtu_bytes{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond0\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("roce_netdev_mtu_bytes{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth3\"} 9000\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_path_mtu_bytes{device=\"mlx5_bond_0\",port=\"1\",netdev=\"eth")));
}

TEST_F(LinkSetupTest, ABondOverTwoRdmaDevicesBelongsToNeither) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  add_device("mlx5_1", "0000:5e:00.0", "eth3");
  tree_.write("sys/class/net/bond0/bonding/slaves", "eth2 eth3\n");
  tree_.write("proc/net/bonding/bond0", bonding("IEEE 802.3ad Dynamic link aggregation", "going down"));
  const std::string text = page("bond");
  EXPECT_THAT(text, HasSubstr("roce_bond_active_members{device=\"\",port=\"\",netdev=\"bond0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_member_up{device=\"mlx5_0\",port=\"1\",netdev=\"eth2\",bond=\"bond0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_bond_member_up{device=\"mlx5_1\",port=\"1\",netdev=\"eth3\",bond=\"bond0\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_bond_member_in_use{")));
}

TEST_F(LinkSetupTest, TheOneBondOfATreeBelongsToItsOneDevice) {
  tree_.add_port("mlx5_bond_0");
  tree_.write("proc/net/bonding/bond1", bonding("fault-tolerance (active-backup)", "down"));
  EXPECT_THAT(page("bond"),
              HasSubstr("roce_bond_active_members{device=\"mlx5_bond_0\",port=\"1\",netdev=\"bond1\"} 1\n"));
  // With a second bond nothing tells which one it is.
  tree_.write("proc/net/bonding/bond2", bonding("fault-tolerance (active-backup)", "down"));
  EXPECT_THAT(page("bond"), HasSubstr("roce_bond_active_members{device=\"\",port=\"\",netdev=\"bond1\"} 1\n"));
}

TEST_F(LinkSetupTest, WithoutTheStateOfAMemberTheSumIsNotKnown) {
  tree_.write("proc/net/bonding/bond0", "Bonding Mode: load balancing (xor)\n\nSlave Interface: eth2\n");
  const std::string text = page("bond");
  EXPECT_THAT(text, HasSubstr("roce_bond_members{device=\"\",port=\"\",netdev=\"bond0\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_bond_active_members{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_bond_up{")));
}

// ---- dcb ----

DcbState lossless(std::uint8_t mask) {
  DcbState state;
  DcbPfc& pfc = state.pfc.emplace();
  pfc.enabled = mask;
  pfc.capable = 8;
  pfc.delay = 7;
  pfc.sent = {0, 0, 0, 41, 0, 0, 0, 0};
  pfc.received = {0, 0, 0, 0, 0, 18446744073709551615ULL, 0, 0};
  return state;
}

class DcbTest : public LinkSetupTest {
 protected:
  DcbTest() {
    add_device("mlx5_0", "0000:3b:00.0", "eth2");
    host_->dcb = dcb_;
  }
  void driver(const std::string& name) {
    tree_.link("sys/devices/pci0000:00/0000:3b:00.0/driver", "../../../bus/pci/drivers/" + name);
  }
  std::shared_ptr<FakeDcb> dcb_ = std::make_shared<FakeDcb>();
};

TEST_F(DcbTest, FlowControlIsToldPriorityByPriorityAndReadAtEachRun) {
  dcb_->states.insert_or_assign("eth2", lossless(0x08));
  std::string text = page("dcb");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_enabled", ",priority=\"3\"", "1")));
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_enabled", ",priority=\"5\"", "0")));
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_priorities_limit", "", "8")));
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_delay", "", "7")));
  dcb_->states.insert_or_assign("eth2", lossless(0x20));
  text = page("dcb");
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_enabled", ",priority=\"3\"", "0")));
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_enabled", ",priority=\"5\"", "1")));
}

TEST_F(DcbTest, PauseFramesAreThoseOfPrioritiesInUse) {
  driver("qede");
  dcb_->states.insert_or_assign("eth2", lossless(0x10));
  const std::string text = page("dcb");
  const auto frames = [](std::string_view priority, std::string_view direction, std::string_view value) {
    return series("roce_dcb_pfc_frames_total",
                  ",priority=\"" + std::string(priority) + "\",direction=\"" + std::string(direction) + "\"", value);
  };
  EXPECT_THAT(text, HasSubstr(frames("3", "transmit", "41")));
  EXPECT_THAT(text, HasSubstr(frames("3", "receive", "0")));
  EXPECT_THAT(text, HasSubstr(frames("4", "transmit", "0")));
  EXPECT_THAT(text, HasSubstr(frames("5", "receive", "18446744073709551615")));
  EXPECT_THAT(text, Not(HasSubstr("priority=\"2\",direction")));
}

TEST_F(DcbTest, PauseFramesThatEthtoolTellsHaveOneName) {
  dcb_->states.insert_or_assign("eth2", lossless(0x08));
  EXPECT_THAT(page("dcb"), Not(HasSubstr("roce_dcb_pfc_frames_total{")));  // known by the RDMA device alone
  for (const char* name : {"mlx5_core", "mlx5_core.sf", "bnxt_en", "ice", "hns3"}) {
    driver(name);
    const std::string text = page("dcb");
    EXPECT_THAT(text, HasSubstr("roce_pfc_enabled{")) << name;
    EXPECT_THAT(text, Not(HasSubstr("roce_dcb_pfc_frames_total{"))) << name;
    tree_.remove("sys/devices/pci0000:00/0000:3b:00.0/driver");
  }
}

TEST_F(DcbTest, TrafficClassesBuffersAndRates) {
  DcbState state = lossless(0x08);
  DcbEts& ets = state.ets.emplace();
  ets.willing = true;
  ets.traffic_class = {0, 0, 0, 1, 0, 0, 7, 9};
  ets.algorithm = {DcbAlgorithm::kEts,    DcbAlgorithm::kEts,    DcbAlgorithm::kEts,    DcbAlgorithm::kEts,
                   DcbAlgorithm::kStrict, DcbAlgorithm::kStrict, DcbAlgorithm::kStrict, DcbAlgorithm::kVendor};
  ets.bandwidth = {25, 75, 0, 0, 0, 0, 0, 0};
  state.max_rate = {0, 12500000000, 0, 0, 0, 0, 0, 0};
  DcbBuffers& buffers = state.buffers.emplace();
  buffers.of_priority = {0, 0, 0, 1, 0, 0, 0, 0};
  buffers.size = {4096, 65472, 0, 0, 0, 0, 0, 0};
  buffers.total = 262016;
  state.dcbx = kDcbxFirmware | kDcbxIeee | kDcbxCee;
  dcb_->states.insert_or_assign("eth2", state);
  std::string text = page("dcb");
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_willing", "", "1")));
  EXPECT_THAT(text, HasSubstr(series("roce_ets_traffic_class", ",priority=\"3\"", "1")));
  EXPECT_THAT(text, HasSubstr(series("roce_ets_info", ",traffic_class=\"1\",algorithm=\"ets\"", "1")));
  EXPECT_THAT(text, HasSubstr(series("roce_ets_info", ",traffic_class=\"7\",algorithm=\"vendor\"", "1")));
  EXPECT_THAT(text, Not(HasSubstr("traffic_class=\"2\"")));
  EXPECT_THAT(text, HasSubstr(series("roce_ets_bandwidth_ratio", ",traffic_class=\"1\"", "0.75")));
  EXPECT_THAT(
      text, Not(HasSubstr("roce_ets_bandwidth_ratio{device=\"mlx5_0\",port=\"1\",netdev=\"eth2\",traffic_class=\"7")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_max_rate_bytes_per_second", ",traffic_class=\"1\"", "12500000000")));
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_buffer_bytes", ",priority=\"3\"", "65472")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_buffer_bytes", ",buffer=\"0\"", "4096")));
  EXPECT_THAT(text, Not(HasSubstr("buffer=\"2\"")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_buffer_space_bytes", "", "262016")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcbx_info", ",managed_by=\"firmware\",version=\"both\"", "1")));
  // A lossless priority whose buffer has no size is 0, not absent.
  (*state.buffers->of_priority)[3] = 5;
  dcb_->states.insert_or_assign("eth2", state);
  text = page("dcb");
  EXPECT_THAT(text, HasSubstr(series("roce_pfc_buffer_bytes", ",priority=\"3\"", "0")));
}

TEST_F(DcbTest, TheDscpMapIsToldWhereItMatters) {
  driver("bnxt_en");
  DcbState state = lossless(0x08);
  auto& apps = state.apps.emplace();
  for (unsigned dscp = 0; dscp < 64; ++dscp)
    apps.push_back({DcbSelector::kDscp, static_cast<std::uint8_t>(dscp / 8), static_cast<std::uint16_t>(dscp)});
  apps.push_back({DcbSelector::kDscp, 6, 10});  // twice: the higher counts
  apps.push_back({DcbSelector::kDscp, 3, 64});  // no DSCP
  apps.push_back({DcbSelector::kDscp, 9, 11});  // no priority
  apps.push_back({DcbSelector::kEtherType, 2, 0});
  apps.push_back({DcbSelector::kDatagramPort, 3, 4791});
  dcb_->states.insert_or_assign("eth2", state);
  std::string text = page("dcb");
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_entries", "", "64")));
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_priority", ",dscp=\"26\"", "3")));
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_priority", ",dscp=\"31\"", "3")));
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_priority", ",dscp=\"48\"", "6")));
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_priority", ",dscp=\"10\"", "6")));
  EXPECT_THAT(text, Not(HasSubstr("dscp=\"11\"")));
  EXPECT_THAT(text, Not(HasSubstr("dscp=\"32\"")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_app_priority", ",application=\"default\"", "2")));
  EXPECT_THAT(text, HasSubstr(series("roce_dcb_app_priority", ",application=\"roce_v2\"", "3")));
  EXPECT_THAT(text, Not(HasSubstr("roce_dcb_trust_info{")));
  // What drifts stays there to be seen.
  apps.clear();
  apps.push_back({DcbSelector::kDscp, 0, 26});
  dcb_->states.insert_or_assign("eth2", state);
  text = page("dcb");
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_priority", ",dscp=\"26\"", "0")));
  EXPECT_THAT(text, HasSubstr(series("roce_dscp_entries", "", "1")));
}

TEST_F(DcbTest, TrustIsWhatTheDriverSaysOrItsMapShows) {
  DcbState state;
  state.trust = {DcbSelector::kDscp, DcbSelector::kPcp};
  dcb_->states.insert_or_assign("eth2", state);
  EXPECT_THAT(page("dcb"), HasSubstr(series("roce_dcb_trust_info", ",trust=\"dscp,pcp\"", "1")));
  state.trust->clear();
  dcb_->states.insert_or_assign("eth2", state);
  EXPECT_THAT(page("dcb"), HasSubstr(series("roce_dcb_trust_info", ",trust=\"none\"", "1")));
  driver("mlx5_core");
  state.trust.reset();
  state.apps.emplace();
  dcb_->states.insert_or_assign("eth2", state);
  EXPECT_THAT(page("dcb"), HasSubstr(series("roce_dcb_trust_info", ",trust=\"pcp\"", "1")));
  state.apps->push_back({DcbSelector::kDscp, 0, 0});
  dcb_->states.insert_or_assign("eth2", state);
  EXPECT_THAT(page("dcb"), HasSubstr(series("roce_dcb_trust_info", ",trust=\"dscp\"", "1")));
  tree_.write("sys/class/net/eth2/qos/trust", "pcp\n");
  EXPECT_THAT(page("dcb"), HasSubstr(series("roce_dcb_trust_info", ",trust=\"pcp\"", "1")));
}

TEST_F(DcbTest, ADriverWithoutBridgingIsNoFailureAndARefusalIs) {
  EXPECT_EQ(page("dcb"), "");
  EXPECT_FALSE(error_);
  dcb_->states.insert_or_assign("eth2", fail(ErrorKind::kNotRecorded, "netdev/eth2/dcb.json"));
  EXPECT_EQ(page("dcb"), "");
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->kind, ErrorKind::kNotRecorded);
  dcb_->states.insert_or_assign("eth2", fail(ErrorKind::kTimeout, "eth2"));
  page("dcb");
  EXPECT_EQ(error_->kind, ErrorKind::kTimeout);
  host_->dcb.reset();
  EXPECT_EQ(page("dcb"), "");
  EXPECT_FALSE(error_);
}

// ---- congestion_control ----

TEST_F(LinkSetupTest, EcnOfTheVendorsPackage) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  const std::string ecn = "sys/class/net/eth2/ecn/";
  for (char priority = '0'; priority <= '7'; ++priority) {
    tree_.write(ecn + "roce_np/enable/" + priority, priority == '6' ? "1\n" : "0\n");
    tree_.write(ecn + "roce_rp/enable/" + priority, priority == '3' ? "1\n" : "0\n");
  }
  tree_.write(ecn + "roce_np/cnp_dscp", "48\n");
  tree_.write(ecn + "roce_rp/rpg_ai_rate", "5\n");
  tree_.write(ecn + "roce_rp/unknown", "5\n");
  // The firmware is not asked again for what is known.
  tree_.write("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/rp_max_rate", "9\n");
  std::string text = page("congestion_control");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, HasSubstr(series("roce_ecn_enabled", ",point=\"notification\",priority=\"\"", "1")));
  EXPECT_THAT(text, Not(HasSubstr("point=\"notification\",priority=\"3\"")));
  EXPECT_THAT(text, HasSubstr(series("roce_ecn_enabled", ",point=\"reaction\",priority=\"3\"", "1")));
  EXPECT_THAT(text, HasSubstr(series("roce_ecn_enabled", ",point=\"reaction\",priority=\"0\"", "0")));
  EXPECT_THAT(text, HasSubstr(series("roce_congestion_parameter", ",parameter=\"np_cnp_dscp\"", "48")));
  EXPECT_THAT(text, HasSubstr(series("roce_congestion_parameter", ",parameter=\"rp_ai_rate\"", "5")));
  EXPECT_THAT(text, Not(HasSubstr("rp_max_rate")));
  tree_.write(ecn + "roce_rp/enable/3", "0\n");
  tree_.write(ecn + "roce_np/enable/6", "0\n");
  text = page("congestion_control");
  EXPECT_THAT(text, HasSubstr(series("roce_ecn_enabled", ",point=\"notification\",priority=\"\"", "0")));
  EXPECT_THAT(text, HasSubstr(series("roce_ecn_enabled", ",point=\"reaction\",priority=\"3\"", "0")));
}

TEST_F(LinkSetupTest, ParametersOfTheMainlineDriver) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  const std::string dir = "sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/";
  EXPECT_EQ(page("congestion_control"), "");
  EXPECT_FALSE(error_);
  tree_.write(dir + "np_cnp_dscp", "48\n");
  tree_.write(dir + "rp_max_rate", "18446744073709551615\n");
  tree_.write(dir + "rp_gd", "x1\n");
  tree_.write(dir + "of_tomorrow", "1\n");
  const std::string text = page("congestion_control");
  EXPECT_THAT(text, HasSubstr(series("roce_congestion_parameter", ",parameter=\"np_cnp_dscp\"", "48")));
  EXPECT_THAT(text,
              HasSubstr(series("roce_congestion_parameter", ",parameter=\"rp_max_rate\"", "18446744073709551615")));
  EXPECT_THAT(text, Not(HasSubstr("rp_gd")));
  EXPECT_THAT(text, Not(HasSubstr("of_tomorrow")));
  ASSERT_TRUE(error_);
  EXPECT_EQ(error_->kind, ErrorKind::kMalformed);
}

TEST_F(LinkSetupTest, AFunctionWithoutNetworkDeviceHasParametersToo) {
  add_device("mlx5_0", "0000:3b:00.0", "");
  tree_.write("sys/kernel/debug/mlx5/0000:3b:00.0/cc_params/rp_gd", "11\n");
  EXPECT_THAT(
      page("congestion_control"),
      HasSubstr("roce_congestion_parameter{device=\"mlx5_0\",port=\"1\",netdev=\"\",parameter=\"rp_gd\"} 11\n"));
}

TEST_F(LinkSetupTest, DefaultsOfTheConnectionManagerWhereSomebodySetThemUp) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  const std::string dir = "sys/kernel/config/rdma_cm/mlx5_0/ports/1/";
  EXPECT_EQ(page("congestion_control"), "");
  EXPECT_FALSE(std::filesystem::exists(tree_.path("sys/kernel/config")));
  tree_.write(dir + "default_roce_tos", "106\n");
  tree_.write(dir + "default_roce_mode", "RoCE v2\n");
  tree_.write("sys/class/infiniband/mlx5_0/tc/1/traffic_class", "Global tclass=104\ntclass=96 src=192.0.2.1/32\n");
  std::string text = page("congestion_control");
  EXPECT_THAT(text, HasSubstr("roce_default_tos{device=\"mlx5_0\",port=\"1\"} 106\n"));
  EXPECT_THAT(text, HasSubstr("roce_default_mode_info{device=\"mlx5_0\",port=\"1\",mode=\"RoCE v2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_forced_traffic_class{device=\"mlx5_0\",port=\"1\"} 104\n"));
  for (const char* odd : {"tclass= src=192.0.2.1/32\nx", "300\n", "Global tclass=\n", "no\n"}) {
    tree_.write("sys/class/infiniband/mlx5_0/tc/1/traffic_class", odd);
    EXPECT_THAT(page("congestion_control"), Not(HasSubstr("roce_forced_traffic_class{"))) << odd;
  }
}

// ---- sriov ----

TEST(RepresentorName, FunctionsAreUplinksAreNot) {
  for (const char* name : {"pf0", "pf0vf3", "pf1vf127", "pf0sf88", "c1pf0vf0", "c2pf1"})
    EXPECT_TRUE(is_representor_name(name)) << name;
  for (const char* name : {"", "p0", "p1", "pf", "pfvf1", "pf0vf", "pf0vf3x", "c1", "cpf0", "pf0vfsf1", "0"})
    EXPECT_FALSE(is_representor_name(name)) << name;
}

TEST_F(LinkSetupTest, VirtualFunctionsAndTheirPhysicalOne) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  add_device("mlx5_2", "0000:3b:00.2", "");
  add_device("mlx5_3", "0000:3b:01.1", "");
  const std::string pf = "sys/devices/pci0000:00/0000:3b:00.0/";
  tree_.write(pf + "sriov_totalvfs", "127\n");
  tree_.write(pf + "sriov_numvfs", "2\n");
  tree_.link(pf + "virtfn0", "../0000:3b:00.2");
  tree_.link(pf + "virtfn7", "../0000:3b:01.1");
  tree_.link("sys/devices/pci0000:00/0000:3b:00.2/physfn", "../0000:3b:00.0");
  tree_.link("sys/devices/pci0000:00/0000:3b:01.1/physfn", "../0000:3b:00.0");
  std::string text = page("sriov");
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, HasSubstr("roce_device_virtual_functions{device=\"mlx5_0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_device_virtual_functions_limit{device=\"mlx5_0\"} 127\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_device_virtual_functions{device=\"mlx5_2\"")));
  const auto info = [](std::string_view device, std::string_view index) {
    return "roce_device_virtual_function_info{device=\"" + std::string(device) +
           "\",physical_device=\"mlx5_0\",physical_pci_address=\"0000:3b:00.0\",index=\"" + std::string(index) +
           "\"} 1\n";
  };
  EXPECT_THAT(text, HasSubstr(info("mlx5_2", "0")));
  EXPECT_THAT(text, HasSubstr(info("mlx5_3", "7")));
  // The kernel's own numbers agree with the links and save the search.
  tree_.write(pf + "sriov_offset", "2\n");
  tree_.write(pf + "sriov_stride", "1\n");
  tree_.remove(pf + "virtfn0");
  tree_.write(pf + "sriov_numvfs", "1\n");
  text = page("sriov");
  EXPECT_THAT(text, HasSubstr(info("mlx5_2", "0")));
  EXPECT_THAT(text, HasSubstr(info("mlx5_3", "7")));
  EXPECT_THAT(text, HasSubstr("roce_device_virtual_functions{device=\"mlx5_0\"} 1\n"));
}

TEST_F(LinkSetupTest, RepresentorsAreToldAndAreNoPortsOfTheirOwn) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  for (const char* netdev : {"rep0", "rep1"}) {
    add_netdev(netdev, "0000:3b:00.0");
    tree_.link("sys/devices/pci0000:00/0000:3b:00.0/net/" + std::string(netdev),
               "../../../../class/net/" + std::string(netdev));
    tree_.write("sys/class/net/" + std::string(netdev) + "/dev_port", "1\n");
    tree_.write("sys/class/net/" + std::string(netdev) + "/mtu", "1500\n");
  }
  tree_.write("sys/class/net/eth2/dev_port", "0\n");
  EXPECT_THAT(page("sriov"), Not(HasSubstr("roce_device_representors{")));
  tree_.write("sys/class/net/eth2/phys_switch_id", "000000fffe010203\n");
  tree_.write("sys/class/net/eth2/phys_port_name", "p0\n");
  EXPECT_THAT(page("sriov"), HasSubstr("roce_device_representors{device=\"mlx5_0\"} 2\n"));
  EXPECT_THAT(page("sriov"),
              HasSubstr(series("roce_switchdev_info", ",port_name=\"p0\",switch_id=\"000000fffe010203\"", "1")));
  EXPECT_THAT(page("netdev"), Not(HasSubstr("netdev=\"rep")));
  collectors_.clear();
  settings_.hide_identity = true;
  EXPECT_THAT(page("sriov"), HasSubstr(series("roce_switchdev_info", ",port_name=\"p0\",switch_id=\"\"", "1")));
}

TEST_F(LinkSetupTest, APortOfARepresentorIsMarked) {
  add_device("mlx5_0", "0000:3b:00.0", "");
  tree_.add_port("mlx5_0", 2);
  tree_.write("sys/class/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0", "rep0\n");
  tree_.write("sys/class/net/rep0/phys_port_name", "pf0vf3\n");
  const std::string text = page("sriov");
  EXPECT_THAT(
      text,
      HasSubstr("roce_port_representor_info{device=\"mlx5_0\",port=\"2\",netdev=\"rep0\",function=\"pf0vf3\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_switchdev_info{")));
}

TEST_F(LinkSetupTest, LinkAggregationInsideTheCard) {
  add_device("mlx5_0", "0000:3b:00.0", "eth2");
  const std::string dir = "sys/kernel/debug/mlx5/0000:3b:00.0/lag/";
  tree_.write(dir + "state", "active\n");
  tree_.write(dir + "type", "roce\n");
  tree_.write(dir + "port_sel_mode", "hash\n");
  EXPECT_THAT(page("sriov"),
              HasSubstr(series("roce_lag_info", ",type=\"roce\",state=\"active\",port_selection=\"hash\"", "1")));
}

}  // namespace
}  // namespace roce

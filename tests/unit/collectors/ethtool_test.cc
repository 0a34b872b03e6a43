// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/ethtool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/ethtool_names.h"
#include "exporter/collectors/link.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class FakeEthtool : public EthtoolSource {
 public:
  Result<std::vector<NamedValue>> statistics(const std::string& netdev) override {
    ++asked;
    if (const auto found = of_netdev.find(netdev); found != of_netdev.end()) return found->second;
    return fail(ErrorKind::kUnsupported, netdev);
  }
  Result<std::string> driver(const std::string& netdev) override {
    if (driver_name.empty()) return fail(ErrorKind::kNotRecorded, netdev);
    return driver_name;
  }
  Result<EthtoolLink> link(const std::string&, bool statistics) override {
    ++links;
    auto answer = link_state;
    if (answer && !statistics) answer->down_events.reset();
    return answer;
  }
  Result<EthtoolPause> pause(const std::string&) override { return pause_state; }
  Result<EthtoolFec> fec(const std::string&) override { return fec_state; }
  Result<std::vector<NamedValue>> standard_statistics(const std::string&) override {
    ++standard_asked;
    return standard;
  }

  std::map<std::string, Result<std::vector<NamedValue>>> of_netdev;
  std::string driver_name;
  Result<EthtoolLink> link_state = fail(ErrorKind::kUnsupported, "link");
  Result<EthtoolPause> pause_state = fail(ErrorKind::kUnsupported, "pause");
  Result<EthtoolFec> fec_state = fail(ErrorKind::kUnsupported, "fec");
  Result<std::vector<NamedValue>> standard = fail(ErrorKind::kUnsupported, "stats");
  int asked = 0;
  int links = 0;
  int standard_asked = 0;
};

class EthtoolTest : public testing::Test {
 protected:
  EthtoolTest() {
    host_ = std::make_shared<Host>(*tree_.host());
    host_->ethtool = ethtool_;
    device_.name = "mlx5_0";
    device_.driver = "mlx5";
    add_netdev("eth0");
  }

  InventoryNetdev& add_netdev(const std::string& name, const std::string& driver = "mlx5_core") {
    InventoryNetdev netdev;
    netdev.name = name;
    netdev.device = device_.name;
    netdev.port = "1";
    netdev.path = tree_.path("sys/class/net/" + name);
    netdev.driver = driver;
    device_.netdevs.push_back(std::move(netdev));
    return device_.netdevs.back();
  }
  void make_orphan() {
    device_.kind = ObjectKind::kNetdev;
    device_.name = "eth0";
    device_.driver.clear();
    device_.netdevs.front().device.clear();
    device_.netdevs.front().port.clear();
  }
  void give(std::vector<NamedValue> statistics, const std::string& netdev = "eth0") {
    ethtool_->of_netdev.insert_or_assign(netdev, std::move(statistics));
  }

  CollectorContext context() {
    return {host_, std::make_shared<InventoryDevice>(device_), std::make_shared<PortStates>(), settings_};
  }
  std::string page(Collector& collector) {
    Output out;
    const auto result = collector.collect(out);
    error_ = result ? std::string() : std::string(to_string(result.error().kind)) + " " + result.error().message();
    output_ = out;
    std::vector<const SampleBatch*> batches;
    for (const auto& part : output_.parts) {
      batches.push_back(&part->samples);
      EXPECT_EQ(part->samples.malformed(), 0U);
    }
    return render_text(batches);
  }
  std::string ethtool_page() { return page(*make_ethtool_collector(context())); }
  std::string link_page() { return page(*make_link_collector(context())); }

  TempTree tree_;
  std::shared_ptr<FakeEthtool> ethtool_ = std::make_shared<FakeEthtool>();
  std::shared_ptr<Host> host_;
  InventoryDevice device_;
  CollectorSettings settings_;
  std::string error_;
  Output output_;
};

constexpr const char* kPfc = "{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",priority=\"3\",direction=\"receive\"";

TEST_F(EthtoolTest, PfcHasItsPriorityAndItsTimeInSeconds) {
  give({{"rx_prio3_pause", 7}, {"rx_prio3_pause_duration", 1500000}, {"rx_prio3_pause_transition", 2}});
  const std::string text = ethtool_page();
  EXPECT_THAT(text, HasSubstr(std::string("roce_pfc_frames_total") + kPfc + ",frame=\"any\"} 7\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pfc_pause_seconds_total") + kPfc + "} 1.5\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pfc_transitions_total") + kPfc + "} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_source_present{device=\"mlx5_0\",port=\"1\",source=\"pfc\"} 1\n"));
}

// The same facts of other cards are the same families.
TEST_F(EthtoolTest, OneFamilyHoldsOnEveryCard) {
  struct Card {
    const char* driver;
    std::vector<NamedValue> statistics;
    const char* frame;
  };
  for (const Card& card :
       {Card{"bnxt_en", {{"rx_pfc_ena_frames_pri3", 5}}, "any"}, Card{"ice", {{"rx_priority_3_xoff.nic", 5}}, "xoff"},
        Card{"hns3", {{"mac_rx_pfc_pri3_pkt_num", 5}}, "any"}}) {
    device_.netdevs.front().driver = card.driver;
    give(card.statistics);
    EXPECT_THAT(ethtool_page(),
                HasSubstr(std::string("roce_pfc_frames_total") + kPfc + ",frame=\"" + card.frame + "\"} 5\n"));
  }
}

TEST_F(EthtoolTest, ASecondReadShowsTheSecondValues) {
  give({{"rx_prio3_pause", 7}, {"tx_bytes_phy", 100}});
  const auto collector = make_ethtool_collector(context());
  EXPECT_THAT(page(*collector), HasSubstr("} 7\n"));
  give({{"rx_prio3_pause", 8}, {"tx_bytes_phy", 250}});
  const std::string text = page(*collector);
  EXPECT_THAT(text, AllOf(HasSubstr("} 8\n"), HasSubstr("} 250\n"), Not(HasSubstr("} 7\n"))));
  EXPECT_EQ(ethtool_->asked, 2);
}

TEST_F(EthtoolTest, ANameOfSeveralValuesIsToldAndShownOnce) {
  give({{"rx_prio3_pause", 7}, {"tx_bytes_phy", 1}, {"rx_prio3_pause", 9}, {"rx_prio3_pause", 9}});
  const auto collector = make_ethtool_collector(context());
  for (int read = 0; read < 2; ++read) {  // the second with the names known
    const std::string text = page(*collector);
    EXPECT_THAT(text, HasSubstr(std::string("roce_pfc_frames_total") + kPfc + ",frame=\"any\"} 7\n"));
    EXPECT_THAT(text, Not(HasSubstr("} 9\n")));
    EXPECT_THAT(text, HasSubstr("roce_netdev_statistic_values{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",counter="
                                "\"rx_prio3_pause\"} 3\n"));
    EXPECT_THAT(text, Not(HasSubstr("counter=\"tx_bytes_phy\"")));
  }
  give({{"rx_prio3_pause", 7}, {"tx_bytes_phy", 1}});
  EXPECT_THAT(page(*collector), Not(HasSubstr("roce_netdev_statistic_values{")));
}

TEST_F(EthtoolTest, AListThatChangesGivesEachNameItsValue) {
  give({{"rx_prio3_pause", 7}, {"tx_bytes_phy", 100}});
  const auto collector = make_ethtool_collector(context());
  page(*collector);
  give({{"rx_prio4_pause", 9}, {"tx_bytes_phy", 101}, {"rx_bytes_phy", 11}});
  const std::string text = page(*collector);
  EXPECT_THAT(text, AllOf(HasSubstr("priority=\"4\""), Not(HasSubstr("priority=\"3\""))));
  EXPECT_THAT(text, HasSubstr("netdev=\"eth0\",direction=\"transmit\"} 101\n"));
  EXPECT_THAT(text, HasSubstr("netdev=\"eth0\",direction=\"receive\"} 11\n"));
}

TEST_F(EthtoolTest, WithoutPfcStatisticsNothingSaysThatThereIsNoPause) {
  give({{"rx_vport_rdma_unicast_bytes", 12}});
  std::string text = ethtool_page();
  EXPECT_THAT(text, Not(HasSubstr("roce_pfc_")));
  EXPECT_THAT(text, HasSubstr("roce_source_present{device=\"mlx5_0\",port=\"1\",source=\"pfc\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("source=\"physical_port\"} 0\n"));
  ethtool_->of_netdev.clear();  // a device without any statistics
  text = ethtool_page();
  EXPECT_THAT(text, HasSubstr("source=\"pfc\"} 0\n"));
  EXPECT_EQ(error_, "");
}

TEST_F(EthtoolTest, WhatCouldNotBeReadSaysNothingOfWhatIsThere) {
  ethtool_->of_netdev.insert_or_assign("eth0", fail_errno(EIO, "eth0"));
  EXPECT_THAT(ethtool_page(), Not(HasSubstr("roce_")));
  EXPECT_THAT(error_, HasSubstr("io "));
  ethtool_->of_netdev.insert_or_assign("eth0", fail_errno(EPERM, "eth0"));
  EXPECT_THAT(ethtool_page(), Not(HasSubstr("roce_")));
  EXPECT_THAT(error_, HasSubstr("denied "));
  ethtool_->of_netdev.insert_or_assign("eth0", fail(ErrorKind::kNotRecorded, "eth0"));
  ethtool_page();
  EXPECT_THAT(error_, HasSubstr("not_recorded "));
  ethtool_->of_netdev.insert_or_assign("eth0", fail_errno(ENODEV, "eth0"));
  EXPECT_THAT(ethtool_page(), Not(HasSubstr("roce_")));
  EXPECT_EQ(error_, "");  // it went away
}

TEST_F(EthtoolTest, ARefusedQuestionIsNotRepeated) {
  const auto collector = make_ethtool_collector(context());
  for (int i = 0; i < 4; ++i) EXPECT_THAT(page(*collector), HasSubstr("source=\"pfc\"} 0\n"));
  EXPECT_EQ(ethtool_->asked, 1);
}

TEST_F(EthtoolTest, AMadeTreeHasNoStatistics) {
  host_->ethtool = nullptr;
  EXPECT_THAT(ethtool_page(), Not(HasSubstr("roce_")));
  EXPECT_EQ(error_, "");
}

TEST_F(EthtoolTest, BondMembersKeepApartAndThePortSpeaksForAll) {
  device_.netdevs.front().driver = "bonding";
  add_netdev("eth1").lag_member = true;
  add_netdev("eth2").lag_member = true;
  give({{"rx_prio3_pause", 1}}, "eth1");
  give({{"tx_bytes_phy", 2}}, "eth2");
  const std::string text = ethtool_page();
  EXPECT_THAT(text, HasSubstr("netdev=\"eth1\",priority=\"3\""));
  EXPECT_THAT(text, HasSubstr("netdev=\"eth2\",direction=\"transmit\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("source=\"pfc\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("source=\"pfc\"} 0\n")));
}

TEST_F(EthtoolTest, OfAKnownDriverOnlyWhatTheTableHolds) {
  give({{"rx_prio3_pause", 1}, {"rx_csum_none", 2}, {"rx0_packets", 3}, {"rx_prio3_packets", 4}});
  EXPECT_THAT(ethtool_page(), Not(HasSubstr("roce_netdev_driver_statistic_total{")));
  settings_.ethtool_raw = true;
  const std::string raw = ethtool_page();
  EXPECT_THAT(raw, AllOf(HasSubstr("counter=\"rx_prio3_pause\"} 1\n"), HasSubstr("counter=\"rx_csum_none\"} 2\n"),
                         HasSubstr("counter=\"rx_prio3_packets\"} 4\n"),
                         HasSubstr(std::string("roce_pfc_frames_total") + kPfc)));
}

TEST_F(EthtoolTest, OfAnUnknownDriverAllButWhatIsOfManyQueues) {
  make_orphan();
  device_.netdevs.front().driver = "newnic";
  std::vector<NamedValue> all{{"rx.err", 5}};
  for (int q = 0; q < 9; ++q) {
    all.push_back({"rx" + std::to_string(q) + "_bytes", 1});
    all.push_back({"queue_" + std::to_string(q) + "_drops", 1});
  }
  give(all);
  std::string text = ethtool_page();
  EXPECT_THAT(
      text,
      HasSubstr("roce_netdev_driver_statistic_total{device=\"\",port=\"\",netdev=\"eth0\",counter=\"rx.err\"} 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("rx0_bytes")));
  EXPECT_THAT(text, Not(HasSubstr("roce_source_present")));
  settings_.ethtool_per_queue = true;
  EXPECT_THAT(ethtool_page(),
              AllOf(HasSubstr("counter=\"rx8_bytes\"} 1\n"), HasSubstr("counter=\"queue_0_drops\"} 1\n")));
  settings_.ethtool_per_queue = false;
  all.resize(8);  // a number in a name need not be a queue's
  give(all);
  EXPECT_THAT(ethtool_page(), HasSubstr("counter=\"rx0_bytes\"} 1\n"));
}

// Of what is little, the families must not lose anything to the copies.
TEST_F(EthtoolTest, CopiesAreTheFirstToBeLeftOut) {
  settings_.ethtool_raw = true;
  give({{"rx_prio3_pause", 1}, {"rx_csum_none", 2}});
  ethtool_page();
  std::size_t least = 0;
  for (const auto& part : output_.parts)
    for (const auto& sample : part->samples.samples()) {
      EXPECT_EQ(part->least, sample.metric == &metric::netdev_counter) << sample.metric->name;
      least += part->least ? 1 : 0;
    }
  EXPECT_EQ(least, 2U);
}

TEST_F(EthtoolTest, AllOnesAreADeviceOffItsBus) {
  const std::uint64_t ones = ~std::uint64_t{0};
  give({{"rx_prio3_pause", ones}, {"tx_prio3_pause", ones}, {"rx_bytes_phy", ones}, {"tx_bytes_phy", ones}});
  const std::string text = ethtool_page();
  EXPECT_THAT(text, Not(HasSubstr("roce_pfc_frames_total{")));
  EXPECT_THAT(error_, HasSubstr("off its bus"));
}

TEST_F(EthtoolTest, OneInvalidValueIsAbsentAndTold) {
  give({{"rx_prio3_pause", ~std::uint64_t{0}}, {"rx_bytes_phy", 18446744073709551614U}});
  const std::string text = ethtool_page();
  EXPECT_THAT(text, Not(HasSubstr("roce_pfc_frames_total{")));
  EXPECT_THAT(text, HasSubstr("direction=\"receive\"} 18446744073709551614\n"));
  EXPECT_THAT(text, HasSubstr("roce_netdev_statistic_support{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",counter=\"rx_"
                              "prio3_pause\",state=\"failing\"} 1\n"));
}

TEST_F(EthtoolTest, NarrowFieldsAreWidenedAndLevelsAreNot) {
  give({{"rx_out_of_buffer", 4294967290U}, {"outbound_pci_stalled_wr", 80}});
  const auto collector = make_ethtool_collector(context());
  page(*collector);
  give({{"rx_out_of_buffer", 4}, {"outbound_pci_stalled_wr", 79}});
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("reason=\"no_buffer\"} 4294967300\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "roce_nic_pcie_stalled_ratio{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",direction=\"write\"} 0.79\n"));
}

TEST_F(EthtoolTest, ASpellingThatHasATwinGivesOneSeries) {
  give({{"rx_pause_ctrl_phy", 6}, {"rx_global_pause", 6}, {"rx_global_pause_duration", 250000}});
  const std::string text = ethtool_page();
  const std::string series =
      "roce_pause_frames_total{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",direction=\"receive\",frame=\"any\"} 6\n";
  EXPECT_THAT(text, HasSubstr(series));
  EXPECT_EQ(text.find(series), text.rfind(series));
  give({{"rx_global_pause", 6}});
  EXPECT_THAT(ethtool_page(), HasSubstr(series));
}

TEST_F(EthtoolTest, ADeviceWithoutLinkIsLeftAloneUnlessItsLinkMoves) {
  host_->live = true;
  tree_.write("sys/class/net/eth0/operstate", "down\n");
  tree_.write("sys/class/net/eth0/carrier_changes", "3\n");
  give({{"rx_prio3_pause", 1}});
  const auto collector = make_ethtool_collector(context());
  page(*collector);
  give({{"rx_prio3_pause", 2}});
  EXPECT_THAT(page(*collector), AllOf(HasSubstr("frame=\"any\"} 1\n"), HasSubstr("source=\"pfc\"} 1\n")));
  EXPECT_EQ(ethtool_->asked, 1);
  tree_.write("sys/class/net/eth0/carrier_changes", "4\n");
  EXPECT_THAT(page(*collector), HasSubstr("frame=\"any\"} 2\n"));
  tree_.write("sys/class/net/eth0/operstate", "up\n");
  page(*collector);
  page(*collector);
  EXPECT_EQ(ethtool_->asked, 4);
}

TEST_F(EthtoolTest, TheLinksOwnQuestionsRestToo) {
  host_->live = true;
  device_.netdevs.front().driver = "newnic";
  tree_.write("sys/class/net/eth0/operstate", "down\n");
  ethtool_->link_state = EthtoolLink{false, std::nullopt, std::nullopt, "no_cable", "", 7};
  ethtool_->pause_state = EthtoolPause{std::nullopt, true, true, 5, 6};
  ethtool_->standard = std::vector<NamedValue>{{"eth-phy/SymbolErrorDuringCarrier", 3}};
  const auto collector = make_link_collector(context());
  const std::string first = page(*collector);
  EXPECT_THAT(first, AllOf(HasSubstr("reason=\"no_cable\""),
                           HasSubstr("link_down_total{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\"} 7\n")));
  ethtool_->pause_state = EthtoolPause{std::nullopt, true, true, 50, 60};
  EXPECT_EQ(page(*collector), first);
  EXPECT_EQ(ethtool_->links, 1);
  EXPECT_EQ(ethtool_->standard_asked, 1);
  tree_.write("sys/class/net/eth0/operstate", "up\n");
  EXPECT_THAT(page(*collector), HasSubstr("direction=\"receive\",frame=\"any\"} 50\n"));
}

TEST(EthtoolNames, Queues) {
  for (const char* name : {"rx0_packets",         "tx63_xdp_drop",    "ch7_poll",        "[0]: rx_bytes",
                           "rxq1: rx_pkts",       "rx_queue_3_bytes", "queue_11_tx_cnt", "tx-0.packets",
                           "Queue[0] AllocFails", "0: rcv_pkts",      "cpu3_rx_packets", "rx_2_pkts",
                           "rx_posted_desc[4]",   "qos_tx1_bytes",    "rxq12_csum_err",  "TX7 bytes",
                           "rvec_3_rx_pkts",      "rq11_wqe_err",     "sq0_nop",         "cq4_poll",
                           "TxRx-2 irqs",         "napi_5_poll"})
    EXPECT_TRUE(is_queue_statistic(name)) << name;
  for (const char* name : {"rx_packets",
                           "rx_prio3_pause",
                           "rx_64_bytes_phy",
                           "rx_1024_to_1518_bytes_phy",
                           "rx_65_to_127_bytes_phy",
                           "2nd_lane_err",
                           "rx_err_lane_2_phy",
                           "tx_priority_3_xon.nic",
                           "rx_pfc_ena_frames_pri3",
                           "pfc_pri3_rx_duration_us",
                           "rx_bytes_cos7",
                           "tx-timeout",
                           "rx crc (phy)",
                           "",
                           "[",
                           "[1",
                           "rx",
                           "rx_",
                           "queue_stopped",
                           "mac_rx_pfc_pri0_pkt_num",
                           "tx_1_to_64_bytes"})
    EXPECT_FALSE(is_queue_statistic(name)) << name;
}

TEST_F(EthtoolTest, TheTableOfADevice) {
  InventoryNetdev& netdev = device_.netdevs.front();
  EXPECT_EQ(ethtool_table(*host_, device_, netdev).driver, "mlx5-ethtool");
  netdev.driver = "mlx5_core.sf";
  EXPECT_EQ(ethtool_table(*host_, device_, netdev).driver, "mlx5-ethtool");
  netdev.driver = "e1000e";
  EXPECT_EQ(ethtool_table(*host_, device_, netdev).driver, "");
  EXPECT_TRUE(ethtool_table(*host_, device_, netdev).told);
  netdev.driver.clear();
  ethtool_->driver_name = "bnxt_en";
  EXPECT_EQ(ethtool_table(*host_, device_, netdev).driver, "bnxt_en-ethtool");
  ethtool_->driver_name.clear();  // a recording without it
  EXPECT_EQ(ethtool_table(*host_, device_, netdev).driver, "mlx5-ethtool");
  EXPECT_FALSE(ethtool_table(*host_, device_, netdev).told);
  make_orphan();
  give({{"tx_timeout", 1}, {"rx_bytes", 2}});
  EXPECT_EQ(ethtool_table(*host_, device_, device_.netdevs.front()).driver, "");  // one name proves nothing
  give({{"tx_priority_3_xon.nic", 1}, {"rx_dropped.nic", 2}});
  EXPECT_EQ(ethtool_table(*host_, device_, device_.netdevs.front()).driver, "ice-ethtool");
  host_->live = true;
  EXPECT_EQ(ethtool_table(*host_, device_, device_.netdevs.front()).driver, "");
}

// ---- link ----

constexpr const char* kEth0 = "{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\"";

TEST_F(EthtoolTest, LinkStateAndReason) {
  ethtool_->link_state = EthtoolLink{false, 3, 12, "no_cable", "", std::nullopt};
  std::string text = link_page();
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_link_detected") + kEth0 + "} 0\n"));
  EXPECT_THAT(text,
              HasSubstr(std::string("roce_netdev_link_down_reason") + kEth0 + ",reason=\"no_cable\",detail=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_signal_quality_ratio") + kEth0 + "} 0.25\n"));
  ethtool_->link_state = EthtoolLink{true, std::nullopt, 12, "", "", std::nullopt};
  text = link_page();
  EXPECT_THAT(text, HasSubstr("roce_netdev_link_detected{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\"} 1\n"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("down_reason{")), Not(HasSubstr("quality_ratio{"))));
}

TEST_F(EthtoolTest, PauseAndFec) {
  device_.netdevs.front().driver = "newnic";
  ethtool_->pause_state = EthtoolPause{std::nullopt, true, false, 5, 6};
  ethtool_->fec_state = EthtoolFec{{"auto", "rs"}, {"rs"}, 70, 2, std::nullopt};
  const auto collector = make_link_collector(context());
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_pause_enabled") + kEth0 + ",direction=\"receive\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_pause_enabled") + kEth0 + ",direction=\"transmit\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("pause_autonegotiated{")));
  EXPECT_THAT(text,
              HasSubstr(std::string("roce_pause_frames_total") + kEth0 + ",direction=\"receive\",frame=\"any\"} 5\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_fec_mode") + kEth0 + ",mode=\"rs\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_fec_blocks_total") + kEth0 + ",result=\"corrected\"} 70\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_fec_blocks_total") + kEth0 + ",result=\"uncorrectable\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_fec_bit_errors_total{")));
  ethtool_->pause_state = EthtoolPause{true, false, false, 9, 6};
  ethtool_->fec_state = EthtoolFec{{"none"}, {"none"}, std::nullopt, std::nullopt, std::nullopt};
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr(",direction=\"receive\",frame=\"any\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("mode=\"none\"} 1\n"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("mode=\"rs\"")), Not(HasSubstr("roce_fec_blocks_total{"))));
}

TEST_F(EthtoolTest, WhatTheDriversStatisticsHoldIsLeftToThem) {
  host_->live = true;
  ethtool_->pause_state = EthtoolPause{std::nullopt, true, true, 5, 6};
  ethtool_->fec_state = EthtoolFec{{}, {"rs"}, 70, 2, 900};
  ethtool_->link_state = EthtoolLink{true, std::nullopt, std::nullopt, "", "", 4};
  ethtool_->standard =
      std::vector<NamedValue>{{"eth-phy/SymbolErrorDuringCarrier", 3}, {"eth-mac/FramesReceivedOK", 1}};
  const std::string mlx5 = link_page();
  EXPECT_THAT(mlx5, AllOf(Not(HasSubstr("roce_pause_frames_total{")), Not(HasSubstr("roce_fec_bit_errors_total{")),
                          Not(HasSubstr("link_down_total{")), Not(HasSubstr("roce_physical_port_errors_total{"))));
  EXPECT_THAT(mlx5, HasSubstr("roce_fec_blocks_total{"));  // mlx5 has these by netlink alone
  EXPECT_EQ(ethtool_->standard_asked, 0);
  settings_.ethtool = false;
  const std::string alone = link_page();
  EXPECT_THAT(alone, AllOf(HasSubstr("roce_pause_frames_total{"), HasSubstr("roce_fec_bit_errors_total{"),
                           HasSubstr("link_down_total{"), HasSubstr("reason=\"symbol\"} 3\n")));
  EXPECT_THAT(alone, Not(HasSubstr("FramesReceivedOK")));
}

TEST_F(EthtoolTest, ARecordingWithoutTheDriversStatisticsHasTheOthers) {
  ethtool_->pause_state = EthtoolPause{std::nullopt, true, true, 5, 6};
  EXPECT_THAT(link_page(), HasSubstr("roce_pause_frames_total{"));
  give({{"rx_pause_ctrl_phy", 5}});
  const std::string text = link_page();
  EXPECT_THAT(text, AllOf(Not(HasSubstr("direction=\"receive\",frame")), HasSubstr("direction=\"transmit\",frame")));
}

TEST_F(EthtoolTest, WithoutNetlinkTheTreeTellsTheLink) {
  host_->ethtool = nullptr;
  tree_.write("sys/class/net/eth0/carrier", "1\n");
  tree_.write("sys/class/net/eth0/carrier_changes", "5\n");
  const std::string text = link_page();
  EXPECT_THAT(text, HasSubstr(std::string("roce_netdev_link_detected") + kEth0 + "} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("carrier_changes")));  // of a port's own device these are with its port
  tree_.write("sys/class/net/eth0/carrier", "0\n");
  EXPECT_THAT(link_page(), HasSubstr("} 0\n"));
  tree_.remove("sys/class/net/eth0/carrier");
  EXPECT_THAT(link_page(), Not(HasSubstr("roce_netdev_link_detected{")));
  device_.netdevs.front().lag_member = true;
  EXPECT_THAT(link_page(), HasSubstr(std::string("roce_netdev_carrier_changes_total") + kEth0 + "} 5\n"));
}

TEST_F(EthtoolTest, OneFailingQuestionLeavesTheOthersBe) {
  ethtool_->link_state = EthtoolLink{true, std::nullopt, std::nullopt, "", "", std::nullopt};
  ethtool_->pause_state = fail_errno(EIO, "eth0");
  ethtool_->fec_state = EthtoolFec{{}, {"rs"}, std::nullopt, std::nullopt, std::nullopt};
  const std::string text = link_page();
  EXPECT_THAT(text, AllOf(HasSubstr("link_detected{"), HasSubstr("mode=\"rs\"")));
  EXPECT_THAT(error_, HasSubstr("io "));
}

TEST_F(EthtoolTest, NothingRecordedOfTheLinkIsSaid) {
  for (auto* state : {&ethtool_->pause_state}) *state = fail(ErrorKind::kNotRecorded, "pause");
  ethtool_->link_state = fail(ErrorKind::kNotRecorded, "link");
  ethtool_->fec_state = fail(ErrorKind::kNotRecorded, "fec");
  ethtool_->standard = fail(ErrorKind::kNotRecorded, "stats");
  link_page();
  EXPECT_THAT(error_, HasSubstr("not_recorded "));
}

TEST_F(EthtoolTest, WhatADriverCannotAnswerIsNotAskedAgain) {
  const auto collector = make_link_collector(context());
  for (int i = 0; i < 4; ++i) page(*collector);
  EXPECT_EQ(ethtool_->links, 1);
  EXPECT_EQ(error_, "");
}

}  // namespace
}  // namespace roce

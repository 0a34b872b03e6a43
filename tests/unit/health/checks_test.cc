// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "exporter/health/check.h"
#include "tests/unit/health/bench.h"

namespace roce {
namespace {

using testing::HasSubstr;

const std::string kPort = R"({device="mlx5_0",port="1"} )";
const std::string kNet = R"({device="mlx5_0",port="1",netdev="eth0"} )";
const std::string kUp = "roce_port_state" + kPort + "4";
const std::string kInfo = R"(roce_port_info{device="mlx5_0",port="1",netdev="eth0"} 1)";

// One look at one check. Where `earlier` is given it is the page `seconds` before.
struct Look {
  std::string check;
  std::string name;
  std::vector<std::string> earlier;
  std::vector<std::string> now;
  std::string object;   // of the one finding; empty: there must be none
  std::string found{};  // part of what was found
  int seconds = 30;
  Status severity = Status::kWarning;
};

void PrintTo(const Look& look, std::ostream* out) { *out << look.check << " " << look.name; }

class CheckTest : public testing::TestWithParam<Look> {};

TEST_P(CheckTest, FindsTheEventAndNothingElse) {
  const Look& look = GetParam();
  ASSERT_NE(find_check(look.check), nullptr) << look.check;
  Bench bench;
  if (!look.earlier.empty()) bench.page(look.earlier);
  bench.page(look.now, look.seconds);
  std::vector<Finding> of_check;
  for (const Finding& f : bench.judge(nullptr, true).findings)
    if (f.id == look.check) of_check.push_back(f);
  if (look.object.empty()) {
    for (const Finding& f : of_check) ADD_FAILURE() << f.object << ": " << f.found;
    return;
  }
  ASSERT_EQ(of_check.size(), 1U);
  EXPECT_EQ(of_check[0].object, look.object);
  EXPECT_THAT(of_check[0].found, HasSubstr(look.found));
  EXPECT_EQ(of_check[0].severity, look.severity) << to_string(of_check[0].severity);
  EXPECT_EQ(of_check[0].finding_class, find_check(look.check)->finding_class);
  EXPECT_FALSE(of_check[0].expected.empty());
  EXPECT_FALSE(of_check[0].next_step.empty());
}

// A counter that moves by `step` from `base`: fires; stands, falls back to a small value, is new: does not.
std::vector<Look> counter(const std::string& check, const std::string& series, double step, const std::string& object,
                          const std::vector<std::string>& beside = {}, Status severity = Status::kWarning) {
  const auto page = [&](double value) {
    std::vector<std::string> lines = beside;
    lines.push_back(series + " " + std::to_string(value));
    return lines;
  };
  return {{check, "moves", page(1000), page(1000 + step), object, "", 30, severity},
          {check, "stands", page(1000), page(1000), ""},
          {check, "restarts", page(100000), page(step), ""},
          {check, "is new", beside.empty() ? std::vector<std::string>{kUp} : beside, page(1000), ""},
          {check, "is seen once", {}, page(1000), ""},
          {check, "is absent", {kUp}, {kUp}, ""}};
}

std::vector<Look> looks() {
  std::vector<Look> all;
  const auto add = [&](std::vector<Look> more) { all.insert(all.end(), more.begin(), more.end()); };
  const std::string ups = "roce_netdev_carrier_up_total" + kNet;
  const std::string down = "roce_port_state" + kPort + "1";
  const std::string nvme_link =
      R"(roce_nvme_controller_link_info{controller="nvme0",device="mlx5_0",port="1",netdev="eth0",found_by="route"} 1)";
  add({{"port-down", "had a link", {}, {down, ups + "1", kInfo}, "mlx5_0/1", "netdev eth0"},
       {"port-down", "never cabled", {}, {down, ups + "0", kInfo}, ""},
       {"port-down", "no carrier counts", {}, {down}, ""},
       {"port-down", "was active", {kUp}, {down}, "mlx5_0/1"},
       {"port-down", "lost links", {}, {down, "roce_port_link_downed_total" + kPort + "1"}, "mlx5_0/1"},
       {"port-down", "lost none", {}, {down, "roce_port_link_downed_total" + kPort + "0"}, ""},
       {"port-down", "up and down", {}, {down, "roce_netdev_carrier_changes_total" + kNet + "2"}, "mlx5_0/1"},
       {"port-down", "down at first", {}, {down, "roce_netdev_carrier_changes_total" + kNet + "1"}, ""},
       {"port-down", "no ups", {}, {down, ups + "0", "roce_netdev_carrier_changes_total" + kNet + "2"}, ""},
       {"port-down", "operational", {}, {down, "roce_netdev_operational_state" + kNet + "6"}, "mlx5_0/1"},
       {"port-down", "not operational", {}, {down, "roce_netdev_operational_state" + kNet + "2"}, ""},
       {"port-down", "another's link", {R"(roce_port_state{device="mlx5_0",port="2"} 4)"}, {down}, ""},
       {"port-down", "carries storage", {}, {down, nvme_link}, "mlx5_0/1", "state down", 30, Status::kCritical},
       {"port-down", "active", {}, {kUp, ups + "3", nvme_link}, ""},
       {"port-down",
        "representor",
        {},
        {down, ups + "1", R"(roce_port_representor_info{device="mlx5_0",port="1",netdev="eth0",function="pf0vf0"} 1)"},
        ""}});
  add(counter("link-flapping", "roce_netdev_carrier_down_total" + kNet.substr(0, kNet.size() - 1), 2, "mlx5_0/1"));
  add({{"link-flapping",
        "one loss",
        {"roce_netdev_carrier_down_total" + kNet + "4"},
        {"roce_netdev_carrier_down_total" + kNet + "5"},
        ""}});
  add(counter("link-flapping", "roce_port_link_downed_total" + kPort.substr(0, kPort.size() - 1), 2, "mlx5_0/1"));
  add(counter("link-flapping", "roce_netdev_carrier_changes_total" + kNet.substr(0, kNet.size() - 1), 4, "mlx5_0/1"));
  const auto losses = [&](int downs, int changes, int downed) {
    return std::vector<std::string>{"roce_netdev_carrier_down_total" + kNet + std::to_string(downs),
                                    "roce_netdev_carrier_changes_total" + kNet + std::to_string(changes),
                                    "roce_port_link_downed_total" + kPort + std::to_string(downed)};
  };
  add({{"link-flapping", "one loss in three counts", losses(0, 0, 7), losses(1, 2, 8), ""},
       {"link-flapping",
        "down, up and down",
        {"roce_netdev_carrier_changes_total" + kNet + "0"},
        {"roce_netdev_carrier_changes_total" + kNet + "3"},
        ""},
       {"link-flapping", "two losses in three counts", losses(0, 0, 7), losses(2, 4, 9), "mlx5_0/1", "2 times down"}});
  add(counter("link-errors", "roce_port_link_error_recoveries_total" + kPort.substr(0, kPort.size() - 1), 1,
              "mlx5_0/1"));
  add(counter("link-errors", "roce_port_receive_errors_total" + kPort.substr(0, kPort.size() - 1), 1, "mlx5_0/1"));
  add(counter("link-errors", R"(roce_fec_blocks_total{device="mlx5_0",port="1",netdev="eth0",result="uncorrectable"})",
              1, "mlx5_0/1"));
  add(counter("link-errors", "roce_port_symbol_errors_total" + kPort.substr(0, kPort.size() - 1), 1, "mlx5_0/1"));
  add(counter("link-errors", R"(roce_physical_port_errors_total{device="mlx5_0",port="1",netdev="eth0",reason="crc"})",
              1, "mlx5_0/1"));
  const std::string corrected = R"(roce_fec_blocks_total{device="mlx5_0",port="1",netdev="eth0",result="corrected"} )";
  add({{"link-errors", "corrected blocks are normal", {corrected + "1"}, {corrected + "900000"}, ""},
       {"link-errors",
        "one finding for two spellings",
        {R"(roce_fec_blocks_total{device="mlx5_0",port="1",netdev="eth0",result="uncorrectable"} 0)",
         "roce_port_symbol_errors_total" + kPort + "0"},
        {R"(roce_fec_blocks_total{device="mlx5_0",port="1",netdev="eth0",result="uncorrectable"} 2)",
         "roce_port_symbol_errors_total" + kPort + "5"},
        "mlx5_0/1"}});
  const std::string v4 = R"(roce_port_gid_routable_entries{device="mlx5_0",port="1",family="ipv4"} )";
  const std::string v6 = R"(roce_port_gid_routable_entries{device="mlx5_0",port="1",family="ipv6"} )";
  add({{"gid-missing", "none", {}, {kUp, v4 + "0", v6 + "0"}, "mlx5_0/1"},
       {"gid-missing", "one of IPv6", {}, {kUp, v4 + "0", v6 + "1"}, ""},
       {"gid-missing", "down", {}, {down, v4 + "0", v6 + "0"}, ""},
       {"gid-missing", "state unknown", {}, {v4 + "0"}, ""}});
  const std::string id0 =
      R"(roce_device_info{device="mlx5_0",driver="mlx5_core",hca_type="MT4129",board_id="B",firmware="28.1"} 1)";
  const std::string id1 =
      R"(roce_device_info{device="mlx5_1",driver="mlx5_core",hca_type="MT4129",board_id="B",firmware="28.1"} 1)";
  const std::string id1_other =
      R"(roce_device_info{device="mlx5_1",driver="mlx5_core",hca_type="MT4119",board_id="C",firmware="16.1"} 1)";
  const std::string id1_old =
      R"(roce_device_info{device="mlx5_1",driver="mlx5_core",hca_type="MT4129",board_id="B",firmware="28.0"} 1)";
  const std::string up1 = R"(roce_port_state{device="mlx5_1",port="1"} 4)";
  const std::string rate0 = "roce_port_rate_bytes_per_second" + kPort + "50e9";
  const std::string rate1 = R"(roce_port_rate_bytes_per_second{device="mlx5_1",port="1"} )";
  add({{"rate-uneven", "half", {}, {kUp, up1, id0, id1, rate0, rate1 + "25e9"}, "mlx5_1/1", "200 Gb/s"},
       {"rate-uneven", "equal", {}, {kUp, up1, id0, id1, rate0, rate1 + "50e9"}, ""},
       {"rate-uneven",
        "another kind of network",
        {},
        {kUp, up1, id0, id1, rate0, rate1 + "25e9",
         R"(roce_port_info{device="mlx5_0",port="1",link_layer="InfiniBand"} 1)",
         R"(roce_port_info{device="mlx5_1",port="1",link_layer="Ethernet"} 1)"},
        ""},
       {"rate-uneven",
        "the same kind of network",
        {},
        {kUp, up1, id0, id1, rate0, rate1 + "25e9",
         R"(roce_port_info{device="mlx5_0",port="1",link_layer="Ethernet"} 1)",
         R"(roce_port_info{device="mlx5_1",port="1",link_layer="Ethernet"} 1)"},
        "mlx5_1/1"},
       {"rate-uneven", "another card", {}, {kUp, up1, id0, id1_other, rate0, rate1 + "25e9"}, ""},
       {"rate-uneven",
        "down",
        {},
        {kUp, R"(roce_port_state{device="mlx5_1",port="1"} 1)", id0, id1, rate0, rate1 + "5e9"},
        ""}});
  const std::string mtu0 = "roce_path_mtu_bytes" + kNet;
  const std::string mtu1 = R"(roce_path_mtu_bytes{device="mlx5_1",port="1",netdev="eth1"} )";
  const std::vector<std::string> two{kUp, up1, id0, id1, rate0, rate1 + "50e9"};
  const auto with = [](std::vector<std::string> lines, const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
    return lines;
  };
  add({{"mtu-mismatch", "one small", {}, with(two, {mtu0 + "4096", mtu1 + "1024"}), "mlx5_1/1", "eth1"},
       {"mtu-mismatch", "equal", {}, with(two, {mtu0 + "1024", mtu1 + "1024"}), ""},
       {"mtu-mismatch",
        "another rate",
        {},
        {kUp, up1, id0, id1, rate0, rate1 + "3e9", mtu0 + "4096", mtu1 + "1024"},
        ""},
       {"path-mtu-small", "1024", {}, {kUp, mtu0 + "1024"}, "mlx5_0/1", "1024", 30, Status::kInfo},
       {"path-mtu-small", "4096", {}, {kUp, mtu0 + "4096"}, ""}});
  const std::string members = R"(roce_bond_members{device="mlx5_bond_0",port="1",netdev="bond0"} 2)";
  const std::string active = R"(roce_bond_active_members{device="mlx5_bond_0",port="1",netdev="bond0"} )";
  add({{"bond-degraded", "one of two", {}, {members, active + "1"}, "mlx5_bond_0/1 bond0", "1 of 2"},
       {"bond-degraded", "none", {}, {members, active + "0"}, "mlx5_bond_0/1 bond0", "0 of 2", 30, Status::kCritical},
       {"bond-degraded", "whole", {}, {members, active + "2"}, ""}});
  add({{"counter-saturated",
        "two of them",
        {},
        {R"(roce_counter_support{device="mlx5_0",port="1",counter="symbol_error",state="saturated"} 1)",
         R"(roce_counter_support{device="mlx5_0",port="1",counter="link_downed",state="saturated"} 1)"},
        "mlx5_0/1",
        "symbol_error, link_downed"},
       {"counter-saturated",
        "ticks of waiting",
        {},
        {R"(roce_counter_support{device="mlx5_0",port="1",counter="port_xmit_wait",state="saturated"} 1)"},
        ""},
       {"counter-saturated",
        "another state",
        {},
        {R"(roce_counter_support{device="mlx5_0",port="1",counter="x",state="unsupported"} 1)"},
        ""}});

  const auto pause = [](const std::string& direction) {
    return R"(roce_pfc_pause_seconds_total{device="mlx5_0",port="1",netdev="eth0",priority="3",direction=")" +
           direction + "\"}";
  };
  add(counter("pause-storm", pause("receive"), 15, "mlx5_0/1 priority 3", {}, Status::kCritical));
  add(counter("pause-received", pause("receive"), 1.5, "mlx5_0/1 priority 3"));
  add(counter("pause-sent", pause("transmit"), 1.5, "mlx5_0/1 priority 3"));
  add({{"pause-storm", "just below", {pause("receive") + " 0"}, {pause("receive") + " 14.9"}, ""},
       {"pause-received", "short bursts", {pause("receive") + " 0"}, {pause("receive") + " 1.4"}, ""},
       {"pause-received", "a storm is told once", {pause("receive") + " 0"}, {pause("receive") + " 20"}, ""},
       {"pause-sent", "short bursts", {pause("transmit") + " 0"}, {pause("transmit") + " 1.4"}, ""},
       {"pause-sent", "received", {pause("receive") + " 0"}, {pause("receive") + " 20"}, ""}});
  const auto whole = [](const std::string& direction) {
    return R"(roce_pause_seconds_total{device="mlx5_0",port="1",netdev="eth0",direction=")" + direction + "\"}";
  };
  add(counter("pause-storm", whole("receive"), 15, "mlx5_0/1", {}, Status::kCritical));
  add(counter("pause-received", whole("receive"), 1.5, "mlx5_0/1"));
  add(counter("pause-sent", whole("transmit"), 1.5, "mlx5_0/1"));
  const auto frames = [](const std::string& direction, const std::string& frame) {
    return R"(roce_pause_frames_total{device="mlx5_0",port="1",netdev="eth0",direction=")" + direction +
           R"(",frame=")" + frame + "\"}";
  };
  const auto pfc_frames = [](const std::string& direction, const std::string& frame) {
    return R"(roce_pfc_frames_total{device="mlx5_0",port="1",netdev="eth0",priority="4",direction=")" + direction +
           R"(",frame=")" + frame + "\"}";
  };
  const std::string dcb =
      R"(roce_dcb_pfc_frames_total{device="mlx5_0",port="1",netdev="eth0",priority="4",direction="transmit"})";
  add(counter("pause-received", frames("receive", "any"), 30030, "mlx5_0/1"));
  add(counter("pause-sent", frames("transmit", "xoff"), 30030, "mlx5_0/1"));
  add(counter("pause-received", pfc_frames("receive", "xoff"), 30030, "mlx5_0/1 priority 4"));
  add(counter("pause-sent", pfc_frames("transmit", "any"), 30030, "mlx5_0/1 priority 4"));
  add(counter("pause-sent", dcb, 30030, "mlx5_0/1 priority 4"));
  add({{"pause-sent", "802.3x is told", {whole("transmit") + " 0"}, {whole("transmit") + " 3"}, "mlx5_0/1", "802.3x"},
       {"pause-sent", "few frames", {frames("transmit", "any") + " 0"}, {frames("transmit", "any") + " 30000"}, ""},
       {"pause-sent", "xon", {frames("transmit", "xon") + " 0"}, {frames("transmit", "xon") + " 90000"}, ""},
       {"pause-sent",
        "frames beside time",
        {frames("transmit", "any") + " 0", whole("transmit") + " 0"},
        {frames("transmit", "any") + " 90000", whole("transmit") + " 0.1"},
        ""},
       {"pause-sent",
        "frames of a priority beside time",
        {pfc_frames("transmit", "any") + " 0", R"(roce_pfc_pause_seconds_total{netdev="eth0",priority="4"} 0)"},
        {pfc_frames("transmit", "any") + " 90000", R"(roce_pfc_pause_seconds_total{netdev="eth0",priority="4"} 0.1)"},
        ""},
       {"pause-storm", "frames", {frames("receive", "any") + " 0"}, {frames("receive", "any") + " 90000"}, ""}});
  add(counter("pause-storm", R"(roce_pause_storms_total{device="mlx5_0",port="1",netdev="eth0",level="error"})", 1,
              "mlx5_0/1", {}, Status::kCritical));
  const std::string drops =
      R"(roce_priority_discards_total{device="mlx5_0",port="1",netdev="eth0",priority="3",reason="no_buffer"})";
  const auto pfc = [](int priority, int on) {
    return R"(roce_pfc_enabled{device="mlx5_0",port="1",netdev="eth0",priority=")" + std::to_string(priority) + "\"} " +
           std::to_string(on);
  };
  add(counter("lossless-drops", drops, 1, "mlx5_0/1 priority 3", {pfc(3, 1)}, Status::kCritical));
  add({{"lossless-drops", "lossy priority", {drops + " 0", pfc(3, 0)}, {drops + " 9", pfc(3, 0)}, ""}});
  add(counter("port-discards",
              R"(roce_physical_port_discards_total{device="mlx5_0",port="1",netdev="eth0",direction="receive"})", 3,
              "mlx5_0/1 receive"));
  const std::string sent_drops = "roce_port_transmit_discards_total" + kPort;
  const std::string wire_drops =
      R"(roce_physical_port_discards_total{device="mlx5_0",port="1",netdev="eth0",direction="transmit"} )";
  add(counter("port-discards", sent_drops.substr(0, sent_drops.size() - 1), 3, "mlx5_0/1 transmit"));
  add({{"port-discards",
        "one finding for both spellings",
        {sent_drops + "0", wire_drops + "0"},
        {sent_drops + "50", wire_drops + "50"},
        "mlx5_0/1 transmit"}});
  const std::string peer = R"(roce_pfc_peer_enabled{device="mlx5_0",port="1",netdev="eth0",priority="3"} )";
  add({{"pfc-mismatch",
        "off at the switch",
        {},
        {pfc(3, 1), peer + "0"},
        "mlx5_0/1",
        "priority 3 on here, off at the switch"},
       {"pfc-mismatch", "equal", {}, {pfc(3, 1), peer + "1"}, ""},
       {"pfc-mismatch", "not told", {}, {pfc(3, 1)}, ""}});
  const std::string global =
      R"(roce_netdev_pause_enabled{device="mlx5_0",port="1",netdev="eth0",direction="receive"} )";
  add({{"pfc-with-global-pause", "both", {}, {pfc(3, 1), global + "1"}, "mlx5_0/1"},
       {"pfc-with-global-pause", "no PFC", {}, {pfc(3, 0), global + "1"}, ""},
       {"pfc-with-global-pause", "PFC alone", {}, {pfc(3, 1), global + "0"}, ""}});
  const std::string buffer = R"(roce_pfc_buffer_bytes{device="mlx5_0",port="1",netdev="eth0",priority="3"} )";
  add({{"pfc-without-buffer", "0", {}, {pfc(3, 1), buffer + "0"}, "mlx5_0/1 priority 3"},
       {"pfc-without-buffer", "some", {}, {pfc(3, 1), buffer + "200000"}, ""}});
  const std::string tos = "roce_default_tos" + kPort + "104";
  const std::string entries = "roce_dscp_entries" + kNet;
  const std::string dscp = R"(roce_dscp_priority{device="mlx5_0",port="1",netdev="eth0",dscp="26"} )";
  add({{"dscp-not-lossless",
        "to 2",
        {},
        {tos, entries + "64", dscp + "2", pfc(3, 1), pfc(2, 0)},
        "mlx5_0/1",
        "DSCP 26 maps to priority 2"},
       {"dscp-not-lossless", "to 3", {}, {tos, entries + "64", dscp + "3", pfc(3, 1)}, ""},
       {"dscp-not-lossless", "common map", {}, {tos, entries + "64", pfc(3, 1)}, ""},
       {"dscp-not-lossless",
        "not in the map",
        {},
        {tos, entries + "1", pfc(3, 1), pfc(0, 0)},
        "mlx5_0/1",
        "DSCP 26 maps to priority 0"},
       {"dscp-not-lossless",
        "default priority",
        {},
        {tos, entries + "1", pfc(3, 1),
         R"(roce_dcb_app_priority{device="mlx5_0",port="1",netdev="eth0",application="default"} 3)"},
        ""},
       {"dscp-not-lossless", "no PFC at all", {}, {tos, entries + "64", dscp + "2"}, ""}});
  const std::string ecn = R"(roce_ecn_enabled{device="mlx5_0",port="1",netdev="eth0",point="reaction",priority="3"} )";
  const std::string notification =
      R"(roce_ecn_enabled{device="mlx5_0",port="1",netdev="eth0",point="notification",priority=""} )";
  add({{"ecn-off", "off", {}, {ecn + "0", pfc(3, 1)}, "mlx5_0/1 priority 3", "reaction"},
       {"ecn-off", "lossy priority", {}, {ecn + "0", pfc(3, 0)}, ""},
       {"ecn-off", "on", {}, {ecn + "1", pfc(3, 1)}, ""},
       {"ecn-off",
        "one switch for the port",
        {},
        {notification + "0", ecn + "1", pfc(3, 1)},
        "mlx5_0/1",
        "notification"},
       {"ecn-off", "no priority with PFC", {}, {notification + "0", pfc(3, 0)}, ""}});
  add(counter("cnp-ignored", "roce_cnp_ignored_total" + kPort.substr(0, kPort.size() - 1), 3, "mlx5_0/1"));
  const std::string marks = "roce_receive_ecn_marked_packets_total" + kPort;
  const std::string sent = "roce_cnp_sent_total" + kPort;
  const std::string packets = "roce_port_receive_packets_total" + kPort;
  add({{"ecn-without-cnp", "no answer", {marks + "0", sent + "5"}, {marks + "100", sent + "5"}, "mlx5_0/1"},
       {"ecn-without-cnp", "answers", {marks + "0", sent + "5"}, {marks + "100", sent + "6"}, ""},
       {"ecn-without-cnp", "few marks", {marks + "0", sent + "5"}, {marks + "99", sent + "5"}, ""},
       {"congestion", "a tenth", {marks + "0", packets + "0"}, {marks + "1000", packets + "10000"}, "mlx5_0/1", "10 %"},
       {"congestion", "a healthy share", {marks + "0", packets + "0"}, {marks + "1000", packets + "100000"}, ""},
       {"congestion", "restarted", {marks + "90000", packets + "0"}, {marks + "1000", packets + "10000"}, ""}});

  const std::string trigger = R"(roce_retransmit_triggers_total{device="mlx5_0",port="1",reason="ack_timeout"})";
  add(counter("retransmissions", trigger, 5, "mlx5_0/1"));
  add(counter("retransmissions", "roce_receive_out_of_sequence_packets_total" + kPort.substr(0, kPort.size() - 1), 5,
              "mlx5_0/1"));
  add(counter("retransmissions", R"(roce_driver_counter_total{device="rxe0",port="1",counter="completer_retry_err"})",
              5, "rxe0/1"));
  const std::string rnr = R"(roce_retransmit_triggers_total{device="mlx5_0",port="1",reason="rnr_nak"} )";
  add({{"retransmissions", "a peer that is not ready", {rnr + "0"}, {rnr + "500"}, ""},
       {"retransmissions", "a few", {trigger + " 0"}, {trigger + " 4"}, ""}});
  const std::string given_up = R"(roce_retries_exceeded_total{device="mlx5_0",port="1",reason="transport"})";
  add(counter("retries-exceeded", given_up, 1, "mlx5_0/1"));
  add({{"retries-exceeded", "one", {given_up + " 7"}, {given_up + " 8"}, "mlx5_0/1", "1 request given up in"},
       {"retries-exceeded", "two", {given_up + " 7"}, {given_up + " 9"}, "mlx5_0/1", "2 requests given up in"},
       {"retransmissions",
        "one retry a second is more than enough of them",
        {R"(roce_driver_counter_total{device="rxe0",port="1",counter="completer_retry_err"} 1)"},
        {R"(roce_driver_counter_total{device="rxe0",port="1",counter="completer_retry_err"} 31)"},
        "rxe0/1",
        "30 retries begun in"}});
  add(counter("receiver-not-ready", "roce_receiver_not_ready_total" + kPort.substr(0, kPort.size() - 1), 3,
              "mlx5_0/1"));
  add(counter("access-errors",
              R"(roce_operation_errors_total{device="mlx5_0",port="1",side="responder",reason="remote_access"})", 1,
              "mlx5_0/1"));
  add(counter("icrc-errors", "roce_receive_icrc_errors_total" + kPort.substr(0, kPort.size() - 1), 1, "mlx5_0/1"));
  add(counter("connection-retries", R"(roce_cm_retries_total{device="mlx5_0",port="1",type="req"})", 3, "mlx5_0/1"));
  add(counter("rate-limit-drops",
              R"(roce_instance_limit_exceeded_total{device="efa_0",port="1",netdev="eth0",limit="bandwidth_in"})", 3,
              "efa_0/1 bandwidth_in"));
  const std::string qps = R"(roce_owner_qps{device="mlx5_0",owner="ior",pid="77",state="ERR"} )";
  add({{"qp-error", "stays", {qps + "2"}, {qps + "3"}, "mlx5_0 pid 77 ior", "2 QPs"},
       {"qp-error", "passes", {qps + "0"}, {qps + "3"}, ""},
       {"qp-error", "seen once", {}, {qps + "3"}, ""},
       {"qp-error", "gone", {qps + "3"}, {qps + "0"}, ""}});
  const std::string limit = R"(roce_rdma_resource_limit{device="mlx5_0",resource="qp"} 100)";
  const std::string used = R"(roce_rdma_resources{device="mlx5_0",resource="qp"} )";
  add({{"resource-limit", "90", {}, {limit, used + "90"}, "mlx5_0 qp", "90 of 100"},
       {"resource-limit", "89", {}, {limit, used + "89"}, ""},
       {"resource-limit", "no limit told", {}, {used + "9000"}, ""}});

  add({{"device-lost",
        "lost",
        {},
        {R"(roce_pcie_device_lost{device="mlx5_0"} 1)"},
        "mlx5_0",
        "ones",
        30,
        Status::kCritical},
       {"device-lost", "there", {}, {R"(roce_pcie_device_lost{device="mlx5_0"} 0)"}, ""}});
  const std::string link = R"({device="mlx5_0",pci_address="0000:17:00.0",upstream_address="0000:16:00.0"} )";
  add({{"pcie-degraded",
        "x8",
        {},
        {"roce_pcie_link_lanes" + link + "8", "roce_pcie_link_expected_lanes" + link + "16"},
        "mlx5_0",
        "x8 at 0000:17:00.0"},
       {"pcie-degraded",
        "Gen3",
        {},
        {"roce_pcie_link_transfers_per_second" + link + "8e9",
         "roce_pcie_link_expected_transfers_per_second" + link + "32e9"},
        "mlx5_0",
        "8 GT/s"},
       {"pcie-degraded",
        "as it can",
        {},
        {"roce_pcie_link_lanes" + link + "16", "roce_pcie_link_expected_lanes" + link + "16"},
        ""},
       {"pcie-degraded", "limits not told", {}, {"roce_pcie_link_lanes" + link + "8"}, ""}});
  const std::string path = R"(roce_pcie_path_bandwidth_bytes_per_second{device="mlx5_0"} )";
  const std::string path_could = R"(roce_pcie_path_expected_bandwidth_bytes_per_second{device="mlx5_0"} )";
  add({{"pcie-bottleneck",
        "narrow slot",
        {},
        {kUp, rate0, path + "15.7e9", path_could + "15.7e9"},
        "mlx5_0",
        "port 400 Gb/s"},
       {"pcie-bottleneck",
        "trained low is another finding",
        {},
        {kUp, rate0, path + "15.7e9", path_could + "63e9"},
        ""},
       {"pcie-bottleneck", "enough", {}, {kUp, rate0, path + "63e9", path_could + "63e9"}, ""},
       {"pcie-bottleneck", "down", {}, {down, rate0, path + "15.7e9"}, ""}});
  const std::string stalled =
      R"(roce_nic_pcie_stalled_ratio{device="mlx5_0",port="1",netdev="eth0",direction="write"} )";
  add({{"pcie-stalled", "twice", {stalled + "0.4"}, {stalled + "0.6"}, "mlx5_0/1 write", "40 %"},
       {"pcie-stalled", "once", {stalled + "0"}, {stalled + "0.6"}, ""}});
  const auto aer = [](const std::string& severity) {
    return R"(roce_pcie_aer_errors_total{device="mlx5_0",pci_address="0000:17:00.0",severity=")" + severity + "\"}";
  };
  add(counter("pcie-errors", aer("nonfatal"), 1, "mlx5_0 0000:17:00.0"));
  add(counter("pcie-errors", aer("fatal"), 1, "mlx5_0 0000:17:00.0", {}, Status::kCritical));
  add(counter("pcie-errors", aer("correctable"), 20, "mlx5_0 0000:17:00.0"));
  add({{"pcie-errors", "few corrected", {aer("correctable") + " 0"}, {aer("correctable") + " 19"}, ""},
       {"max-read-request", "128", {}, {R"(roce_pcie_max_read_request_bytes{device="mlx5_0"} 128)"}, "mlx5_0", "128"},
       {"max-read-request", "512", {}, {R"(roce_pcie_max_read_request_bytes{device="mlx5_0"} 512)"}, ""}});
  const auto payload = [](const std::string& address, int bytes) {
    return R"(roce_pcie_max_payload_bytes{device="mlx5_0",pci_address=")" + address + "\"} " + std::to_string(bytes);
  };
  const std::string lanes = "roce_pcie_link_lanes" + link + "16";
  add({{"max-payload",
        "more than the port",
        {},
        {lanes, payload("0000:17:00.0", 512), payload("0000:16:00.0", 256)},
        "mlx5_0"},
       {"max-payload", "equal", {}, {lanes, payload("0000:17:00.0", 256), payload("0000:16:00.0", 256)}, ""},
       {"max-payload", "less", {}, {lanes, payload("0000:17:00.0", 128), payload("0000:16:00.0", 256)}, ""},
       {"device-health",
        "in error",
        {},
        {R"(roce_devlink_health_state{device="mlx5_0",reporter="fw_fatal"} 1)"},
        "mlx5_0 fw_fatal",
        "",
        30,
        Status::kCritical},
       {"device-health", "healthy", {}, {R"(roce_devlink_health_state{device="mlx5_0",reporter="fw"} 0)"}, ""}});
  const std::string hot = R"(roce_temperature_celsius{device="mlx5_0",sensor="temp1",label="asic"} )";
  const std::string crit =
      R"(roce_temperature_limit_celsius{device="mlx5_0",sensor="temp1",label="asic",limit="crit"} 105)";
  const std::string max =
      R"(roce_temperature_limit_celsius{device="mlx5_0",sensor="temp1",label="asic",limit="max"} 90)";
  add({{"temperature", "critical", {}, {hot + "105", crit, max}, "mlx5_0 temp1 asic", "crit", 30, Status::kCritical},
       {"temperature", "over max", {}, {hot + "90", crit, max}, "mlx5_0 temp1 asic", "max"},
       {"temperature", "cool", {}, {hot + "89", crit, max}, ""},
       {"temperature", "no limits", {}, {hot + "200"}, ""},
       {"firmware-spread", "two versions", {}, {id0, id1_old}, "host", "28.0 on mlx5_1"},
       {"firmware-spread", "one version", {}, {id0, id1}, ""},
       {"firmware-spread", "other cards", {}, {id0, id1_other}, ""}});
  const std::string call = R"(roce_kernel_call_in_flight_seconds{call="ethtool",device="mlx5_0"} )";
  add({{"kernel-call-stuck", "long", {}, {call + "2.5"}, "mlx5_0", "ethtool"},
       {"kernel-call-stuck", "very long", {}, {call + "61"}, "mlx5_0", "61 s", 30, Status::kCritical},
       {"kernel-call-stuck", "short", {}, {call + "1.2"}, ""}});

  const std::string paths = R"(roce_nvme_namespace_paths{subsystem="s0",namespace="1"} 2)";
  const std::string usable = R"(roce_nvme_namespace_paths_usable{subsystem="s0",namespace="1"} )";
  const std::string sub = R"(roce_nvme_subsystem_paths{subsystem="s0"} 1)";
  const std::string live = R"(roce_nvme_subsystem_paths_live{subsystem="s0"} )";
  add({{"nvme-no-path",
        "no path of a namespace",
        {},
        {paths, usable + "0", sub, live + "0"},
        "s0 namespace 1",
        "0 of 2",
        30,
        Status::kCritical},
       {"nvme-no-path", "no live controller", {}, {sub, live + "0"}, "s0", "0 of 1", 30, Status::kCritical},
       {"nvme-no-path", "usable paths not told", {}, {paths, sub}, ""},
       {"nvme-no-path", "live controllers not told", {}, {sub}, ""},
       {"nvme-no-path", "one left", {}, {paths, usable + "1", sub, live + "1"}, ""}});
  const auto state = [](const std::string& word) {
    return R"(roce_nvme_controller_state{controller="nvme0",subsystem="s0",transport="rdma",state=")" + word + "\"} 1";
  };
  const std::string queues = R"(roce_nvme_controller_io_queues{controller="nvme0",subsystem="s0"} )";
  add({{"nvme-path-lost",
        "connecting",
        {},
        {state("connecting"), queues + "4", nvme_link},
        "nvme0 (mlx5_0/1)",
        "connecting"},
       {"nvme-path-lost",
        "one of four",
        {},
        {state("connecting"), queues + "4",
         R"(roce_nvme_controller_loss_timeout_remaining_seconds{controller="nvme0",subsystem="s0"} 521)",
         R"(roce_nvme_subsystem_paths{subsystem="s0"} 4)", R"(roce_nvme_subsystem_paths_live{subsystem="s0"} 3)",
         R"(roce_nvme_subsystem_info{subsystem="s0",nqn="nqn.2024-05.example:pool-b"} 1)"},
        "nvme0",
        "state connecting, the kernel gives it up in 521 s, 3 of 4 paths to pool-b live"},
       {"nvme-path-lost",
        "never given up",
        {},
        {state("connecting"), queues + "4",
         R"(roce_nvme_controller_loss_timeout_remaining_seconds{controller="nvme0",subsystem="s0"} +Inf)",
         R"(roce_nvme_subsystem_paths{subsystem="s0"} 1)", R"(roce_nvme_subsystem_paths_live{subsystem="s0"} 0)"},
        "nvme0",
        "state connecting, the kernel never gives it up, 0 of 1 paths to s0 live"},
       {"nvme-path-lost", "planned", {}, {state("deleting"), queues + "4"}, ""},
       {"nvme-path-lost", "live", {}, {state("live"), queues + "4"}, ""},
       {"nvme-path-lost",
        "inaccessible",
        {},
        {R"(roce_nvme_path_ana_state{controller="nvme0",namespace="1",state="inaccessible"} 1)"},
        "nvme0 namespace 1"}});
  const std::string queues1 = R"(roce_nvme_controller_io_queues{controller="nvme1",subsystem="s0"} )";
  add({{"nvme-queues-uneven", "fewer", {}, {queues + "1", queues1 + "8"}, "nvme0", "1 I/O queues"},
       {"nvme-queues-uneven", "equal", {}, {queues + "8", queues1 + "8"}, ""},
       {"nvme-keep-alive-off",
        "off",
        {},
        {R"(roce_nvme_controller_keep_alive_seconds{controller="nvme0",subsystem="s0"} 0)"},
        "nvme0"},
       {"nvme-keep-alive-off",
        "default",
        {},
        {R"(roce_nvme_controller_keep_alive_seconds{controller="nvme0",subsystem="s0"} 5)"},
        ""},
       {"nvme-reconnect-slow",
        "128 s",
        {},
        {R"(roce_nvme_controller_reconnect_delay_seconds{controller="nvme0",subsystem="s0"} 128)"},
        "nvme0",
        "128 s"},
       {"nvme-reconnect-slow",
        "default",
        {},
        {R"(roce_nvme_controller_reconnect_delay_seconds{controller="nvme0",subsystem="s0"} 10)"},
        ""}});
  add(counter("nfs-errors", R"(roce_nfs_transport_errors_total{mount="/data",reason="bad_reply"})", 1, "/data"));
  const std::string asked = R"(roce_nfs_operation_requests_total{mount="/data",operation="READ"} )";
  const std::string went = R"(roce_nfs_operation_transmissions_total{mount="/data",operation="READ"} )";
  add({{"nfs-errors", "sent again", {asked + "10", went + "10"}, {asked + "20", went + "23"}, "/data", "3 operations"},
       {"nfs-errors", "once each", {asked + "10", went + "15"}, {asked + "20", went + "25"}, ""},
       {"iser-session-down",
        "failed",
        {},
        {R"(roce_iser_session_state{session="session1",state="failed"} 1)"},
        "session1"},
       {"iser-session-down",
        "logged in",
        {},
        {R"(roce_iser_session_state{session="session1",state="failed"} 0)",
         R"(roce_iser_session_state{session="session1",state="logged_in"} 1)"},
        ""}});
  add(counter("gds-fallback", R"(roce_gds_fallbacks_total{reason="bar1_map"})", 1, "host"));

  const std::string who = R"({pid="77",comm="ior"} )";
  const std::string soft = R"(roce_process_memlock_limit_bytes{pid="77",comm="ior",limit="soft"} 65536)";
  add({{"memlock-headroom",
        "over 80 %",
        {},
        {"roce_process_memlock_limited" + who + "1", soft, "roce_process_pinned_bytes" + who + "57344"},
        "pid 77 ior",
        "56 KiB of 64 KiB"},
       {"memlock-headroom",
        "under 80 %",
        {},
        {"roce_process_memlock_limited" + who + "1", soft, "roce_process_pinned_bytes" + who + "52000"},
        ""},
       {"memlock-headroom",
        "not limited",
        {},
        {"roce_process_memlock_limited" + who + "0", soft, "roce_process_pinned_bytes" + who + "65536"},
        ""},
       {"memlock-default-low",
        "8 MiB",
        {},
        {R"(roce_service_memlock_default_bytes{limit="soft",source="init"} 8388608)"},
        "host",
        "8 MiB",
        30,
        Status::kInfo},
       {"memlock-default-low",
        "unlimited",
        {},
        {R"(roce_service_memlock_default_bytes{limit="soft",source="config"} +Inf)"},
        ""}});
  const std::string pool = R"(roce_hugepages_allocated{size="2MB"} )";
  const std::string spare = R"(roce_hugepages_free{size="2MB"} )";
  const std::string promised = R"(roce_hugepages_reserved{size="2MB"} )";
  add({{"hugepages-exhausted", "none free", {}, {pool + "8", spare + "0", promised + "0"}, "2MB", "0 of 8"},
       {"hugepages-exhausted", "all promised", {}, {pool + "8", spare + "4", promised + "4"}, "2MB"},
       {"hugepages-exhausted", "one left", {}, {pool + "8", spare + "5", promised + "4"}, ""},
       {"hugepages-exhausted", "no pool", {}, {pool + "0", spare + "0", promised + "0"}, ""}});
  const std::string beside = R"(roce_numa_device_info{node="1",device="mlx5_0"} 1)";
  const auto numa = [](int node, int pages) {
    return R"(roce_numa_hugepages_allocated{node=")" + std::to_string(node) + R"(",size="1GB"} )" +
           std::to_string(pages);
  };
  add({{"hugepages-remote",
        "on the other node",
        {},
        {beside, numa(0, 4), numa(1, 0)},
        "1GB node 1",
        "another node has 4"},
       {"hugepages-remote", "on both", {}, {beside, numa(0, 4), numa(1, 1)}, ""},
       {"hugepages-remote", "nowhere", {}, {beside, numa(0, 0), numa(1, 0)}, ""}});
  add(counter("hugepages-cgroup", R"(roce_cgroup_hugetlb_failures_total{cgroup="/job",size="2MB"})", 1, "2MB /job"));
  add({{"shm-segments",
        "at the limit",
        {},
        {"roce_sysv_shm_segments 16", "roce_sysv_shm_segments_limit 16"},
        "host",
        "16 of 16"},
       {"shm-segments",
        "near the limit",
        {},
        {"roce_sysv_shm_segments 3892", "roce_sysv_shm_segments_limit 4096"},
        "host",
        "3892 of 4096"},
       {"shm-segments", "95 %", {}, {"roce_sysv_shm_segments 3891", "roce_sysv_shm_segments_limit 4096"}, ""},
       {"shm-segments", "below", {}, {"roce_sysv_shm_segments 15", "roce_sysv_shm_segments_limit 16"}, ""},
       {"cpu-interrupts",
        "twice",
        {"roce_cpu_busiest_interrupt_ratio 0.95"},
        {"roce_cpu_busiest_interrupt_ratio 0.97"},
        "host",
        "95 %"},
       {"cpu-interrupts",
        "once",
        {"roce_cpu_busiest_interrupt_ratio 0.2"},
        {"roce_cpu_busiest_interrupt_ratio 0.97"},
        ""},
       {"idle-states",
        "deep",
        {},
        {"roce_cpu_idle_deepest_latency_seconds 0.000133"},
        "host",
        "133 us",
        30,
        Status::kInfo},
       {"idle-states", "shallow", {}, {"roce_cpu_idle_deepest_latency_seconds 0.00001"}, ""},
       {"cpu-governor",
        "acpi",
        {},
        {R"(roce_cpu_governor_cpus{driver="acpi-cpufreq",governor="powersave"} 8)"},
        "host",
        "8 CPUs",
        30,
        Status::kInfo},
       {"cpu-governor", "pstate", {}, {R"(roce_cpu_governor_cpus{driver="intel_pstate",governor="powersave"} 8)"}, ""},
       {"numa-balancing",
        "on",
        {},
        {R"(roce_kernel_setting{setting="kernel.numa_balancing"} 1)"},
        "host",
        "= 1",
        30,
        Status::kInfo},
       {"numa-balancing", "off", {}, {R"(roce_kernel_setting{setting="kernel.numa_balancing"} 0)"}, ""}});
  const auto irq = [](const std::string& where, int n) {
    return R"(roce_completion_interrupts_total{device="mlx5_0",locality=")" + where + "\"} " + std::to_string(n);
  };
  add({{"interrupts-remote",
        "most",
        {irq("local", 0), irq("remote", 0)},
        {irq("local", 400), irq("remote", 600)},
        "mlx5_0",
        "60 %",
        30,
        Status::kInfo},
       {"interrupts-remote", "few", {irq("local", 0), irq("remote", 0)}, {irq("local", 600), irq("remote", 400)}, ""}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, CheckTest, testing::ValuesIn(looks()), [](const auto& look) {
  std::string name = std::to_string(look.index) + "_" + look.param.check + "_" + look.param.name;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(CheckTableTest, EveryBuiltInCheckIsSeenFiringAndQuiet) {
  std::set<std::string> fires;
  std::set<std::string> quiet;
  for (const Look& look : looks()) (look.object.empty() ? quiet : fires).insert(look.check);
  for (const Check& check : all_checks()) {
    if (check.judge == nullptr) continue;
    EXPECT_TRUE(fires.contains(std::string(check.id))) << check.id;
    EXPECT_TRUE(quiet.contains(std::string(check.id))) << check.id;
  }
}

TEST(CheckTableTest, RowsKeepTheirRules) {
  std::set<std::string_view> ids;
  for (const Check& check : all_checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id;
    for (const std::string_view text :
         {check.summary, check.expected, check.next_step, check.explanation, check.source})
      EXPECT_FALSE(text.empty()) << check.id;
    EXPECT_THAT((std::set<std::string_view>{"fault", "drift", "capacity", "unknown"}),
                testing::Contains(check.finding_class))
        << check.id;
    if (check.finding_class == "drift") {
      EXPECT_NE(check.severity, Status::kCritical) << check.id;
    }
    for (std::string_view list : {check.reads, check.moves})
      while (!list.empty()) {
        const std::size_t blank = std::min(list.find(' '), list.size());
        const std::string_view word = list.substr(0, blank);
        const std::string_view name = word.substr(0, word.find('{'));
        list.remove_prefix(std::min(list.size(), blank + 1));
        bool known = false;
        for (const MetricDesc& metric : all_metrics()) known = known || metric.name == name;
        EXPECT_TRUE(known) << check.id << ": " << name;
        EXPECT_THAT(std::string(check.reads), HasSubstr(std::string(name))) << check.id;
      }
  }
}

TEST(CheckTableTest, WhatIsWatchedIsKnownAndNoneIsWatchedTwice) {
  std::set<std::pair<const MetricDesc*, std::string_view>> seen;
  bool one_counter = false;
  for (const History::Watched& watched : watched_families()) {
    ASSERT_NE(watched.metric, nullptr);
    EXPECT_TRUE(seen.emplace(watched.metric, watched.value).second) << watched.metric->name;
    // Drivers have dozens of these on each of hundreds of functions.
    if (watched.metric == &metric::driver_counter)
      one_counter = watched.label == "counter" && watched.value == "completer_retry_err";
  }
  EXPECT_TRUE(one_counter);
}

TEST(JudgeTest, AnEmptyPageIsOk) {
  Bench bench;
  bench.sources.clear();
  bench.page({});
  const Verdict verdict = bench.judge(nullptr, true);
  EXPECT_EQ(verdict.status, Status::kOk);
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_TRUE(verdict.second_sample);
}

TEST(JudgeTest, AdviceChangesNoStatusAndIsNotAskedForByDefault) {
  Bench bench;
  bench.page({R"(roce_kernel_setting{setting="kernel.numa_balancing"} 1)"});
  EXPECT_TRUE(bench.judge().findings.empty());
  const Verdict verdict = bench.judge(nullptr, true);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.status, Status::kOk);
}

TEST(JudgeTest, TheWorstComesFirstAndMakesTheStatus) {
  Bench bench;
  bench.page(
      {R"(roce_pcie_max_read_request_bytes{device="mlx5_0"} 128)", R"(roce_pcie_device_lost{device="mlx5_0"} 1)"});
  const Verdict verdict = bench.judge();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings[0].id, "device-lost");
  EXPECT_EQ(verdict.status, Status::kCritical);
  EXPECT_EQ(worse(Status::kUnknown, Status::kCritical), Status::kCritical);
  EXPECT_EQ(worse(Status::kUnknown, Status::kWarning), Status::kUnknown);
  EXPECT_EQ(worse(Status::kInfo, Status::kOk), Status::kInfo);
}

TEST(JudgeTest, AFailingSourceLeavesItsChecksOpen) {
  Bench bench;
  bench.sources = {{"rdma_port", "mlx5_0", true, "", ""}, {"pcie", "mlx5_0", false, "timeout", "no answer"}};
  bench.page({kUp});
  const Verdict verdict = bench.judge();
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "source-failing");
  EXPECT_EQ(verdict.findings[0].object, "pcie/mlx5_0");
  EXPECT_EQ(verdict.status, Status::kWarning);
  bool open = false;
  for (const NotJudged& n : verdict.not_judged) open = open || n.id == "pcie-degraded";
  EXPECT_TRUE(open);
}

TEST(JudgeTest, WhatIsFoundOfAWholeDeviceIsNotOpenToo) {
  Bench bench;
  bench.sources = {{"rdma_port", "mlx5_0", true, "", ""},
                   {"pcie", "mlx5_0", false, "lost", "mlx5_0: reads all ones: lost"},
                   {"dcb", "eth0", false, "not_recorded", ""}};
  bench.page({kUp, R"(roce_pcie_device_lost{device="mlx5_0"} 1)"});
  const Verdict verdict = bench.judge();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings[0].id, "device-lost");
  EXPECT_EQ(verdict.findings[0].runbook, "packaging/docs/checks.md#device-lost");
  EXPECT_EQ(verdict.findings[1].found, "lost: mlx5_0: reads all ones") << "the kind once";
  std::set<std::string> of_pcie;
  for (const NotJudged& n : verdict.not_judged)
    if (n.object == "mlx5_0")
      of_pcie.insert(n.id);
    else
      EXPECT_EQ(n.reason, "source dcb is not in the recording");
  EXPECT_TRUE(of_pcie.contains("pcie-degraded"));
  EXPECT_FALSE(of_pcie.contains("device-lost"));
}

TEST(JudgeTest, WithoutTheStateOfAPortNothingIsKnown) {
  Bench bench;
  bench.sources = {{"hw_counters", "mlx5_0", true, "", ""}, {"rdma_port", "mlx5_0", false, "rtnl_blocked", ""}};
  bench.page({});
  EXPECT_EQ(bench.judge().status, Status::kUnknown);
}

TEST(JudgeTest, FindingsOfOneCheckAreBounded) {
  Bench bench;
  std::vector<std::string> lines;
  for (int i = 0; i < 1000; ++i) lines.push_back("roce_pcie_device_lost{device=\"mlx5_" + std::to_string(i) + "\"} 1");
  bench.page(lines);
  const Verdict verdict = bench.judge();
  EXPECT_EQ(verdict.findings.size(), 200U);
  EXPECT_EQ(verdict.findings.back().object, "others");
}

TEST(PageViewTest, FindsByItsLabelsInTheOrderOfThePage) {
  Bench bench;
  bench.page({R"(roce_pfc_enabled{device="a",port="1",netdev="eth0",priority="3"} 1)",
              R"(roce_pfc_enabled{device="b",port="1",netdev="eth1",priority="3"} 0)",
              R"(roce_pfc_enabled{device="a",port="1",netdev="eth0",priority="4"} 0)"});
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  const auto of_a = view.with(metric::pfc_enabled, "device", "a");
  const auto lossless = view.with(metric::pfc_enabled, "priority", "3");
  ASSERT_EQ(of_a.size(), 2U);
  EXPECT_EQ(of_a[0]->label("priority"), "3");
  EXPECT_EQ(of_a[1]->label("priority"), "4");
  ASSERT_EQ(lossless.size(), 2U);
  EXPECT_EQ(lossless[1]->label("netdev"), "eth1");
  EXPECT_EQ(view.find(metric::pfc_enabled, {{"netdev", "eth0"}, {"priority", "4"}}), of_a[1]);
  EXPECT_EQ(view.find(metric::pfc_enabled, {{"netdev", "eth0"}, {"priority", "5"}}), nullptr);
  EXPECT_EQ(view.find(metric::pfc_enabled, {{"netdev", "eth2"}}), nullptr);
  EXPECT_EQ(view.find(metric::port_state, {{"device", "a"}}), nullptr);
  EXPECT_TRUE(view.with(metric::pfc_enabled, "no_such_label", "x").empty());
}

TEST(HistoryTest, LooksBackOverTheSpanAndNotFurther) {
  Bench bench;
  const std::string series = "roce_port_symbol_errors_total" + kPort;
  bench.page({series + "0"});
  bench.page({series + "100"}, 30);
  for (int i = 0; i < 8; ++i) bench.page({series + "100"}, 30);
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  const Series& now = view.of(metric::port_symbol_errors)[0];
  EXPECT_EQ(bench.history().growth(now, std::chrono::seconds(60))->increase, 0);
  EXPECT_EQ(bench.history().growth(now, std::chrono::seconds(600))->increase, 100);
  EXPECT_TRUE(bench.judge().findings.empty());
}

TEST(HistoryTest, WhatStoodStillAndMovesCountsFromTheSpansBegin) {
  Bench bench;
  const std::string series = "roce_port_symbol_errors_total" + kPort;
  for (int i = 0; i < 40; ++i) bench.page({series + "7"}, 15);
  bench.page({series + "9"}, 15);
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  const Series& now = view.of(metric::port_symbol_errors)[0];
  for (const int span : {60, 180, 600}) {
    const auto growth = bench.history().growth(now, std::chrono::seconds(span));
    ASSERT_TRUE(growth);
    EXPECT_EQ(growth->increase, 2);
    EXPECT_EQ(growth->seconds, span);
  }
  EXPECT_EQ(bench.history().least(now, std::chrono::seconds(60)), 7);
}

TEST(HistoryTest, WhatWasAwayForLongBeginsAnew) {
  Bench bench;
  const std::string series = "roce_port_symbol_errors_total" + kPort;
  bench.page({series + "7"});
  bench.page({series + "7"}, 30);
  bench.page({series + "900"}, 3600);
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  EXPECT_FALSE(bench.history().growth(view.of(metric::port_symbol_errors)[0], std::chrono::seconds(600)));
}

TEST(HistoryTest, KeepsTenMinutesInBoundedMemoryHoweverOftenItIsAsked) {
  Bench bench;
  const std::string series = "roce_netdev_carrier_down_total" + kNet;
  int value = 0;
  for (int i = 0; i < 2000; ++i) bench.page({series + std::to_string(value += i % 100 == 0)}, 1);
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  const auto growth = bench.history().growth(view.of(metric::netdev_carrier_down)[0], std::chrono::seconds(600));
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->seconds, 610, 30);
  EXPECT_NEAR(growth->increase, 6, 1);
}

TEST(HistoryTest, APortThatWasActiveIsRememberedUntilAnotherCardHasItsName) {
  Bench bench;
  const auto card = [](const std::string& address) {
    return R"(roce_device_info{device="mlx5_0",pci_address="0000:)" + address + R"(:00.0"} 1)";
  };
  const std::string down = "roce_port_state" + kPort + "1";
  bench.page({kUp, card("17")});
  for (int i = 0; i < 100; ++i) bench.page({down, card("17")}, 60);
  EXPECT_EQ(bench.judge().findings.size(), 1U);
  bench.page({down, card("65")}, 60);
  EXPECT_TRUE(bench.judge().findings.empty());
}

TEST(HistoryTest, WhatComesRightAfterARestartCountsHoweverOftenItIsAsked) {
  for (const int interval : {1, 7, 15, 30}) {
    Bench bench;
    const std::string series = "roce_port_symbol_errors_total" + kPort;
    for (int i = 0; i < 30; ++i) bench.page({series + "500"}, interval);
    bench.page({series + "0"}, interval);
    for (int i = 0; i < 3; ++i) bench.page({series + "12"}, interval);
    const SampleBatch* const batches[] = {&bench.batch()};
    const PageView view(batches);
    const auto growth =
        bench.history().growth(view.of(metric::port_symbol_errors)[0], std::chrono::seconds(10 * interval));
    ASSERT_TRUE(growth) << interval;
    EXPECT_EQ(growth->increase, 12) << interval;
  }
}

TEST(HistoryTest, AnIncreaseBeforeARestartCounts) {
  Bench bench;
  const std::string series = "roce_port_symbol_errors_total" + kPort;
  bench.page({series + "10"});
  bench.page({series + "15"}, 30);
  bench.page({series + "2"}, 30);
  bench.page({series + "3"}, 30);
  const SampleBatch* const batches[] = {&bench.batch()};
  EXPECT_EQ(
      bench.history().growth(PageView(batches).of(metric::port_symbol_errors)[0], std::chrono::seconds(600))->increase,
      6);
}

}  // namespace
}  // namespace roce

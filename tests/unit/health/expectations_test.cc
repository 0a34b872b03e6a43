// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/expectations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/health/profile_init.h"
#include "tests/unit/health/bench.h"

namespace roce {
namespace {

using testing::HasSubstr;

const std::string kInfo =
    R"(roce_device_info{device="mlx5_0",driver="mlx5_core",pci_address="0000:17:00.0",firmware="28.1"} 1)";
const std::string kUp = R"(roce_port_state{device="mlx5_0",port="1"} 4)";

struct Row {
  std::string name;
  std::string profile;  // of the device, or whole where it begins with a key at the top
  std::vector<std::string> page;
  std::string check;
  std::string object;
  int met;  // 1, 0; -1: not judged
  std::string found{};
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class ExpectationTest : public testing::TestWithParam<Row> {};

TEST_P(ExpectationTest, IsJudgedAsThePageShows) {
  const Row& row = GetParam();
  const std::string text = looks_like_profile(row.profile)
                               ? row.profile
                               : "devices: [{pci_address: \"0000:17:00.0\", role: storage, " + row.profile + "}]\n";
  const auto profile = parse_profile(text, "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  std::vector<std::string> lines = row.page;
  if (row.check == "device-missing")
    bench.devices = lines.size();
  else
    lines.push_back(kInfo);
  bench.page(lines);
  const Verdict verdict = bench.judge(&*profile);
  std::vector<Finding> findings;
  for (const Finding& f : verdict.findings)
    if (f.id == row.check) findings.push_back(f);
  const bool open = std::any_of(verdict.not_judged.begin(), verdict.not_judged.end(),
                                [&](const NotJudged& n) { return n.id == row.check && n.object == row.object; });
  EXPECT_EQ(open, row.met == -1);
  if (row.met != 0) {
    EXPECT_TRUE(findings.empty()) << findings[0].found;
    return;
  }
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].object, row.object);
  EXPECT_THAT(findings[0].found, HasSubstr(row.found));
  EXPECT_THAT(findings[0].expected, HasSubstr("(profile)"));
  if (findings[0].finding_class == "drift") {
    EXPECT_EQ(findings[0].severity, Status::kWarning);
  }
}

std::string rate(double gbps) {
  return R"(roce_port_rate_bytes_per_second{device="mlx5_0",port="1"} )" + std::to_string(gbps * 125e6);
}
std::string net(const std::string& family, const std::string& value, const std::string& more = "") {
  return family + R"({device="mlx5_0",port="1",netdev="eth0")" + more + "} " + value;
}
std::string link(const std::string& family, const std::string& value) {
  return family + R"({device="mlx5_0",pci_address="0000:17:00.0",upstream_address="0000:16:00.0"} )" + value;
}

INSTANTIATE_TEST_SUITE_P(
    All, ExpectationTest,
    testing::Values(
        Row{"DeviceThere", "mtu: 1500", {kInfo}, "device-missing", "0000:17:00.0", 1},
        Row{"DeviceMissing", "mtu: 1500", {}, "device-missing", "0000:17:00.0", 0, "no such RDMA device"},
        Row{"PortThere", "ports: [1]", {kUp}, "port-down", "mlx5_0/1", 1},
        Row{"PortNotThere", "ports: [1, 2]", {kUp}, "port-down", "mlx5_0/2", 0, "no such port"},
        Row{"PortsNotCollected", "ports: [1]", {}, "port-down", "mlx5_0/1", -1},
        Row{"PortWithoutAState",
            "ports: [1, 2]",
            {kUp, R"(roce_port_info{device="mlx5_0",port="2"} 1)"},
            "port-down",
            "mlx5_0/2",
            -1},
        Row{"RateMet", "rate: 200", {kUp, rate(200)}, "rate", "mlx5_0/1", 1},
        Row{"RateHigher", "rate: 200", {kUp, rate(400)}, "rate", "mlx5_0/1", 1},
        Row{"RateLower", "rate: 200", {kUp, rate(100)}, "rate", "mlx5_0/1", 0, "100 Gb/s"},
        Row{"RateOfADownPortIsInvented",
            "rate: 200",
            {R"(roce_port_state{device="mlx5_0",port="1"} 1)", rate(40)},
            "rate",
            "mlx5_0/1",
            1},
        Row{"MtuMet", "mtu: 9000", {net("roce_netdev_mtu_bytes", "9000")}, "mtu", "mlx5_0/1", 1},
        Row{"MtuLower", "mtu: 9000", {net("roce_netdev_mtu_bytes", "1500")}, "mtu", "mlx5_0/1", 0, "1500 bytes"},
        Row{"MtuNotTold", "mtu: 9000", {kUp}, "mtu", "mlx5_0", -1},
        Row{"PathMtu", "path_mtu: 4096", {net("roce_path_mtu_bytes", "1024")}, "path-mtu", "mlx5_0/1", 0, "1024 bytes"},
        Row{"LanesMet", "pcie: {lanes: 8}", {link("roce_pcie_link_lanes", "16")}, "pcie-lanes", "mlx5_0", 1},
        Row{"LanesFewer", "pcie: {lanes: 16}", {link("roce_pcie_link_lanes", "8")}, "pcie-lanes", "mlx5_0", 0, "x8"},
        Row{"SpeedLower",
            "pcie: {speed: 32}",
            {link("roce_pcie_link_transfers_per_second", "8e9")},
            "pcie-speed",
            "mlx5_0",
            0,
            "8 GT/s"},
        Row{"ReadRequestDenied", "max_read_request: 4096", {kUp}, "max-read-request", "mlx5_0", -1},
        Row{"ReadRequestLower",
            "max_read_request: 4096",
            {R"(roce_pcie_max_read_request_bytes{device="mlx5_0"} 512)"},
            "max-read-request",
            "mlx5_0",
            0,
            "512"},
        Row{"PfcMet",
            "pfc_priorities: [3]",
            {net("roce_pfc_enabled", "1", ",priority=\"3\""), net("roce_pfc_enabled", "0", ",priority=\"4\"")},
            "pfc-priorities",
            "mlx5_0/1",
            1},
        Row{"PfcOther",
            "pfc_priorities: [3]",
            {net("roce_pfc_enabled", "0", ",priority=\"3\""), net("roce_pfc_enabled", "1", ",priority=\"4\"")},
            "pfc-priorities",
            "mlx5_0/1",
            0,
            "4"},
        Row{"PfcNone",
            "pfc_priorities: []",
            {net("roce_pfc_enabled", "1", ",priority=\"3\"")},
            "pfc-priorities",
            "mlx5_0/1",
            0,
            "3"},
        Row{"DscpMet",
            "dscp: {26: 3, 48: 6}",
            {net("roce_dscp_entries", "64"), net("roce_dscp_priority", "3", ",dscp=\"26\"")},
            "dscp-map",
            "mlx5_0/1",
            1},
        Row{"DscpOther",
            "dscp: {26: 4}",
            {net("roce_dscp_entries", "64"), net("roce_dscp_priority", "3", ",dscp=\"26\"")},
            "dscp-map",
            "mlx5_0/1",
            0,
            "26 to 3"},
        Row{"DscpNotInTheMap",
            "dscp: {26: 3}",
            {net("roce_dscp_entries", "1"), net("roce_dscp_priority", "6", ",dscp=\"48\"")},
            "dscp-map",
            "mlx5_0/1",
            0,
            "26 to 0"},
        Row{"DscpByDefault",
            "dscp: {26: 3}",
            {net("roce_dscp_entries", "1"), net("roce_dcb_app_priority", "3", ",application=\"default\"")},
            "dscp-map",
            "mlx5_0/1",
            1},
        Row{"PfcOfOneLegOfABond",
            "pfc_priorities: [3]",
            {net("roce_pfc_enabled", "1", ",priority=\"3\""),
             R"(roce_pfc_enabled{device="mlx5_0",port="1",netdev="eth1",priority="3"} 0)"},
            "pfc-priorities",
            "mlx5_0/1",
            0,
            "none"},
        Row{"DscpNoMap", "dscp: {26: 3}", {net("roce_dscp_entries", "0")}, "dscp-map", "mlx5_0/1", 0, "VLAN"},
        Row{"EcnOff",
            "ecn: true, pfc_priorities: [3]",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"3\""),
             net("roce_ecn_enabled", "1", ",point=\"notification\",priority=\"\"")},
            "ecn",
            "mlx5_0/1",
            0,
            "reaction"},
        Row{"EcnNotificationOff",
            "ecn: true, pfc_priorities: [3]",
            {net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"3\""),
             net("roce_ecn_enabled", "0", ",point=\"notification\",priority=\"\"")},
            "ecn",
            "mlx5_0/1",
            0,
            "notification"},
        Row{"EcnWhereFlowControlIs",
            "ecn: true",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"3\""),
             net("roce_pfc_enabled", "1", ",priority=\"3\"")},
            "ecn",
            "mlx5_0/1",
            1},
        Row{"EcnOfAnyPriority",
            "ecn: true",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"3\"")},
            "ecn",
            "mlx5_0/1",
            1},
        Row{"EcnOfNoPriority",
            "ecn: true",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"3\"")},
            "ecn",
            "mlx5_0/1",
            0,
            "reaction"},
        Row{"EcnOfThePriorityNotTold",
            "ecn: true, pfc_priorities: [3]",
            {net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "1", ",point=\"notification\",priority=\"\"")},
            "ecn",
            "mlx5_0/1",
            -1},
        Row{"EcnNotWanted",
            "ecn: false",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"3\"")},
            "ecn",
            "mlx5_0/1",
            0,
            "priority 3"},
        Row{"EcnOtherPriority",
            "ecn: true, pfc_priorities: [3]",
            {net("roce_ecn_enabled", "0", ",point=\"reaction\",priority=\"0\""),
             net("roce_ecn_enabled", "1", ",point=\"reaction\",priority=\"3\"")},
            "ecn",
            "mlx5_0/1",
            1},
        Row{"EcnNotTold", "ecn: true", {kUp}, "ecn", "mlx5_0", -1},
        Row{"Firmware", "firmware: \"28.2\"", {}, "firmware", "mlx5_0", 0, "28.1"},
        Row{"MemlockMet",
            "host: {memlock: 64KiB}",
            {"roce_processes 1", R"(roce_process_memlock_limited{pid="7",comm="x"} 1)",
             R"(roce_process_memlock_limit_bytes{pid="7",comm="x",limit="soft"} 65536)"},
            "memlock",
            "host",
            1},
        Row{"MemlockLow",
            "host: {memlock: unlimited}",
            {"roce_processes 1", R"(roce_process_memlock_limited{pid="7",comm="x"} 1)",
             R"(roce_process_memlock_limit_bytes{pid="7",comm="x",limit="soft"} 65536)"},
            "memlock",
            "host",
            0,
            "64 KiB for process 7 x"},
        Row{"MemlockNotLimited",
            "host: {memlock: unlimited}",
            {"roce_processes 1", R"(roce_process_memlock_limited{pid="7",comm="x"} 0)",
             R"(roce_process_memlock_limit_bytes{pid="7",comm="x",limit="soft"} 65536)"},
            "memlock",
            "host",
            1},
        Row{"MemlockOfAProcessThatIsDenied",
            "host: {memlock: 64KiB}",
            {"roce_processes 2", R"(roce_process_memlock_limited{pid="7",comm="x"} 0)"},
            "memlock",
            "host",
            -1},
        Row{"MemlockOfProcessesLeftOut",
            "host: {memlock: 64KiB}",
            {"roce_processes 2", "roce_processes_left_out 1", R"(roce_process_memlock_limited{pid="7",comm="x"} 0)"},
            "memlock",
            "host",
            1},
        Row{"MemlockOfAHiddenProcess",
            "host: {memlock: 64KiB}",
            {"roce_processes 1", "roce_process_hidden_contexts 1",
             R"(roce_process_memlock_limited{pid="7",comm="x"} 0)"},
            "memlock",
            "host",
            -1},
        Row{"HugepagesOfANodeNotTold",
            "host: {hugepages: [{size: 1GiB, pages: 1, node: 18}]}",
            {R"(roce_hugepages_allocated{size="1GB"} 8)", R"(roce_numa_hugepages_allocated{node="1",size="1GB"} 8)"},
            "hugepages",
            "1GB node 18",
            -1},
        Row{"Hugepages",
            "host: {hugepages: [{size: 2MiB, pages: 9}]}",
            {R"(roce_hugepages_allocated{size="2MB"} 8)"},
            "hugepages",
            "2MB",
            0,
            "8 pages"},
        Row{"HugepagesOfNode",
            "host: {hugepages: [{size: 1GiB, pages: 1, node: 1}]}",
            {R"(roce_hugepages_allocated{size="1GB"} 8)", R"(roce_numa_hugepages_allocated{node="1",size="1GB"} 0)"},
            "hugepages",
            "1GB node 1",
            0,
            "0 pages"},
        Row{"HugepagesOfUnknownSize",
            "host: {hugepages: [{size: 1GiB, pages: 1}]}",
            {R"(roce_hugepages_allocated{size="2MB"} 8)"},
            "hugepages",
            "1GB",
            0,
            "0 pages"},
        Row{"Queues",
            "nvme: {io_queues: 8}",
            {R"(roce_nvme_controller_io_queues{controller="nvme0",subsystem="s"} 1)"},
            "nvme-io-queues",
            "nvme0",
            0,
            "1"},
        Row{"QueuesMet",
            "nvme: {io_queues: 8}",
            {R"(roce_nvme_controller_io_queues{controller="nvme0",subsystem="s"} 9)"},
            "nvme-io-queues",
            "nvme0",
            1},
        Row{"Depth",
            "nvme: {queue_depth: 128}",
            {R"(roce_nvme_controller_queue_depth{controller="nvme0",subsystem="s"} 16)"},
            "nvme-queue-depth",
            "nvme0",
            0,
            "16"},
        Row{"KeepAlive",
            "nvme: {keep_alive: 5}",
            {R"(roce_nvme_controller_keep_alive_seconds{controller="nvme0",subsystem="s"} 10)"},
            "nvme-keep-alive",
            "nvme0",
            0,
            "10 s"},
        Row{"LossTimeout",
            "nvme: {loss_timeout: off}",
            {R"(roce_nvme_controller_loss_timeout_seconds{controller="nvme0",subsystem="s"} 600)"},
            "nvme-loss-timeout",
            "nvme0",
            0,
            "600 s"},
        Row{"LossTimeoutOff",
            "nvme: {loss_timeout: off}",
            {R"(roce_nvme_controller_loss_timeout_seconds{controller="nvme0",subsystem="s"} +Inf)"},
            "nvme-loss-timeout",
            "nvme0",
            1},
        Row{"ReconnectDelay",
            "nvme: {reconnect_delay: 10}",
            {R"(roce_nvme_controller_reconnect_delay_seconds{controller="nvme0",subsystem="s"} 128)"},
            "nvme-reconnect-delay",
            "nvme0",
            0,
            "128 s"}),
    [](const auto& row) { return row.param.name; });

// A device whose description hangs, or a list that cannot be read, is no missing device.
TEST(ExpectationTest, ADeviceThatCannotBeReadIsNotMissing) {
  const auto profile = parse_profile("devices: [{pci_address: \"0000:18:00.0\", role: storage}]\n", "p.yml");
  ASSERT_TRUE(profile.has_value());
  const auto judged = [&](Bench& bench) {
    bench.page({kInfo});
    const Verdict verdict = bench.judge(&*profile);
    return std::none_of(verdict.findings.begin(), verdict.findings.end(),
                        [](const Finding& f) { return f.id == "device-missing"; })
               ? "open"
               : "missing";
  };
  Bench all;
  EXPECT_STREQ(judged(all), "missing");
  Bench slow;
  slow.devices = 2;
  EXPECT_STREQ(judged(slow), "open");
  Bench unlisted;
  unlisted.sources.push_back({"inventory", "", false, "io", "sys/class/infiniband"});
  EXPECT_STREQ(judged(unlisted), "open");
}

// What could not be read of the host's huge pages is not 0.
TEST(ExpectationTest, HugePagesThatCannotBeReadAreNotNone) {
  const auto profile = parse_profile("host: {hugepages: [{size: 1GiB, pages: 1}]}\n", "p.yml");
  ASSERT_TRUE(profile.has_value());
  Bench bench;
  bench.page({kInfo, R"(roce_hugepages_allocated{size="2MB"} 8)"});
  EXPECT_EQ(bench.judge(&*profile).findings.size(), 1U);
  bench.sources.push_back({"hugepages", "", false, "io", "nr_hugepages"});
  const Verdict verdict = bench.judge(&*profile);
  EXPECT_TRUE(std::none_of(verdict.findings.begin(), verdict.findings.end(),
                           [](const Finding& f) { return f.id == "hugepages"; }));
}

TEST(ExpectationsTest, AStorageDeviceThatIsMissingOrDownIsCritical) {
  const auto profile = parse_profile(
      "devices: [{device: a, role: storage}, {device: b, role: compute}, {device: mlx5_0, role: storage}]\n", "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  bench.page({kInfo, R"(roce_port_state{device="mlx5_0",port="1"} 1)"});
  const Verdict verdict = bench.judge(&*profile);
  ASSERT_EQ(verdict.findings.size(), 3U);
  EXPECT_EQ(verdict.findings[0].id, "port-down");
  EXPECT_EQ(verdict.findings[0].severity, Status::kCritical);
  EXPECT_EQ(verdict.findings[1].object, "a");
  EXPECT_EQ(verdict.findings[1].severity, Status::kCritical);
  EXPECT_EQ(verdict.findings[2].object, "b");
  EXPECT_EQ(verdict.findings[2].severity, Status::kWarning);
}

// Which of the ports of a device are found down, and what the metric says of them: "1:0 3:1".
std::pair<std::string, std::string> ports_of(const std::string& device, const std::vector<std::string>& page,
                                             const std::vector<SourceState>& more = {}) {
  const auto profile = parse_profile("devices: [{device: mlx5_0, " + device + "}]\n", "p.yml");
  EXPECT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  bench.sources.insert(bench.sources.end(), more.begin(), more.end());
  std::vector<std::string> lines = page;
  lines.push_back(kInfo);
  bench.page(lines);
  std::pair<std::string, std::string> out;
  for (const Finding& f : bench.judge(&*profile).findings)
    if (f.id == "port-down") out.first += (out.first.empty() ? "" : " ") + f.object;
  const SampleBatch* const batches[] = {&bench.batch()};
  const PageView view(batches);
  Verdict ignored;
  ignored.sources = bench.sources;
  for (const Expectation& e : compare(CheckContext(view, nullptr, &*profile, ignored.sources, ignored), *profile))
    if (e.check == "port-down" && e.met) out.second += e.object.substr(7) + (*e.met ? ":1 " : ":0 ");
  return out;
}

TEST(ExpectationsTest, PortsAreExpectedAsDeclaredElseWhereTheyHadALink) {
  const auto state = [](int port, int value) {
    return R"(roce_port_state{device="mlx5_0",port=")" + std::to_string(port) + "\"} " + std::to_string(value);
  };
  const std::string lost2 = R"(roce_port_link_downed_total{device="mlx5_0",port="2"} 4)";
  const std::string session =
      R"(roce_nvme_controller_link_info{controller="nvme0",device="mlx5_0",port="1",netdev="eth0",found_by="route"} 1)";
  using Found = std::pair<std::string, std::string>;
  const std::vector<std::string> page{state(1, 1), state(2, 1), state(3, 4), lost2};
  EXPECT_EQ(ports_of("role: compute", page), Found("mlx5_0/2", "2:0 3:1 "));
  EXPECT_EQ(ports_of("ports: [3]", page), Found("", "3:1 "));
  EXPECT_EQ(ports_of("ports: [1, 3]", page), Found("mlx5_0/1", "1:0 3:1 "));
  EXPECT_EQ(ports_of("ports: []", page), Found("", ""));
  EXPECT_EQ(ports_of("ports: [3, 4]", page), Found("mlx5_0/4", "3:1 4:0 "));
  // A failure that left each port its state hides none; where a port has no state, there may be more of them.
  const std::vector<SourceState> failed{{"rdma_port", "mlx5_0", false, "io", ""}};
  EXPECT_EQ(ports_of("ports: [3, 4]", page, failed), Found("mlx5_0/4", "3:1 4:0 "));
  std::vector<std::string> unread = page;
  unread.push_back(R"(roce_port_info{device="mlx5_0",port="5"} 1)");
  EXPECT_EQ(ports_of("ports: [3, 4]", unread, failed), Found("", "3:1 "));
  // A storage device without any link is a fault; with one, its other ports may stay without a cable.
  EXPECT_EQ(ports_of("role: storage", {state(1, 1), state(2, 1)}).first, "mlx5_0/1 mlx5_0/2");
  EXPECT_EQ(ports_of("role: storage", {state(1, 1), state(2, 4)}).first, "");
  EXPECT_EQ(ports_of("role: storage", {state(1, 1), state(2, 1), session}).first, "mlx5_0/1");
}

TEST(ExpectationsTest, WhatIsBeyondTheLimitOfACheckTouchesNoOther) {
  std::string text = "devices:\n";
  for (int i = 0; i < 200; ++i) text += "  - {device: gone" + std::to_string(i) + ", role: compute}\n";
  text += "  - {device: mlx5_0, role: compute, firmware: \"99.9\"}\n";
  for (int i = 200; i < 203; ++i)
    text += "  - {device: gone" + std::to_string(i) + ", role: " + (i == 201 ? "storage" : "compute") + "}\n";
  const auto profile = parse_profile(text, "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  bench.page({kInfo, kUp});
  const Verdict verdict = bench.judge(&*profile);
  ASSERT_EQ(verdict.findings.size(), 201U);
  EXPECT_EQ(verdict.status, Status::kCritical);
  EXPECT_EQ(verdict.findings[0].object, "others");
  EXPECT_EQ(verdict.findings[0].severity, Status::kCritical);
  EXPECT_EQ(verdict.findings[0].found, "4 more; the first of them is gone199: no such RDMA device");
  const auto firmware = std::find_if(verdict.findings.begin(), verdict.findings.end(),
                                     [](const Finding& f) { return f.id == "firmware"; });
  ASSERT_NE(firmware, verdict.findings.end());
  EXPECT_EQ(firmware->object, "mlx5_0");
  EXPECT_EQ(firmware->found, "28.1");
}

TEST(ExpectationsTest, TheVerdictKnowsWhichDevicesThereAre) {
  const auto profile =
      parse_profile("devices: [{pci_address: \"0000:99:00.0\", device: mlx5_9}, {device: mlx5_0}]\n", "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  bench.sources.push_back({"qp", "mlx5_1", true, "", ""});
  bench.page({kInfo, kUp});
  const Verdict verdict = bench.judge(&*profile);
  EXPECT_THAT(verdict.names, testing::ElementsAre("0000:17:00.0", "mlx5_0", "mlx5_1"));
  EXPECT_THAT(verdict.declared, testing::ElementsAre("0000:99:00.0", "mlx5_0", "mlx5_9"));
}

TEST(ExpectationsTest, ADeclaredLowerRateIsNoFindingAmongFasterSiblings) {
  const auto profile = parse_profile("devices: [{device: mlx5_0, rate: 100}]\n", "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  Bench bench;
  const std::string card = R"(,driver="mlx5_core",hca_type="MT4129",board_id="B"} 1)";
  bench.page({R"(roce_device_info{device="mlx5_0")" + card, R"(roce_device_info{device="mlx5_1")" + card, kUp,
              R"(roce_port_state{device="mlx5_1",port="1"} 4)", rate(100),
              R"(roce_port_rate_bytes_per_second{device="mlx5_1",port="1"} 25e9)"});
  EXPECT_TRUE(bench.judge(&*profile).findings.empty());
  EXPECT_EQ(bench.judge().findings.size(), 1U);
}

}  // namespace
}  // namespace roce

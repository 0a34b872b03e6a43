// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace roce {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

MATCHER_P2(Counter, name, value, "") { return arg.name == name && arg.value == std::uint64_t{value}; }

class RdmaRecording : public ::testing::Test {
 protected:
  RdmaRecording() : dir_(std::filesystem::temp_directory_path() / ("roce-recording-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_ / "rdma");
  }
  ~RdmaRecording() override { std::filesystem::remove_all(dir_); }
  RdmaRecording(const RdmaRecording&) = delete;
  RdmaRecording& operator=(const RdmaRecording&) = delete;

  void write(const char* name, std::string_view text) { std::ofstream(dir_ / name) << text; }
  std::unique_ptr<RdmaSource> open() {
    auto source = open_rdma_recording(dir_.string());
    EXPECT_TRUE(source);
    return std::move(*source);
  }
  static RdmaDevice named(std::string name) {
    RdmaDevice device;
    device.name = std::move(name);
    return device;
  }

  std::filesystem::path dir_;
};

constexpr std::string_view kDevices = R"([
  {"ifindex":0,"ifname":"mlx5_0","node_type":"ca","protocol":"roce","fw":"28.40.1000",
   "node_guid":"0200:00ff:fe00:0028","sys_image_guid":"ffff:ffff:ffff:ffff","adaptive-moderation":"on",
   "caps":["RESIZE_MAX_WR","UNKNOWN"]},
  {"ifindex":4,"ifname":"rxe0","node_type":"ca","protocol":"roce","node_guid":"0","sys_image_guid":""}])";

TEST_F(RdmaRecording, NothingRecordedIsSaidByEachCall) {
  const auto rdma = open();
  EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->ports(named("a")).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->port_counters(named("a"), 1).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->counter_status(named("a"), 1).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->resources(named("a")).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->qp_counter_sets(named("a")).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(rdma->netns_mode().error().kind, ErrorKind::kNotRecorded);
}

TEST_F(RdmaRecording, FolderThatIsNotThereCannotBeOpened) {
  EXPECT_FALSE(open_rdma_recording((dir_ / "missing").string()));
}

TEST_F(RdmaRecording, Devices) {
  write("rdma/dev.json", kDevices);
  const auto devices = open()->devices();
  ASSERT_TRUE(devices) << devices.error().message();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[0].name, "mlx5_0");
  EXPECT_EQ((*devices)[0].firmware, "28.40.1000");
  EXPECT_EQ((*devices)[0].protocol, "roce");
  EXPECT_EQ((*devices)[0].node_guid, 0x020000fffe000028U);
  EXPECT_EQ((*devices)[0].sys_image_guid, kMax64);
  EXPECT_EQ((*devices)[1].index, 4U);
  EXPECT_EQ((*devices)[1].firmware, "");
}

TEST_F(RdmaRecording, PortsInBothSpellings) {
  write("rdma/link.json",
        R"([{"ifindex":0,"port":1,"ifname":"mlx5_0/1","state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth0",
             "netdev_index":5,"caps":["CM"]},
            {"ifindex":0,"port":2,"ifname":"mlx5_0","state":"DOWN","physical_state":"DISABLED"},
            {"ifindex":1,"ifname":"mlx5_1/3","state":"LATER","physical_state":"UNKNOWN"}])");
  const auto rdma = open();
  const auto ports = rdma->ports(named("mlx5_0"));
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 2U);
  EXPECT_EQ((*ports)[0].state, 4U);
  EXPECT_EQ((*ports)[0].physical_state, 5U);
  EXPECT_EQ((*ports)[0].netdev, "eth0");
  EXPECT_EQ((*ports)[0].netdev_index, 5U);
  EXPECT_EQ((*ports)[1].state, 1U);
  EXPECT_EQ((*ports)[1].physical_state, 3U);
  const auto other = rdma->ports(named("mlx5_1"));
  ASSERT_EQ(other->size(), 1U);
  EXPECT_EQ((*other)[0].port, 3U);
  EXPECT_EQ((*other)[0].state, std::nullopt);
  EXPECT_EQ((*other)[0].physical_state, std::nullopt);
  // The list of devices follows from the ports when it was not recorded itself.
  const auto devices = rdma->devices();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[0].port_count, 2U);
  EXPECT_EQ((*devices)[1].index, 1U);
}

TEST_F(RdmaRecording, ResourcesWithAndWithoutLimit) {
  write("rdma/resource.json", R"([{"ifindex":0,"ifname":"mlx5_0","pd":3,"cq":0,"qp":12,"qp-max":131072,"mr-max":5,
                                   "srq":7,"srq-max":0,"odd":"text"}])");
  const auto rdma = open();
  const auto all = rdma->resources(named("mlx5_0"));
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 4U);
  EXPECT_EQ((*all)[0].name, "pd");
  EXPECT_EQ((*all)[0].current, 3U);
  EXPECT_EQ((*all)[0].limit, std::nullopt);
  EXPECT_EQ((*all)[1].current, 0U);
  EXPECT_EQ((*all)[2].limit, 131072U);
  EXPECT_EQ((*all)[3].name, "srq");
  EXPECT_EQ((*all)[3].limit, std::nullopt);
  EXPECT_EQ(rdma->resources(named("mlx5_1")).error().kind, ErrorKind::kUnsupported);
}

TEST_F(RdmaRecording, CountersFromTheLoneTextAlsoOnFollowingLines) {
  write(
      "rdma_statistic.txt",
      "link mlx5_1/1 req_cqe_error 40019 req_cqe_flush_error 40000 \n    vendor_opt_a 1 \n\tlast 18446744073709551615\n"
      "link rxe0/1 sent_pkts 7 \n");
  const auto rdma = open();
  EXPECT_THAT(*rdma->port_counters(named("mlx5_1"), 1),
              ElementsAre(Counter("req_cqe_error", 40019U), Counter("req_cqe_flush_error", 40000U),
                          Counter("vendor_opt_a", 1U), Counter("last", kMax64)));
  EXPECT_THAT(*rdma->port_counters(named("rxe0"), 1), ElementsAre(Counter("sent_pkts", 7U)));
  EXPECT_EQ(rdma->port_counters(named("rxe0"), 2).error().kind, ErrorKind::kUnsupported);
  // Devices and ports exist although only the counters name them.
  const auto devices = rdma->devices();
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[0].name, "mlx5_1");
  EXPECT_NE((*devices)[0].index, (*devices)[1].index);
  const auto ports = rdma->ports(named("mlx5_1"));
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 1U);
  EXPECT_EQ((*ports)[0].port, 1U);
  EXPECT_EQ((*ports)[0].state, std::nullopt);
}

// The recorded field case of this repository: 32 counters, the last on a line of its own.
TEST_F(RdmaRecording, FieldCaseHoldsAllCounters) {
  auto rdma = open_rdma_recording(ROCE_SOURCE_DIR "/tests/cases/SE-12-flush-hides-root-error");
  ASSERT_TRUE(rdma);
  const auto counters = (*rdma)->port_counters(named("mlx5_1"), 1);
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->size(), 32U);
  EXPECT_THAT(counters->back(), Counter("vendor_opt_a", 1U));
  EXPECT_EQ((*rdma)->resources(named("mlx5_1")).error().kind, ErrorKind::kNotRecorded);
}

TEST_F(RdmaRecording, DevicesOfAllFilesAreOneList) {
  write("rdma/dev.json", kDevices);
  write("rdma/statistic.txt", "link mlx5_9/2 a 1\nlink mlx5_0/1 b 2\n");
  const auto rdma = open();
  const auto devices = rdma->devices();
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 3U);
  EXPECT_EQ((*devices)[0].firmware, "28.40.1000");
  EXPECT_EQ((*devices)[0].port_count, 1U);
  EXPECT_EQ((*devices)[2].name, "mlx5_9");
  EXPECT_EQ((*devices)[2].index, 5U);
  EXPECT_EQ((*devices)[2].port_count, 2U);
}

TEST_F(RdmaRecording, CountersAsJsonInTheDriversOrder) {
  write("rdma/statistic.json",
        R"([{"ifindex":0,"port":1,"ifname":"mlx5_0","z":1,"a":18446744073709551615,"text":"no"},
            {"ifname":"mlx5_1/2","b":0}])");
  const auto rdma = open();
  EXPECT_THAT(*rdma->port_counters(named("mlx5_0"), 1), ElementsAre(Counter("z", 1U), Counter("a", kMax64)));
  EXPECT_THAT(*rdma->port_counters(named("mlx5_1"), 2), ElementsAre(Counter("b", 0U)));
}

TEST_F(RdmaRecording, DamagedFileFailsItsOwnCallsOnly) {
  write("rdma/dev.json", kDevices);
  write("rdma/link.json", R"([{"ifname":"mlx5_0")");
  write("rdma/resource.json", R"(["text"])");
  write("rdma/statistic.txt", "Error: no device\n");
  write("rdma/system.txt", "netns odd\n");
  const auto rdma = open();
  EXPECT_TRUE(rdma->devices());
  EXPECT_EQ(rdma->ports(named("mlx5_0")).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(rdma->port_counters(named("mlx5_0"), 1).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(rdma->netns_mode().error().kind, ErrorKind::kMalformed);
  // Holds no object of a device: nothing is known of it.
  EXPECT_EQ(rdma->resources(named("mlx5_0")).error().kind, ErrorKind::kUnsupported);
}

TEST_F(RdmaRecording, ObjectWithoutNameIsMalformed) {
  write("rdma/dev.json", R"([{"ifindex":0}])");
  write("rdma/link.json", R"([{"ifname":"mlx5_0"}])");
  const auto rdma = open();
  EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(rdma->ports(named("mlx5_0")).error().kind, ErrorKind::kMalformed);
}

TEST_F(RdmaRecording, ToolThatPrintedNothingSawNoDevices) {
  write("rdma/dev.json", "");
  write("rdma/link.json", "[ ]\n");
  write("rdma/statistic.txt", "");
  const auto rdma = open();
  EXPECT_THAT(rdma->devices().value(), IsEmpty());
  EXPECT_THAT(rdma->ports(named("a")).value(), IsEmpty());
}

TEST_F(RdmaRecording, NetnsMode) {
  write("rdma_system.txt", "netns shared copy-on-fork on\n");
  EXPECT_EQ(open()->netns_mode().value(), NetnsMode::kShared);
  write("rdma/system.json", R"([{"netns":"exclusive","copy-on-fork":"on"}])");
  EXPECT_EQ(open()->netns_mode().value(), NetnsMode::kExclusive);
  // What -j gives where the tool has no JSON for it.
  write("rdma/system.json", "netns shared copy-on-fork on\n");
  EXPECT_EQ(open()->netns_mode().value(), NetnsMode::kShared);
}

TEST(RdmaStatisticText, SetsBoundToQps) {
  const auto all = parse_rdma_statistic_text(
      "link mlx5_0/1 cntn 4 qp-type RC pid 4711 comm my app 3rd rx_write_requests 5 \n    LQPN: <178,179>\n"
      "link mlx5_0/- cntn 5 a 1\n");
  ASSERT_TRUE(all);
  EXPECT_THAT(all->ports, IsEmpty());
  ASSERT_EQ(all->sets.size(), 2U);
  const QpCounterSet& set = all->sets[0].set;
  EXPECT_EQ(all->sets[0].device, "mlx5_0");
  EXPECT_EQ(set.port, 1U);
  EXPECT_EQ(set.id, 4U);
  EXPECT_EQ(set.qp_type, 2U);
  EXPECT_EQ(set.pid, 4711U);
  EXPECT_THAT(set.qpns, ElementsAre(178U, 179U));
  EXPECT_THAT(set.counters, ElementsAre(Counter("rx_write_requests", 5U)));
  EXPECT_EQ(all->sets[1].set.port, 0U);
  EXPECT_EQ(all->sets[1].set.pid, std::nullopt);
}

TEST(RdmaStatisticJson, SetsBoundToQps) {
  const auto all = parse_rdma_statistic_json(
      R"([{"ifindex":0,"ifname":"mlx5_0","port":1,"cntn":4,"qp-type":"UD","pid":9,"comm":"x","a":1,"lqpn":[178,-1]}])");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->sets.size(), 1U);
  EXPECT_EQ(all->sets[0].set.qp_type, 4U);
  EXPECT_THAT(all->sets[0].set.qpns, ElementsAre(178U));
  EXPECT_THAT(all->sets[0].set.counters, ElementsAre(Counter("a", 1U)));
}

TEST(RdmaStatisticText, OfADuplicateTheFirstStandsAlsoAcrossRecords) {
  const auto all = parse_rdma_statistic_text("link b/1 x 1 y 2 x 3\nlink a/1 z 9\nlink b/1 y 4 w 5\n");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->ports.size(), 2U);
  EXPECT_EQ(all->ports[0].device, "b");
  EXPECT_THAT(all->ports[0].counters, ElementsAre(Counter("x", 1U), Counter("y", 2U), Counter("w", 5U)));
}

TEST(RdmaStatisticText, PortWithoutCountersAndLineEndsOfOtherSystems) {
  const auto all = parse_rdma_statistic_text("link a/1 \r\nlink a/2 x 1\r\n\r\n");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->ports.size(), 2U);
  EXPECT_THAT(all->ports[0].counters, IsEmpty());
  EXPECT_THAT(all->ports[1].counters, ElementsAre(Counter("x", 1U)));
}

TEST(RdmaStatisticText, WhatIsNotTheFormIsMalformed) {
  for (const char* text : {"a 1", "Error: no device", "link /1 x 1", "link a/1 cntn x"}) {
    const auto all = parse_rdma_statistic_text(text);
    ASSERT_FALSE(all) << text;
    EXPECT_EQ(all.error().kind, ErrorKind::kMalformed) << text;
  }
}

// A word that is no number costs the counter before it and no other.
TEST(RdmaStatisticText, CounterWithoutANumberIsLostAlone) {
  for (const char* text : {"link a/1 x y 1", "link a/1 x -1 y 1", "link a/1 x 1.5 y 1", "link a/1 y 1 x",
                           "link a/1 x 18446744073709551616 y 1", "link a/1 y 1 x z"}) {
    const auto all = parse_rdma_statistic_text(text);
    ASSERT_TRUE(all) << text;
    ASSERT_EQ(all->ports.size(), 1U) << text;
    const auto& counters = all->ports[0].counters;
    ASSERT_EQ(counters.size(), 2U) << text;
    for (const NamedValue& counter : counters) EXPECT_EQ(counter.malformed, counter.name == "x") << text;
    for (const NamedValue& counter : counters) EXPECT_EQ(counter.value, counter.name == "x" ? 0U : 1U) << text;
  }
  // Nor does it become a counter itself, whatever stands behind it.
  const auto blanks = parse_rdma_statistic_text("link a/1 x 1x 345 y 1");
  ASSERT_TRUE(blanks);
  ASSERT_EQ(blanks->ports.at(0).counters.size(), 2U);
  EXPECT_TRUE(blanks->ports.at(0).counters[0].malformed);
  EXPECT_EQ(blanks->ports.at(0).counters[1].name, "y");
  const auto json = parse_rdma_statistic_json(R"([{"ifname":"a","port":1,"x":-1,"y":1}])");
  ASSERT_TRUE(json);
  EXPECT_TRUE(json->ports.at(0).counters.at(0).malformed);
  EXPECT_FALSE(json->ports.at(0).counters.at(1).malformed);
}

TEST(RdmaStatisticText, CountersInARowWithoutNumbersAreAllTold) {
  const auto all =
      parse_rdma_statistic_text("link a/1 out_of_sequence packet_seq_err duplicate_request y 1 ip4InTrunc");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->ports.at(0).counters.size(), 5U);
  for (const NamedValue& counter : all->ports[0].counters) EXPECT_EQ(counter.malformed, counter.name != "y");
  const auto json = parse_rdma_statistic_json(R"([{"ifname":"a","port":1,"x":null,"z":null,"y":1}])");
  ASSERT_TRUE(json);
  ASSERT_EQ(json->ports.at(0).counters.size(), 3U);
  EXPECT_TRUE(json->ports[0].counters[1].malformed);
}

// What one damaged file hides is told of each device, and what the others say stays.
TEST_F(RdmaRecording, ADamagedFileCostsItsOwnValuesAlone) {
  std::filesystem::create_directories(dir_ / "sys/class/infiniband/mlx5_0");
  EXPECT_EQ(open()->devices().error().kind, ErrorKind::kNotRecorded);
  write("rdma/statistic.txt", "error: Operation not permitted\n");
  auto rdma = open();
  ASSERT_EQ(rdma->devices().value().size(), 1U);
  EXPECT_EQ(rdma->port_counters(named("mlx5_0"), 1).error().kind, ErrorKind::kMalformed);
  write("rdma/statistic.txt", "link mlx5_0/1 x 7\n");
  write("rdma/dev.json", "{");
  rdma = open();
  EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kMalformed);
  EXPECT_THAT(rdma->port_counters(named("mlx5_0"), 1).value(), ElementsAre(Counter("x", 7U)));
}

TEST_F(RdmaRecording, DevicesHiddenByADamagedFileAreNoHostWithoutAny) {
  write("rdma_statistic.txt", "Error: no device\n");
  EXPECT_EQ(open()->devices().error().kind, ErrorKind::kMalformed);
}

TEST(RdmaStatisticJson, WhatIsNotTheFormIsMalformed) {
  for (const char* text :
       {"{", "1", "\"a\"", "[{\"a\":1}]", "[{\"ifname\":\"a\",\"cntn\":-1}]", "[{\"ifname\":\"\\xff\"}]"}) {
    EXPECT_FALSE(parse_rdma_statistic_json(text)) << text;
  }
}

TEST_F(RdmaRecording, ObjectsOfEveryKindByTheirKeys) {
  write("rdma/resource.json", R"([{"ifindex":0,"ifname":"a","qp":2,"mr":1},
    [{"ifindex":0,"ifname":"a","port":1,"lqpn":17,"type":"RC","state":"ERR","sq-psn":0,"pid":0,"comm":"[rdma_cm]"}],
    {"ifindex":0,"ifname":"a/1","lqpn":18,"type":"DRIVER","state":"RTS","pdn":3,"pid":77,"comm":"app"},
    {"ifindex":0,"ifname":"a","port":1,"lqpn":17,"qp-type":"RC","state":"CONNECT","ps":"TCP","comm":"nvme_rdma",
     "cm-idn":4,"src-addr":"192.0.2.1:1024","dst-addr":"fd00::9:4420"},
    {"ifindex":0,"ifname":"a","cqe":9,"users":1,"cqn":3,"comm":"ib_core"},
    {"ifindex":0,"ifname":"a","mrlen":4096,"mrn":5,"pdn":3,"pid":77,"comm":"app"},
    {"ifindex":0,"ifname":"a","users":2,"pdn":3,"ctxn":0,"pid":77,"comm":"app"},
    {"ifindex":0,"ifname":"a","srqn":2,"type":"BASIC","lqpn":["18"],"pdn":3,"pid":77,"comm":"app"},
    {"ifindex":0,"ifname":"a","ctxn":0,"pid":77,"comm":"app"}])");
  const auto rdma = open();
  const RdmaDevice a = named("a");
  EXPECT_EQ(rdma->resources(a)->size(), 2U);
  const auto qps = rdma->qps(a);
  ASSERT_TRUE(qps);
  ASSERT_EQ(qps->objects.size(), 2U);
  EXPECT_EQ(qps->objects[0].port, 1U);
  EXPECT_EQ(qps->objects[0].owner, (RdmaOwner{std::nullopt, "rdma_cm"}));
  EXPECT_EQ(rdma_qp_state_name(qps->objects[0].state), "ERR");
  EXPECT_EQ(qps->objects[1].port, 1U);
  EXPECT_EQ(qps->objects[1].type, 0xffU);
  EXPECT_EQ(qps->objects[1].owner.pid, 77U);
  const auto ids = rdma->cm_ids(a);
  ASSERT_TRUE(ids);
  ASSERT_EQ(ids->objects.size(), 1U);
  EXPECT_EQ(ids->objects[0].qpn, 17U);
  EXPECT_EQ(ids->objects[0].source.ip, "192.0.2.1");
  EXPECT_EQ(ids->objects[0].destination.ip, "fd00::9");
  EXPECT_EQ(ids->objects[0].destination.port, 4420);
  EXPECT_EQ(rdma->cqs(a)->objects.size(), 1U);
  ASSERT_EQ(rdma->mrs(a)->objects.size(), 1U);
  EXPECT_EQ(rdma->mrs(a)->objects[0].length, 4096U);
  EXPECT_EQ(rdma->contexts(a)->objects.size(), 1U);
  EXPECT_TRUE(rdma->qps(named("b"))->objects.empty());
  EXPECT_EQ(rdma->mr_statistics(a).error().kind, ErrorKind::kNotRecorded);
}

TEST_F(RdmaRecording, AFileOfOneKindCountsAlsoWhenItIsEmpty) {
  write("rdma/resource_ctx.json", "[]");
  write("rdma/resource_qp.json", "[{]");
  write("rdma/statistic_mr.json", R"([{"ifindex":0,"ifname":"a","mrn":7,"page_faults":3}])");
  const auto rdma = open();
  EXPECT_TRUE(rdma->contexts(named("a"))->objects.empty());
  EXPECT_EQ(rdma->qps(named("a")).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(rdma->mrs(named("a")).error().kind, ErrorKind::kNotRecorded);
  const auto regions = rdma->mr_statistics(named("a"));
  ASSERT_TRUE(regions);
  ASSERT_EQ(regions->objects.size(), 1U);
  EXPECT_THAT(regions->objects[0].counters, ElementsAre(Counter("page_faults", 3U)));
}

}  // namespace
}  // namespace roce

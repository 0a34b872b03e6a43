// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/collectors/collector.h"
#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/rdma_gid.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

// A host whose netlink answers are set by the test.
class FakeRdma : public RdmaSource {
 public:
  Result<std::vector<RdmaDevice>> devices() override { return std::vector<RdmaDevice>{device}; }
  Result<std::vector<RdmaPort>> ports(const RdmaDevice&) override { return std::vector<RdmaPort>{}; }
  Result<std::vector<NamedValue>> port_counters(const RdmaDevice&, std::uint32_t) override {
    ++counter_requests;
    return counters;
  }
  Result<std::vector<CounterStatus>> counter_status(const RdmaDevice&, std::uint32_t) override { return status; }
  Result<std::vector<ResourceCount>> resources(const RdmaDevice&) override { return resource_counts; }
  Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice&) override { return sets; }
  Result<NetnsMode> netns_mode() override { return NetnsMode::kShared; }

  RdmaDevice device;
  Result<std::vector<NamedValue>> counters;
  std::vector<CounterStatus> status;
  Result<std::vector<ResourceCount>> resource_counts;
  std::vector<QpCounterSet> sets;
  int counter_requests = 0;
};

class CollectorsTest : public testing::Test {
 protected:
  CollectorsTest() { host_ = std::make_shared<Host>(*tree_.host()); }

  CollectorContext context(const std::string& name, const std::string& driver = "mlx5") {
    Inventory inventory(host_, [](std::string_view) { return true; }, [](std::string_view) { return true; });
    const DeviceList devices = inventory.refresh().value();
    for (const auto& device : devices) {
      if (device->name != name) continue;
      auto copy = std::make_shared<InventoryDevice>(*device);
      copy->driver = driver;
      return {host_, copy, std::make_shared<PortStates>(), settings_};
    }
    ADD_FAILURE() << "no device " << name;
    return {};
  }

  static std::unique_ptr<Collector> create(std::string_view collector, const CollectorContext& context) {
    for (const CollectorEntry& entry : collector_registry())
      if (entry.name == collector) return entry.create(context);
    ADD_FAILURE() << "no collector " << collector;
    return nullptr;
  }

  std::string page(Collector& collector) {
    Output out;
    const auto result = collector.collect(out);
    error_ = result ? std::string() : result.error().message();
    output_ = out;
    std::vector<const SampleBatch*> batches;
    for (const auto& part : output_.parts) {
      batches.push_back(&part->samples);
      EXPECT_EQ(part->samples.malformed(), 0U) << "a sample had not the labels of its metric";
    }
    return render_text(batches);
  }

  TempTree tree_;
  std::shared_ptr<Host> host_;
  CollectorSettings settings_;
  std::string error_;
  Output output_;
};

TEST_F(CollectorsTest, PortDataAreWordsOfFourBytes) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "250000\n");
  const auto collector = create("port_counters", context("mlx5_0"));
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_receive_bytes_total{device=\"mlx5_0\",port=\"1\"} 1000000\n"));
}

TEST_F(CollectorsTest, The64BitTwinReplacesTheCounterThatSticks) {
  tree_.add_port("mlx4_0");
  tree_.write("sys/class/infiniband/mlx4_0/ports/1/counters/port_rcv_data", "4294967295\n");
  tree_.write("sys/class/infiniband/mlx4_0/ports/1/counters_ext/port_rcv_data_64", "600000000000\n");
  const auto collector = create("port_counters", context("mlx4_0", "mlx4"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_receive_bytes_total{device=\"mlx4_0\",port=\"1\"} 2400000000000\n"));
  EXPECT_THAT(text, Not(HasSubstr("17179869180")));
}

TEST_F(CollectorsTest, ATwinWithoutAValueReplacesNothing) {
  const std::string dir = "sys/class/infiniband/mlx4_0/ports/1/";
  tree_.add_port("mlx4_0");
  tree_.write(dir + "counters/port_rcv_data", "250000\n");
  tree_.write(dir + "counters_ext/port_rcv_data_64", "18446744073709551615\n");
  const auto collector = create("port_counters", context("mlx4_0", "mlx4"));
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_receive_bytes_total{device=\"mlx4_0\",port=\"1\"} 1000000\n"));
  EXPECT_THAT(text, HasSubstr("counter=\"port_rcv_data_64\",state=\"failing\"} 1"));
  // More words than bytes have room for.
  tree_.write(dir + "counters_ext/port_rcv_data_64", "9223372036854775807\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_receive_bytes_total{device=\"mlx4_0\",port=\"1\"} 1000000\n"));
  EXPECT_THAT(text, HasSubstr("counter=\"port_rcv_data_64\",state=\"saturated\"} 1"));
  // One that had a value keeps the series.
  tree_.write(dir + "counters_ext/port_rcv_data_64", "600000000000\n");
  EXPECT_THAT(page(*collector), HasSubstr("port=\"1\"} 2400000000000\n"));
  tree_.write(dir + "counters_ext/port_rcv_data_64", "18446744073709551615\n");
  EXPECT_THAT(page(*collector), Not(HasSubstr("roce_port_receive_bytes_total{")));
}

TEST_F(CollectorsTest, A32BitDataCounterAtItsTopIsAbsentAndSaturated) {
  tree_.add_port("mlx4_0");
  tree_.write("sys/class/infiniband/mlx4_0/ports/1/counters/port_rcv_data", "4294967295\n");
  const auto collector = create("port_counters", context("mlx4_0", "mlx4"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, Not(HasSubstr("roce_port_receive_bytes_total{")));
  EXPECT_THAT(text, HasSubstr("counter=\"port_rcv_data\",state=\"saturated\"} 1"));
}

TEST_F(CollectorsTest, ANarrowErrorCounterAtItsTopIsPublishedAndFlagged) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "255\n");
  const auto collector = create("port_counters", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_link_downed_total{device=\"mlx5_0\",port=\"1\"} 255\n"));
  EXPECT_THAT(text, HasSubstr("counter=\"link_downed\",state=\"saturated\"} 1"));
}

TEST_F(CollectorsTest, AnErrorCounterAboveItsTopStillCounts) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "70000\n");
  const auto collector = create("port_counters", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_symbol_errors_total{device=\"mlx5_0\",port=\"1\"} 70000\n"));
  EXPECT_THAT(text, Not(HasSubstr("saturated")));
}

TEST_F(CollectorsTest, ADeviceOffItsBusHasNoCountersAndAnError) {
  tree_.add_port("mlx5_0");
  for (const char* name : {"np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "np_ecn_marked_roce_packets"})
    tree_.write(std::string("sys/class/infiniband/mlx5_0/ports/1/hw_counters/") + name, "18446744073709551615\n");
  const auto collector = create("hw_counters", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, Not(HasSubstr("18446744073709551615")));
  EXPECT_THAT(text, Not(HasSubstr("roce_cnp_sent_total{")));
  EXPECT_THAT(error_, HasSubstr("off its bus"));
}

TEST_F(CollectorsTest, LifespanIsAGaugeInSecondsAndNoCounter) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan", "12\n");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err", "2700\n");
  const auto collector = create("hw_counters", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_hw_counters_lifespan_seconds{device=\"mlx5_0\",port=\"1\"} 0.012\n"));
  EXPECT_THAT(text, Not(HasSubstr("counter=\"lifespan\"")));
  EXPECT_THAT(text, HasSubstr(" 2700\n"));
}

TEST_F(CollectorsTest, AnUnknownCounterIsPublishedUnderItsOwnName) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/brand new, counter", "5\n");
  const auto collector = create("hw_counters", context("mlx5_0"));
  EXPECT_THAT(page(*collector),
              HasSubstr("roce_driver_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"brand new, counter\"} 5\n"));
}

TEST_F(CollectorsTest, MostCountersFallingAtOnceIsARestartNotAWrap) {
  tree_.add_port("mlx5_0");
  const std::string dir = "sys/class/infiniband/mlx5_0/ports/1/hw_counters/";
  for (const char* name : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"})
    tree_.write(dir + name, "4200000000\n");
  const auto collector = create("hw_counters", context("mlx5_0"));
  page(*collector);
  for (const char* name : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"})
    tree_.write(dir + name, "7\n");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_receive_out_of_sequence_packets_total{device=\"mlx5_0\",port=\"1\"} 7\n"));
}

TEST_F(CollectorsTest, SmallStepsBackOfAllCountersAtOnceAreHeldAndNoRestart) {
  tree_.add_port("mlx5_0");
  const std::string dir = "sys/class/infiniband/mlx5_0/ports/1/hw_counters/";
  for (const char* name : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"})
    tree_.write(dir + name, "1000\n");
  const auto collector = create("hw_counters", context("mlx5_0"));
  page(*collector);
  for (const char* name : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"})
    tree_.write(dir + name, "990\n");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_receive_out_of_sequence_packets_total{device=\"mlx5_0\",port=\"1\"} 1000\n"));
  EXPECT_EQ(output_.parts.back()->regressions, 3U);
}

TEST_F(CollectorsTest, NetlinkGivesAllCountersInOneRequest) {
  tree_.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  rdma->device.index = 3;
  rdma->counters = std::vector<NamedValue>{{"out_of_sequence", 11}, {"np_cnp_sent", 18446744073709551614ULL}};
  rdma->status = {{"cc_rx_ce_pkts", 0, true, false}, {"out_of_sequence", 1, false, true}};
  host_->rdma = rdma;
  const auto collector = create("hw_counters", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_EQ(rdma->counter_requests, 1);
  EXPECT_THAT(text, HasSubstr("roce_receive_out_of_sequence_packets_total{device=\"mlx5_0\",port=\"1\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("roce_cnp_sent_total{device=\"mlx5_0\",port=\"1\"} 18446744073709551614\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_optional_counters_enabled{device=\"mlx5_0\",port=\"1\",counter=\"cc_rx_ce_pkts\"} 0\n"));
}

TEST_F(CollectorsTest, AReplyTooBigForNetlinkIsReadFromSysfs) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  rdma->counters = fail(ErrorKind::kIo, "mlx5_0", EMSGSIZE);
  host_->rdma = rdma;
  const auto collector = create("hw_counters", context("mlx5_0"));
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(page(*collector),
                HasSubstr("roce_receive_out_of_sequence_packets_total{device=\"mlx5_0\",port=\"1\"} 5\n"));
  EXPECT_EQ(rdma->counter_requests, 1);  // not asked again for a while
}

TEST_F(CollectorsTest, AFailingRequestIsRememberedAndNotRepeated) {
  tree_.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  rdma->counters = fail_errno(EIO, "mlx5_0");
  host_->rdma = rdma;
  const auto collector = create("hw_counters", context("mlx5_0"));
  for (int i = 0; i < 5; ++i) {
    page(*collector);
    EXPECT_THAT(error_, HasSubstr("Input/output error"));
  }
  EXPECT_EQ(rdma->counter_requests, 1);
}

TEST_F(CollectorsTest, ResourcesStandAgainstTheirLimits) {
  tree_.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  rdma->resource_counts = std::vector<ResourceCount>{{"qp", 3, 1000}, {"mr", 4, std::nullopt}};
  host_->rdma = rdma;
  const auto collector = create("rdma_resources", context("mlx5_0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_rdma_resources{device=\"mlx5_0\",resource=\"qp\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("roce_rdma_resource_limit{device=\"mlx5_0\",resource=\"qp\"} 1000\n"));
  EXPECT_THAT(text, Not(HasSubstr("limit{device=\"mlx5_0\",resource=\"mr\"}")));
}

TEST_F(CollectorsTest, QpCounterSetsAreBounded) {
  tree_.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  for (std::uint32_t i = 0; i < 40; ++i) rdma->sets.push_back({1, i, std::nullopt, std::nullopt, {i}, {{"x", i}}});
  host_->rdma = rdma;
  const auto collector = create("qp_counters", context("mlx5_0"));
  page(*collector);
  EXPECT_EQ(output_.parts.at(0)->samples.samples().size(), 32U);  // 16 sets with two series each
}

TEST_F(CollectorsTest, QpCounterSetsAreNotDumpedAboveTheQpLimit) {
  tree_.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  rdma->device.name = "mlx5_0";
  rdma->resource_counts = std::vector<ResourceCount>{{"qp", 11, std::nullopt}};
  rdma->sets.push_back({1, 7, std::nullopt, std::nullopt, {17}, {{"x", 5}}});
  host_->rdma = rdma;
  settings_.qp_max = 10;
  const auto above = create("qp_counters", context("mlx5_0"));
  page(*above);
  EXPECT_THAT(error_, HasSubstr("--collector.qp.max=10"));
  EXPECT_TRUE(output_.parts.empty());
  settings_.qp_max = 11;
  const auto within = create("qp_counters", context("mlx5_0"));
  EXPECT_THAT(page(*within), HasSubstr("counter=\"x\"} 5\n"));
}

TEST_F(CollectorsTest, ARateIsToldForAnActivePortOnly) {
  tree_.add_port("up");
  tree_.add_port("down", 1, "1: DOWN");
  tree_.add_port("empty", 1, "1: DOWN");
  tree_.write("sys/class/infiniband/empty/ports/1/rate", "0 GB/sec\n");
  EXPECT_THAT(page(*create("rdma_port", context("up"))),
              HasSubstr("roce_port_rate_bytes_per_second{device=\"up\",port=\"1\"} 12500000000\n"));
  EXPECT_THAT(page(*create("rdma_port", context("down"))), Not(HasSubstr("roce_port_rate_bytes_per_second{")));
  EXPECT_THAT(page(*create("rdma_port", context("empty"))),
              HasSubstr("roce_port_rate_bytes_per_second{device=\"empty\",port=\"1\"} 0\n"));
}

TEST_F(CollectorsTest, ADownPortOfALiveKernelIsQueriedSeldomUnlessItsLinkMoves) {
  tree_.add_port("mlx5_0", 1, "1: DOWN");
  tree_.write("sys/class/infiniband/mlx5_0/parent", "eth7\n");
  tree_.write("sys/class/net/eth7/carrier_changes", "2\n");
  host_->live = true;
  const auto collector = create("rdma_port", context("mlx5_0"));
  // Asked once more after it went down: its link may have moved in between.
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(page(*collector), HasSubstr("roce_port_state{device=\"mlx5_0\",port=\"1\"} 1\n"));
  const auto first = output_.parts.back();
  tree_.add_port("mlx5_0");  // up again, but nobody said so yet
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_state{device=\"mlx5_0\",port=\"1\"} 1\n"));
  EXPECT_EQ(output_.parts.back(), first);  // the very same read, with its own time
  tree_.write("sys/class/net/eth7/carrier_changes", "3\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_state{device=\"mlx5_0\",port=\"1\"} 4\n"));
}

TEST_F(CollectorsTest, WithoutThePortsOwnQueryTheNetdevTellsThatAPortIsDown) {
  tree_.add_port("mlx5_0", 1, "1: DOWN");
  tree_.write("sys/class/infiniband/mlx5_0/parent", "eth7\n");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "1\n");
  tree_.write("sys/class/net/eth7/operstate", "down\n");
  host_->live = true;
  const auto collector = create("port_counters", context("mlx5_0"));
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_link_downed_total{device=\"mlx5_0\",port=\"1\"} 1\n"));
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "2\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_link_downed_total{device=\"mlx5_0\",port=\"1\"} 1\n"));
  tree_.write("sys/class/net/eth7/operstate", "up\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_port_link_downed_total{device=\"mlx5_0\",port=\"1\"} 2\n"));
}

TEST_F(CollectorsTest, HiddenIdentityLeavesNoGuid) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/node_guid", "0c42:a103:0011:2233\n");
  tree_.write("sys/class/infiniband/mlx5_0/node_desc", "node17 mlx5_0\n");
  const auto shown = create("rdma_device", context("mlx5_0"));
  EXPECT_THAT(page(*shown), HasSubstr("0c42:a103:0011:2233"));
  settings_.hide_identity = true;
  const auto hidden = create("rdma_device", context("mlx5_0"));
  const std::string text = page(*hidden);
  EXPECT_THAT(text, HasSubstr("roce_device_info{device=\"mlx5_0\""));
  EXPECT_THAT(text, Not(HasSubstr("0c42:a103")));
  EXPECT_THAT(text, Not(HasSubstr("node17")));
}

TEST_F(CollectorsTest, AGidThatCannotBeReadIsAFailureAndNoMissingGid) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/gids/0/x", "");  // reading a directory fails
  const auto collector = create("rdma_gid", context("mlx5_0"));
  EXPECT_THAT(page(*collector), Not(HasSubstr("roce_port_gid_routable_entries{")));
  EXPECT_THAT(error_, HasSubstr("gids/0"));
}

TEST_F(CollectorsTest, WhenEveryCounterFailsSoDoesTheSource) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed/x", "");  // reading a directory fails
  const auto broken = create("port_counters", context("mlx5_0"));
  EXPECT_THAT(page(*broken), HasSubstr("counter=\"link_downed\",state=\"failing\"} 1\n"));
  EXPECT_THAT(error_, HasSubstr("link_downed"));
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "0\n");
  const auto partly = create("port_counters", context("mlx5_0"));
  EXPECT_THAT(page(*partly), HasSubstr("counter=\"link_downed\",state=\"failing\"} 1\n"));
  EXPECT_EQ(error_, "");
}

TEST_F(CollectorsTest, AnIwarpDeviceMissesNoRoceGid) {
  tree_.add_port("iw0");
  tree_.write("sys/class/infiniband/iw0/node_type", "4: RNIC\n");
  tree_.write("sys/class/infiniband/iw0/ports/1/gids/0", "0202:c9ff:fe00:0001:0000:0000:0000:0000\n");
  tree_.write("sys/class/infiniband/iw0/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
  const auto collector = create("rdma_gid", context("iw0"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_port_gid_entries{device=\"iw0\",port=\"1\",type=\"IB/RoCE v1\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_port_gid_routable_entries{")));
}

TEST(GidTest, ScopesOfAddresses) {
  EXPECT_EQ(gid_scope(*parse_gid("0000:0000:0000:0000:0000:0000:0000:0000")), GidScope::kEmpty);
  EXPECT_EQ(gid_scope(*parse_gid("fe80:0000:0000:0000:0e42:a1ff:fe03:0001")), GidScope::kLinkLocal);
  EXPECT_EQ(gid_scope(*parse_gid("0000:0000:0000:0000:0000:ffff:c000:0201")), GidScope::kIpv4);
  EXPECT_EQ(gid_scope(*parse_gid("0000:0000:0000:0000:0000:ffff:a9fe:0201")), GidScope::kLinkLocal);
  EXPECT_EQ(gid_scope(*parse_gid("fd00:0000:0000:0001:0000:0000:0000:0009")), GidScope::kIpv6);
  EXPECT_FALSE(parse_gid("not a gid"));
  EXPECT_FALSE(parse_gid(""));
}

TEST(RegistryTest, NamesAreUniqueAndCreateWorks) {
  std::set<std::string_view> names;
  for (const CollectorEntry& entry : collector_registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_NE(entry.create, nullptr);
    EXPECT_FALSE(entry.help.empty());
  }
}

TEST_F(CollectorsTest, ADirectoryThatIsOnItsWayIsReadOneThatIsNotThereIsLeftAlone) {
  CounterFiles late(tree_.path("late"));
  ASSERT_TRUE(late.list());
  EXPECT_FALSE(late.present());
  tree_.write("late/a", "1\n");
  ASSERT_TRUE(late.list());
  ASSERT_EQ(late.read().size(), 1U);

  CounterFiles never(tree_.path("never"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(never.list());
  tree_.write("never/a", "1\n");
  ASSERT_TRUE(never.list());
  EXPECT_FALSE(never.present());  // for a minute
}

}  // namespace
}  // namespace roce

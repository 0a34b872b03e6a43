// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/node_infiniband.h"

#include <gtest/gtest.h>

#include <set>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

TEST(NodeInfiniband, NamesAreUniqueAndOfTheFamily) {
  std::set<std::string_view> names;
  for (const MetricDesc& m : node_infiniband_metrics()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_TRUE(m.name.starts_with("node_infiniband_")) << m.name;
    EXPECT_EQ(m.name.ends_with("_total"), m.type == MetricType::kCounter) << m.name;
    EXPECT_EQ(m.unit == "bytes",
              m.name.find("_bytes") != std::string_view::npos && m.name.find("_per_second") == std::string_view::npos)
        << m.name;
    EXPECT_FALSE(m.help.empty());
    EXPECT_FALSE(m.by_default) << m.name;
    EXPECT_EQ(m.collector, "compat");
  }
  EXPECT_EQ(names.size(), 64U);
  EXPECT_EQ(node_infiniband_counters().size(), 59U);
}

TEST(NodeInfiniband, CountersHaveDeviceAndPortAndNothingMore) {
  std::set<const MetricDesc*> metrics;
  for (const NodeInfinibandCounter& c : node_infiniband_counters()) {
    EXPECT_EQ(c.metric->labels, "device,port") << c.file;
    EXPECT_EQ(c.multiply, c.file.find("_data") != std::string_view::npos ? 4U : 1U) << c.file;
    EXPECT_TRUE(metrics.insert(c.metric).second) << c.file;
    EXPECT_EQ(find_node_infiniband(c.directory, c.file), &c) << c.file;
  }
  EXPECT_EQ(node_infiniband::info.labels, "device,board_id,firmware_version,hca_type");
  EXPECT_EQ(node_infiniband::rate.name, "node_infiniband_rate_bytes_per_second");
  EXPECT_EQ(node_infiniband::state_id.name, "node_infiniband_state_id");
  EXPECT_EQ(node_infiniband::physical_state_id.name, "node_infiniband_physical_state_id");
  EXPECT_EQ(node_infiniband::lifespan.name, "node_infiniband_lifespan_seconds");
}

// Names in which node_exporter departs from the name of the file.
TEST(NodeInfiniband, NamesThatAreEasyToGetWrong) {
  const auto name = [](std::string_view directory, std::string_view file) {
    const NodeInfinibandCounter* c = find_node_infiniband(directory, file);
    return c == nullptr ? std::string_view() : c->metric->name;
  };
  EXPECT_EQ(name("counters", "VL15_dropped"), "node_infiniband_vl15_dropped_total");
  EXPECT_EQ(name("counters", "port_rcv_data"), "node_infiniband_port_data_received_bytes_total");
  EXPECT_EQ(name("counters_ext", "port_rcv_data_64"), "node_infiniband_legacy_data_received_bytes_total");
  EXPECT_EQ(name("counters", "unicast_rcv_packets"), "node_infiniband_unicast_packets_received_total");
  EXPECT_EQ(name("hw_counters", "rnr_nak_retry_err"), "node_infiniband_rnr_nak_retry_packets_received_total");
  EXPECT_EQ(name("hw_counters", "roce_slow_restart"), "node_infiniband_roce_slow_restart_used_total");
  EXPECT_EQ(name("hw_counters", "roce_slow_restart_trans"), "node_infiniband_roce_slow_restart_total");
  EXPECT_EQ(name("hw_counters", "req_cqe_error"), "node_infiniband_req_cqes_errors_total");
  EXPECT_EQ(name("hw_counters", "duplicate_request"), "node_infiniband_duplicate_requests_packets_total");
  EXPECT_EQ(name("hw_counters", "packet_seq_err"), "node_infiniband_packet_sequence_errors_total");
  EXPECT_EQ(name("hw_counters", "np_cnp_sent"), "node_infiniband_np_cnp_packets_sent_total");
}

TEST(NodeInfiniband, TheDirectoryCounts) {
  EXPECT_EQ(find_node_infiniband("hw_counters", "port_rcv_data"), nullptr);
  EXPECT_EQ(find_node_infiniband("counters", "port_rcv_data_64"), nullptr);
  EXPECT_EQ(find_node_infiniband("hw_counters", "lifespan"), nullptr);
  EXPECT_EQ(find_node_infiniband("hw_counters", "rdma_tx_bytes"), nullptr) << "not a name that node_exporter has";
}

// What both publish of ports/N must be scaled alike.
TEST(NodeInfiniband, ScalesLikeTheCatalog) {
  std::size_t compared = 0;
  for (const NodeInfinibandCounter& c : node_infiniband_counters()) {
    const bool hw = c.directory == "hw_counters";
    const CounterRow* row = hw ? find_counter("mlx5", Interface::kHwCounters, c.file)
                               : find_counter("ib-port", Interface::kPortCounters, c.file);
    ASSERT_NE(row, nullptr) << c.file;
    EXPECT_EQ(row->multiply, c.multiply) << c.file;
    ++compared;
  }
  EXPECT_EQ(compared, 59U);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "exporter/catalog/reference.h"

namespace roce {
namespace {

using testing::ElementsAre;

// Drivers that have, or may have, ports/N/counters beside their own counters.
const std::set<std::string_view> kWithPortCounters = {"mlx5", "mlx4", "hfi1", "bnxt_re"};

std::string series_of(const CounterRow& row) {
  std::string text(row.metric->name);
  for (std::string_view value : row.values.span()) text += "|" + std::string(value);
  return text;
}

const CounterRow& row_of(std::string_view driver, std::string_view counter) {
  static const CounterRow kNone;
  for (const CounterRow& row : all_counters()) {
    if (row.driver == driver && row.counter == counter) return row;
  }
  ADD_FAILURE() << driver << " " << counter << " is not in the catalog";
  return kNone;
}

TEST(Metrics, AConstantIsItsRow) {
  EXPECT_EQ(metric::port_state.name, "roce_port_state");
  EXPECT_EQ(metric::port_state.labels, "device,port");
  EXPECT_EQ(metric::config_last_reload_successful.name, "roce_config_last_reload_successful");
  EXPECT_EQ(&metric::rdma_devices, &all_metrics().front());
  EXPECT_EQ(metric::process_cpu.name, "process_cpu_seconds_total");
}

// Dashboards and rules of users depend on these.
TEST(Metrics, FixedNamesAreThereWithTheirLabels) {
  const std::map<std::string_view, std::string_view> fixed = {
      {"roce_port_state", "device,port"},
      {"roce_port_physical_state", "device,port"},
      {"roce_port_rate_bytes_per_second", "device,port"},
      {"roce_port_receive_bytes_total", "device,port"},
      {"roce_port_transmit_bytes_total", "device,port"},
      {"roce_driver_counter_total", "device,port,counter"},
      {"roce_counter_support", "device,port,counter,state"},
      {"roce_counters", "device,port,state"},
      {"roce_collector_success", "collector,device"},
      {"roce_collector_duration_seconds", "collector,device"},
      {"roce_source_age_seconds", "collector,device"},
      {"roce_series_dropped_total", "collector"},
      {"roce_counter_regressions_total", "device,port"},
      {"roce_config_last_reload_successful", ""},
      {"roce_expectation_met", "check,object"},
      {"roce_expected_value", "check,object"},
  };
  std::size_t found = 0;
  for (const MetricDesc& m : all_metrics()) {
    if (const auto it = fixed.find(m.name); it != fixed.end()) {
      ++found;
      EXPECT_EQ(m.labels, it->second) << m.name;
    }
  }
  EXPECT_EQ(found, fixed.size());
  EXPECT_TRUE(metric::port_info.labels.starts_with("device,port,"));
  EXPECT_TRUE(metric::device_info.labels.starts_with("device,"));
  EXPECT_TRUE(metric::exporter_build_info.labels.starts_with("version"));
}

TEST(Metrics, CollectorsThatAreOffByDefault) {
  const std::set<std::string_view> off = {"kernel_log", "process_cgroups", "qp_counters", "sampler"};
  for (const MetricDesc& m : all_metrics()) EXPECT_EQ(m.by_default, !off.contains(m.collector)) << m.name;
}

TEST(Metrics, EveryOneIsInTheReference) {
  const std::string reference = metrics_reference_markdown();
  for (const MetricDesc& m : all_metrics())
    EXPECT_NE(reference.find("\n### " + std::string(m.name) + "\n"), std::string::npos)
        << m.name << ": its collector has no row in kCollectors of exporter/catalog/reference.cc";
}

TEST(Counters, TableIsComplete) {
  std::map<std::string_view, std::size_t> drivers;
  std::size_t omitted = 0;
  for (const CounterRow& row : all_counters()) {
    ++drivers[row.driver];
    omitted += row.metric == nullptr ? 1 : 0;
  }
  // A new counter is one more here, too.
  EXPECT_EQ(drivers.size(), 33U);
  EXPECT_EQ(all_counters().size(), 849U);
  EXPECT_EQ(omitted, 163U);
  EXPECT_EQ(drivers["ib-cm"], 44U);
  EXPECT_EQ(drivers["mlx5"], 67U);
  EXPECT_EQ(drivers["rxe"], 15U);
}

TEST(Counters, NoRowTwice) {
  std::set<std::string> seen;
  for (const CounterRow& row : all_counters()) {
    const std::string key =
        std::string(row.driver) + "|" + std::string(to_string(row.interface)) + "|" + std::string(row.counter);
    EXPECT_TRUE(seen.insert(key).second) << key;
  }
}

// What is published and what is left out never mix for one counter.
TEST(Counters, ACounterIsPublishedOrLeftOut) {
  std::map<std::string, bool> published;
  for (const CounterRow& row : all_counters()) {
    const std::string key = std::string(row.driver) + "|" + std::string(row.counter);
    const auto [it, fresh] = published.emplace(key, row.metric != nullptr);
    EXPECT_TRUE(fresh || it->second == (row.metric != nullptr)) << key;
  }
}

// Two counters that one port can have at a time never make the same series: Prometheus rejects such a page.
TEST(Counters, NoTwoMakeOneSeries) {
  std::set<std::string> shared;
  for (const CounterRow& row : all_counters()) {
    if (row.driver != "ib-port" || !row.twin_of.empty()) continue;
    EXPECT_TRUE(shared.insert(series_of(row)).second) << row.counter;
  }
  EXPECT_EQ(shared.size(), 22U);
  std::map<std::string_view, std::set<std::string>> of_driver;
  for (const CounterRow& row : all_counters()) {
    if (row.metric == nullptr || row.driver == "ib-port" || !row.twin_of.empty()) continue;
    // A device's counters have an empty port.
    const std::string level = row.interface == Interface::kDeviceCounters ? "device|" : "port|";
    EXPECT_TRUE(of_driver[row.driver].insert(level + series_of(row)).second) << row.driver << " " << row.counter;
    if (kWithPortCounters.contains(row.driver) && !row.fallback) {
      EXPECT_FALSE(shared.contains(series_of(row))) << row.driver << " " << row.counter;
    }
  }
}

TEST(Counters, AFallbackRepeatsAPortCounterOfADriverThatMayHaveBoth) {
  std::size_t fallbacks = 0;
  for (const CounterRow& row : all_counters()) {
    if (!row.fallback) continue;
    ++fallbacks;
    EXPECT_TRUE(kWithPortCounters.contains(row.driver)) << row.counter;
    EXPECT_EQ(row.metric->collector == "port_counters" || row.metric == &metric::port_receive_discards, true)
        << row.counter;
  }
  EXPECT_EQ(fallbacks, 7U);
}

TEST(Counters, ATwinMakesTheSeriesOfItsTwin) {
  std::size_t twins = 0;
  for (const CounterRow& row : all_counters()) {
    if (row.twin_of.empty()) continue;
    ++twins;
    const CounterRow& other = row_of(row.driver, row.twin_of);
    ASSERT_NE(other.metric, nullptr) << row.counter;
    EXPECT_TRUE(other.twin_of.empty()) << row.counter;
    EXPECT_EQ(series_of(row), series_of(other)) << row.counter;
    EXPECT_EQ(row.multiply, other.multiply) << row.counter;
    EXPECT_GE(row.width, other.width) << row.counter;
  }
  EXPECT_EQ(twins, 35U);
}

// Of sources that are no device's, each metric says by its labels of what object it is.
std::size_t object_labels(std::string_view labels) {
  std::size_t count = 0;
  while (!labels.empty()) {
    const std::size_t comma = labels.find(',');
    count += is_object_label(labels.substr(0, comma)) ? 1 : 0;
    labels.remove_prefix(comma == std::string_view::npos ? labels.size() : comma + 1);
  }
  return count;
}

TEST(Counters, ValuesFillTheLabelsOfTheMetric) {
  for (const CounterRow& row : all_counters()) {
    if (row.metric == nullptr) {
      EXPECT_EQ(row.values.count, 0U) << row.counter;
      continue;
    }
    const std::size_t own = row.metric->labels.starts_with("device,port,netdev") ? 3
                            : row.metric->labels.starts_with("device,port")      ? 2
                                                                                 : object_labels(row.metric->labels);
    EXPECT_EQ(label_count(row.metric->labels), own + row.values.count) << row.driver << " " << row.counter;
    for (std::string_view value : row.values.span()) EXPECT_FALSE(value.empty()) << row.counter;
  }
}

TEST(Counters, WordsBecomeBytesOnce) {
  for (const CounterRow& row : all_counters()) {
    if (row.interface == Interface::kOther) continue;
    const bool words = row.driver == "ib-port" && row.metric != nullptr && row.metric->unit == "bytes";
    EXPECT_EQ(row.multiply, words ? 4U : 1U) << row.driver << " " << row.counter;
  }
}

TEST(Counters, OfGpuDirectStorageMebibytesBecomeBytesAndPercentRatios) {
  std::size_t mebibytes = 0;
  for (const CounterRow& row : all_counters()) {
    if (row.driver != "nvidia-fs" || row.metric == nullptr) continue;
    const bool bytes = row.metric->unit == "bytes";
    mebibytes += bytes ? 1 : 0;
    EXPECT_EQ(row.multiply, bytes ? 1048576U : 1U) << row.counter;
    EXPECT_EQ(row.divide, row.metric->unit == "ratio" ? 100U : 1U) << row.counter;
  }
  EXPECT_EQ(mebibytes, 6U);
}

// Microseconds become seconds, percents ratios, bits bytes.
TEST(Counters, ADividedCounterHasItsUnit) {
  for (const CounterRow& row : all_counters()) {
    if (row.divide == 1) continue;
    ASSERT_NE(row.metric, nullptr) << row.counter;
    const bool seconds = row.metric->unit == "seconds" && row.divide == 1000000;
    const bool ratio = row.metric->unit == "ratio" && row.divide == 100;
    const bool bytes = row.metric->unit == "bytes" && row.divide == 8;
    EXPECT_TRUE(seconds || ratio || bytes) << row.driver << " " << row.counter;
  }
  EXPECT_EQ(row_of("mlx5-ethtool", "rx_prio[0-7]_pause_duration").divide, 1000000U);
  EXPECT_EQ(row_of("mlx5-ethtool", "outbound_pci_stalled_rd_events").divide, 1U);
}

TEST(Counters, WidthsAreThoseOfTheHardware) {
  EXPECT_EQ(row_of("mlx5", "out_of_sequence").width, 32);
  EXPECT_EQ(row_of("mlx5", "out_of_sequence").at_top, AtTop::kWraps);
  EXPECT_EQ(row_of("mlx5", "np_cnp_sent").width, 64);
  EXPECT_EQ(row_of("mlx4", "sq_num_to").at_top, AtTop::kWraps);
  EXPECT_EQ(row_of("ib-port", "symbol_error").width, 16);
  EXPECT_EQ(row_of("ib-port", "link_downed").width, 8);
  EXPECT_EQ(row_of("ib-port", "local_link_integrity_errors").width, 4);
  EXPECT_EQ(row_of("ib-port", "port_xmit_wait").width, 32);
  EXPECT_EQ(row_of("ib-port", "port_xmit_wait").at_top, AtTop::kSaturates);
  EXPECT_EQ(row_of("ib-port", "port_rcv_data_64").width, 64);
  EXPECT_TRUE(row_of("bnxt_re", "active_qps").gauge);
  EXPECT_FALSE(row_of("bnxt_re", "to_retransmits").gauge);
  EXPECT_TRUE(row_of("mlx5", "rdma_tx_bytes").optional);
}

// The same fact has one name, whatever the driver calls it.
TEST(Counters, OneRuleHoldsOnEveryNic) {
  const std::map<std::string, std::vector<std::pair<std::string_view, std::string_view>>> facts = {
      {"roce_retransmit_triggers_total|ack_timeout",
       {{"mlx5", "local_ack_timeout_err"},
        {"bnxt_re", "to_retransmits"},
        {"bnxt_re", "local_ack_timeout_err"},
        {"mlx4", "sq_num_to"},
        {"efa", "retrans_timeout_events"},
        {"irdma", "RTO"},
        {"mana", "requester_timeout"}}},
      {"roce_retransmit_triggers_total|rnr_nak",
       {{"mlx5", "rnr_nak_retry_err"},
        {"bnxt_re", "rnr_naks_rcvd"},
        {"rxe", "rcvd_rnr_err"},
        {"irdma", "RNR received"}}},
      {"roce_receive_out_of_sequence_packets_total",
       {{"mlx5", "out_of_sequence"}, {"bnxt_re", "oos_drop_count"}, {"rxe", "out_of_seq_request"}}},
      {"roce_cnp_sent_total",
       {{"mlx5", "np_cnp_sent"},
        {"bnxt_re", "tx_cnp_pkts"},
        {"bnxt_re", "np_cnp_pkts"},
        {"irdma", "cnpSent"},
        {"hns", "tx_cnp_pkt"}}},
      {"roce_pfc_frames_total|[0-7]|receive|any",
       {{"mlx5-ethtool", "rx_prio[0-7]_pause"},
        {"bnxt_en-ethtool", "rx_pfc_ena_frames_pri[0-7]"},
        {"hns3-ethtool", "mac_rx_pfc_pri[0-7]_pkt_num"}}},
      {"roce_pfc_pause_seconds_total|[0-7]|transmit",
       {{"mlx5-ethtool", "tx_prio[0-7]_pause_duration"}, {"bnxt_en-ethtool", "pfc_pri[0-7]_tx_duration_us"}}},
      {"roce_physical_port_errors_total|crc",
       {{"mlx5-ethtool", "rx_crc_errors_phy"},
        {"bnxt_en-ethtool", "rx_fcs_err_frames"},
        {"ice-ethtool", "rx_crc_errors.nic"},
        {"ethtool-nl", "stats/eth-mac/FrameCheckSequenceErrors"}}},
      {"roce_fec_blocks_total|uncorrectable",
       {{"bnxt_en-ethtool", "rx_fec_uncorrectable_blocks"}, {"ethtool-nl", "fec/uncorr"}}},
      {"roce_receive_ecn_marked_packets_total",
       {{"mlx5", "np_ecn_marked_roce_packets"}, {"bnxt_re", "rx_ecn_marked_pkts"}, {"irdma", "RxECNMrkd"}}},
      {"roce_port_receive_bytes_total",
       {{"ib-port", "port_rcv_data"}, {"bnxt_re", "rx_bytes"}, {"efa", "rx_bytes"}, {"erdma", "rx_bytes_cnt"}}},
  };
  for (const auto& [series, counters] : facts) {
    for (const auto& [driver, counter] : counters) EXPECT_EQ(series_of(row_of(driver, counter)), series) << counter;
  }
}

// The root errors are completion errors less flushed ones, side by side.
TEST(Counters, FlushedCompletionsAreApart) {
  const CounterRow& errors = row_of("mlx5", "req_cqe_error");
  const CounterRow& flushed = row_of("mlx5", "req_cqe_flush_error");
  EXPECT_EQ(errors.metric, &metric::completion_errors);
  EXPECT_EQ(flushed.metric, &metric::completion_flush_errors);
  EXPECT_EQ(errors.metric->labels, flushed.metric->labels);
  EXPECT_THAT(errors.values.span(), ElementsAre("requester"));
  EXPECT_THAT(flushed.values.span(), ElementsAre("requester"));
}

TEST(FindCounter, FindsEveryRow) {
  for (const CounterRow& row : all_counters()) {
    EXPECT_EQ(find_counter(row.driver, row.interface, row.counter), &row) << row.driver << " " << row.counter;
  }
}

TEST(FindCounter, AValueOfAPatternIsTheDigitOfTheCounter) {
  const CounterRow* row = find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio5_pause");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(value_of(*row, 0, "rx_prio5_pause"), "5");
  EXPECT_EQ(value_of(*row, 1, "rx_prio5_pause"), "receive");
  EXPECT_EQ(value_of(*row, 0, "rx"), "");
}

TEST(FindCounter, GivesTheValuesInTheOrderOfTheLabels) {
  const CounterRow* row = find_counter("mlx5", Interface::kHwCounters, "req_remote_access_errors");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->metric->labels, "device,port,side,reason");
  EXPECT_THAT(row->values.span(), ElementsAre("requester", "remote_access"));
  row = find_counter("irdma", Interface::kHwCounters, "ip6OutNoRoutes");
  ASSERT_NE(row, nullptr);
  EXPECT_THAT(row->values.span(), ElementsAre("transmit", "ipv6", "no_route"));
  row = find_counter("irdma", Interface::kHwCounters, "ord limit count");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->metric, &metric::driver_counter);
  EXPECT_THAT(row->values.span(), ElementsAre("ord limit count"));
}

TEST(FindCounter, KnowsNothingOfStrangers) {
  EXPECT_EQ(find_counter("mlx5", Interface::kHwCounters, "vendor_opt_a"), nullptr);
  EXPECT_EQ(find_counter("mlx5", Interface::kHwCounters, "lifespan"), nullptr);
  EXPECT_EQ(find_counter("mlx5", Interface::kHwCounters, ""), nullptr);
  EXPECT_EQ(find_counter("", Interface::kHwCounters, "out_of_sequence"), nullptr);
  EXPECT_EQ(find_counter("mlx5", Interface::kPortCounters, "out_of_sequence"), nullptr);
  EXPECT_EQ(find_counter("zz", Interface::kHwCounters, "zz"), nullptr);
  EXPECT_EQ(find_counter("ib-port", Interface::kPortCounters, "Symbol_error"), nullptr) << "spelling is exact";
}

// mlx5 moves the uplink's Q counters to the device in switchdev mode; mlx4 counts by port where the firmware does.
TEST(FindCounter, FindsAHardwareCounterAtPortAndDevice) {
  const CounterRow* at_port = find_counter("mlx5", Interface::kHwCounters, "out_of_buffer");
  EXPECT_EQ(find_counter("mlx5", Interface::kDeviceCounters, "out_of_buffer"), at_port);
  EXPECT_NE(find_counter("mlx4", Interface::kHwCounters, "rq_num_rnr"), nullptr);
  const CounterRow* port = find_counter("mana", Interface::kHwCounters, "rate_inc_events");
  const CounterRow* device = find_counter("mana", Interface::kDeviceCounters, "rate_inc_events");
  ASSERT_NE(port, nullptr);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(port->interface, Interface::kHwCounters);
  EXPECT_EQ(device->interface, Interface::kDeviceCounters);
}

TEST(FindCounter, ExpandsPatterns) {
  const CounterRow* row = find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio3_pause");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->counter, "rx_prio[0-7]_pause");
  EXPECT_EQ(find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio8_pause"), nullptr);
  EXPECT_EQ(find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio_pause"), nullptr);
  EXPECT_EQ(find_counter("bnxt_en-ethtool", Interface::kEthtool, "rx_prio3_pause"), nullptr);
  row = find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio3_pause_duration");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->counter, "rx_prio[0-7]_pause_duration");
}

TEST(MatchesPattern, OneDigitInTheBracket) {
  EXPECT_TRUE(matches_pattern("a[0-7]", "a0"));
  EXPECT_TRUE(matches_pattern("a[0-7]", "a7"));
  EXPECT_FALSE(matches_pattern("a[0-7]", "a8"));
  EXPECT_FALSE(matches_pattern("a[0-7]", "a"));
  EXPECT_FALSE(matches_pattern("a[0-7]", "a10"));
  EXPECT_FALSE(matches_pattern("a[0-7]b", "a1c"));
  EXPECT_TRUE(matches_pattern("stats/rdma[1]", "stats/rdma[1]"));
  EXPECT_FALSE(matches_pattern("stats/rdma[1]", "stats/rdma1"));
  EXPECT_FALSE(matches_pattern("a[0-", "a0"));
  EXPECT_TRUE(matches_pattern("", ""));
}

}  // namespace
}  // namespace roce

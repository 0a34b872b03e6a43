// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/exposition.h"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>

namespace roce {
namespace {

constexpr MetricDesc kBytes{
    "roce_test_bytes_total", MetricType::kCounter, "bytes", "device,port", "test", true, Proof::kMade, "Bytes."};
constexpr MetricDesc kPlain{"roce_a_plain", MetricType::kGauge, "", "", "test", true, Proof::kMade, "One."};

std::string render(const SampleBatch& batch, std::size_t* duplicates = nullptr) {
  const SampleBatch* const one[] = {&batch};
  return render_text(one, duplicates);
}

std::string value_text(Value value) {
  std::string out;
  value.append_to(out);
  return out;
}

TEST(ValueTest, KeepsIntegersExact) {
  EXPECT_EQ(value_text(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(value_text(std::uint64_t{18014398509481985}), "18014398509481985");
  EXPECT_EQ(value_text(std::int64_t{-5}), "-5");
  EXPECT_EQ(value_text(true), "1");
}

TEST(ValueTest, WritesDoublesShortestAndSpecialsAsPrometheusReadsThem) {
  EXPECT_EQ(value_text(0.012), "0.012");
  EXPECT_EQ(value_text(5e10), "50000000000");
  EXPECT_EQ(value_text(1e300), "1e+300");
  EXPECT_EQ(value_text(-0.5), "-0.5");
  EXPECT_EQ(value_text(std::nan("")), "NaN");
  EXPECT_EQ(value_text(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(value_text(-std::numeric_limits<double>::infinity()), "-Inf");
}

TEST(ExpositionTest, WritesFamiliesOnceSortedByName) {
  SampleBatch first;
  SampleBatch second;
  first.add(kBytes, {"mlx5_0", "1"}, 7);
  second.add(kPlain, {}, 1);
  second.add(kBytes, {"mlx5_1", "1"}, std::uint64_t{9});
  const SampleBatch* const both[] = {&first, &second};
  EXPECT_EQ(render_text(both),
            "# HELP roce_a_plain One.\n# TYPE roce_a_plain gauge\nroce_a_plain 1\n"
            "# HELP roce_test_bytes_total Bytes.\n# TYPE roce_test_bytes_total counter\n"
            "roce_test_bytes_total{device=\"mlx5_0\",port=\"1\"} 7\n"
            "roce_test_bytes_total{device=\"mlx5_1\",port=\"1\"} 9\n");
}

TEST(ExpositionTest, EscapesExactlyWhatTheFormatAsksFor) {
  std::string out;
  append_label_value(out, "a\\b\"c\nd\te");
  EXPECT_EQ(out, "a\\\\b\\\"c\\nd\te");
}

TEST(ExpositionTest, ReplacesBytesThatAreNotUtf8) {
  std::string out;
  append_label_value(out, "ok\xff\xc3(\xe2\x82\xac\xed\xa0\x80");
  EXPECT_EQ(out, "ok\xEF\xBF\xBD\xEF\xBF\xBD(\xe2\x82\xac\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(ExpositionTest, ReplacesNul) {
  std::string out;
  append_label_value(out, std::string_view("a\0b", 3));
  append_clean_label_value(out, std::string_view("\0", 1));
  EXPECT_EQ(out,
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
}

TEST(ExpositionTest, CapsALongValueAtACharacter) {
  std::string out;
  std::string long_value(kMaxLabelBytes - 1, 'x');
  long_value += "\xe2\x82\xac";
  append_label_value(out, long_value);
  EXPECT_EQ(out, std::string(kMaxLabelBytes - 1, 'x'));
}

TEST(ExpositionTest, LeavesOutARepeatedSeriesAndCountsIt) {
  SampleBatch batch;
  batch.add(kBytes, {"a", "bc"}, 1);
  batch.add(kBytes, {"ab", "c"}, 2);  // not the same labels
  batch.add(kBytes, {"a", "bc"}, 3);
  std::size_t duplicates = 0;
  const std::string text = render(batch, &duplicates);
  EXPECT_EQ(duplicates, 1U);
  EXPECT_NE(text.find("{device=\"a\",port=\"bc\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("{device=\"ab\",port=\"c\"} 2\n"), std::string::npos);
  EXPECT_EQ(text.find(" 3\n"), std::string::npos);
}

TEST(ExpositionTest, LeavesOutASeriesThatOnlyReplacedBytesMadeARepetition) {
  SampleBatch batch;
  batch.add(kBytes, {"d\xff", "1"}, 1);
  batch.add(kBytes, {"d\xfe", "1"}, 2);
  batch.add(kBytes, {std::string(kMaxLabelBytes, 'x') + "a", "1"}, 3);
  batch.add(kBytes, {std::string(kMaxLabelBytes, 'x') + "b", "1"}, 4);
  std::size_t duplicates = 0;
  const std::string text = render(batch, &duplicates);
  EXPECT_EQ(duplicates, 2U);
  EXPECT_NE(text.find(" 1\n"), std::string::npos);
  EXPECT_EQ(text.find(" 2\n"), std::string::npos);
  EXPECT_EQ(text.find(" 4\n"), std::string::npos);
}

TEST(SamplesTest, DropsASampleWithAWrongNumberOfLabels) {
  SampleBatch batch;
  batch.add(kBytes, {"mlx5_0"}, 1);
  EXPECT_TRUE(batch.samples().empty());
  EXPECT_EQ(batch.malformed(), 1U);
}

TEST(NamesTest, FollowTheDataModel) {
  EXPECT_TRUE(valid_metric_name("roce_port_state"));
  EXPECT_FALSE(valid_metric_name("9lives"));
  EXPECT_FALSE(valid_metric_name(""));
  EXPECT_FALSE(valid_label_name("le:gal"));
  EXPECT_FALSE(valid_label_name("bad-name"));
  EXPECT_FALSE(valid_label_name("__name__"));
}

// The client library's own writer, on the same data, is the reference for layout and escaping.
TEST(ExpositionTest, AgreesWithTheClientLibrary) {
  SampleBatch batch;
  batch.add(kBytes, {"mlx5_0", "quote\" slash\\ line\n"}, 4096);
  batch.add(kBytes, {"mlx5_1", "1"}, 0.25);

  prometheus::MetricFamily family;
  family.name = std::string(kBytes.name);
  family.help = std::string(kBytes.help);
  family.type = prometheus::MetricType::Counter;
  for (const auto& [device, port, value] :
       {std::tuple("mlx5_0", "quote\" slash\\ line\n", 4096.0), std::tuple("mlx5_1", "1", 0.25)}) {
    prometheus::ClientMetric metric;
    metric.label = {{"device", device}, {"port", port}};
    metric.counter.value = value;
    family.metric.push_back(metric);
  }
  EXPECT_EQ(render(batch), prometheus::TextSerializer().Serialize({family}));
}

}  // namespace
}  // namespace roce

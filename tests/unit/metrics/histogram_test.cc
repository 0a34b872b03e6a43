// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/histogram.h"

#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <string>

#include "exporter/metrics/exposition.h"
#include "exporter/metrics/protobuf.h"

namespace roce {
namespace {

constexpr MetricDesc kLatency{
    "roce_test_rtt_seconds", MetricType::kHistogram, "seconds", "device,peer", "test", true, Proof::kMade, "Time."};
constexpr MetricDesc kBare{"roce_test_bare", MetricType::kHistogram, "", "", "test", true, Proof::kMade, "Bare."};
constexpr MetricDesc kCounter{"roce_test_total", MetricType::kCounter, "", "device", "test", true,
                              Proof::kMade,      "Line\nbreak \\."};
constexpr MetricDesc kGauge{"roce_test_state", MetricType::kGauge, "", "", "test", true, Proof::kMade, "State."};

constexpr double kBounds[] = {1e-06, 1.5e-06, 0.000625, 1.28};

Histogram histogram(std::vector<std::uint64_t> counts, double sum) {
  Histogram out;
  out.bounds = kBounds;
  out.counts = std::move(counts);
  out.sum = sum;
  return out;
}

std::string text(const SampleBatch& batch, std::size_t* duplicates = nullptr) {
  const SampleBatch* const one[] = {&batch};
  return render_text(one, duplicates);
}

TEST(NativeBucketTest, BoundsBelongToTheBucketBelow) {
  for (int schema = -4; schema <= 8; ++schema) {
    const double base = std::exp2(std::exp2(-schema));
    EXPECT_EQ(native_bucket(1.0, schema), 0) << schema;
    EXPECT_EQ(native_bucket(std::nextafter(1.0, 2), schema), 1) << schema;
    EXPECT_EQ(native_bucket(std::exp2(std::exp2(4)), schema), schema >= 0 ? 16 << schema : 16 >> -schema);
    for (const double value : {3e-9, 1e-6, 4.8e-6, 0.37, 0.5, 7.0, 1e4}) {
      const std::int32_t index = native_bucket(value, schema);
      EXPECT_LE(value, std::pow(base, index) * (1 + 1e-12)) << value << " at " << schema;
      EXPECT_GT(value, std::pow(base, index - 1) * (1 - 1e-12)) << value << " at " << schema;
    }
  }
  for (int power = -60; power <= 60; ++power) EXPECT_EQ(native_bucket(std::exp2(power), 3), power * 8);
}

TEST(NativeBucketTest, LoweringTheSchemaKeepsEveryCountWhereItsValueIs) {
  Histogram h;
  h.native = true;
  std::vector<double> values;
  std::map<std::int32_t, std::uint64_t> buckets;
  for (double v = 1e-9; v < 100; v *= 1.07) {
    values.push_back(v);
    ++buckets[native_bucket(v, 3)];
  }
  h.buckets.assign(buckets.begin(), buckets.end());
  ASSERT_GT(h.buckets.size(), kMaxNativeBuckets);
  const std::uint64_t before = h.native_count();
  limit_native_buckets(h);
  EXPECT_EQ(h.schema, 2);
  EXPECT_LE(h.buckets.size(), kMaxNativeBuckets);
  EXPECT_EQ(h.native_count(), before);
  std::map<std::int32_t, std::uint64_t> expected;
  for (const double v : values) ++expected[native_bucket(v, 2)];
  EXPECT_EQ((std::map<std::int32_t, std::uint64_t>(h.buckets.begin(), h.buckets.end())), expected);
  limit_native_buckets(h, 1);
  EXPECT_EQ(h.schema, -4) << "no lower one";
}

TEST(HistogramTextTest, WritesCumulativeBucketsSumAndCount) {
  SampleBatch batch;
  batch.add(kLatency, {"a", "b\"c"}, histogram({1, 0, 2, 3, 4}, 12.5));
  batch.add(kBare, {}, histogram({0, 0, 0, 0, 0}, 0));
  EXPECT_EQ(text(batch),
            "# HELP roce_test_bare Bare.\n# TYPE roce_test_bare histogram\n"
            "roce_test_bare_bucket{le=\"1e-06\"} 0\nroce_test_bare_bucket{le=\"1.5e-06\"} 0\n"
            "roce_test_bare_bucket{le=\"0.000625\"} 0\nroce_test_bare_bucket{le=\"1.28\"} 0\n"
            "roce_test_bare_bucket{le=\"+Inf\"} 0\nroce_test_bare_sum 0\nroce_test_bare_count 0\n"
            "# HELP roce_test_rtt_seconds Time.\n# TYPE roce_test_rtt_seconds histogram\n"
            "roce_test_rtt_seconds_bucket{device=\"a\",peer=\"b\\\"c\",le=\"1e-06\"} 1\n"
            "roce_test_rtt_seconds_bucket{device=\"a\",peer=\"b\\\"c\",le=\"1.5e-06\"} 1\n"
            "roce_test_rtt_seconds_bucket{device=\"a\",peer=\"b\\\"c\",le=\"0.000625\"} 3\n"
            "roce_test_rtt_seconds_bucket{device=\"a\",peer=\"b\\\"c\",le=\"1.28\"} 6\n"
            "roce_test_rtt_seconds_bucket{device=\"a\",peer=\"b\\\"c\",le=\"+Inf\"} 10\n"
            "roce_test_rtt_seconds_sum{device=\"a\",peer=\"b\\\"c\"} 12.5\n"
            "roce_test_rtt_seconds_count{device=\"a\",peer=\"b\\\"c\"} 10\n");
}

TEST(HistogramTextTest, LeavesOutARepeatedSeries) {
  SampleBatch batch;
  batch.add(kLatency, {"a", "b"}, histogram({1, 0, 0, 0, 0}, 1));
  batch.add(kLatency, {"a", "bb"}, histogram({2, 0, 0, 0, 0}, 1));
  batch.add(kLatency, {"a", "b"}, histogram({3, 0, 0, 0, 0}, 1));
  std::size_t duplicates = 0;
  const std::string page = text(batch, &duplicates);
  EXPECT_EQ(duplicates, 1u);
  EXPECT_EQ(page.find("count{device=\"a\",peer=\"b\"} 3"), std::string::npos);
  EXPECT_NE(page.find("count{device=\"a\",peer=\"bb\"} 2"), std::string::npos);
  duplicates = 0;
  const SampleBatch* const one[] = {&batch};
  render_protobuf(one, &duplicates);
  EXPECT_EQ(duplicates, 1u);
}

TEST(HistogramTextTest, AgreesWithTheClientLibrary) {
  SampleBatch batch;
  batch.add(kLatency, {"a", "quote\" slash\\ line\n"}, histogram({1, 0, 2, 3, 4}, 0.1));
  prometheus::MetricFamily family;
  family.name = std::string(kLatency.name);
  family.help = std::string(kLatency.help);
  family.type = prometheus::MetricType::Histogram;
  prometheus::ClientMetric metric;
  metric.label = {{"device", "a"}, {"peer", "quote\" slash\\ line\n"}};
  metric.histogram.sample_count = 10;
  metric.histogram.sample_sum = 0.1;
  const std::uint64_t cumulative[] = {1, 1, 3, 6, 10};
  for (std::size_t i = 0; i < 5; ++i)
    metric.histogram.bucket.push_back({cumulative[i], i < 4 ? kBounds[i] : std::numeric_limits<double>::infinity()});
  family.metric.push_back(metric);
  // Theirs writes the count and the sum first; the lines are the same.
  const auto lines = [](std::string page) {
    std::multiset<std::string> out;
    for (std::size_t end = 0; (end = page.find('\n')) != std::string::npos; page.erase(0, end + 1))
      out.insert(page.substr(0, end));
    return out;
  };
  EXPECT_EQ(lines(text(batch)), lines(prometheus::TextSerializer().Serialize({family})));
}

TEST(HistogramBatchTest, DropsWhatDoesNotFitItsMetric) {
  SampleBatch batch;
  batch.add(kLatency, {"a", "b"}, 1);
  batch.add(kCounter, {"a"}, histogram({1, 0, 0, 0, 0}, 1));
  batch.add(kLatency, {"a", "b"}, histogram({1, 0}, 1));
  batch.add(kLatency, {"a"}, histogram({1, 0, 0, 0, 0}, 1));
  EXPECT_EQ(batch.malformed(), 4u);
  EXPECT_TRUE(batch.samples().empty());
  EXPECT_FALSE(batch.has_histograms());
}

// A page in protobuf, written down again in words.
std::string words(const std::string& page) {
  using protozero::pbf_reader;
  std::string out;
  const char* at = page.data();
  const char* const end = at + page.size();
  while (at != end) {
    const auto length = protozero::decode_varint(&at, end);
    pbf_reader family(at, static_cast<std::size_t>(length));
    at += length;
    while (family.next()) {
      switch (family.tag()) {
        case 1:
          out += "family " + family.get_string();
          break;
        case 2:
          out += " help " + family.get_string();
          break;
        case 3:
          out += " type " + std::to_string(family.get_enum()) + "\n";
          break;
        default: {
          pbf_reader metric = family.get_message();
          while (metric.next()) {
            const auto tag = metric.tag();
            pbf_reader inner = metric.get_message();
            if (tag == 1) {
              inner.next();
              out += " " + inner.get_string() + "=";
              inner.next();
              out += inner.get_string();
            } else if (tag == 2 || tag == 3) {
              inner.next();
              out += (tag == 2 ? " gauge " : " counter ") + std::to_string(inner.get_double());
            } else {
              out += " histogram";
              while (inner.next()) {
                switch (inner.tag()) {
                  case 1:
                    out += " count=" + std::to_string(inner.get_uint64());
                    break;
                  case 2:
                    out += " sum=" + std::to_string(inner.get_double());
                    break;
                  case 3: {
                    pbf_reader bucket = inner.get_message();
                    bucket.next();
                    out += " [" + std::to_string(bucket.get_uint64());
                    bucket.next();
                    out += " " + std::to_string(bucket.get_double()) + "]";
                    break;
                  }
                  case 5:
                    out += " schema=" + std::to_string(inner.get_sint32());
                    break;
                  case 6:
                    out += inner.get_double() > 0 ? " threshold" : " no threshold";
                    break;
                  case 7:
                    out += " zero=" + std::to_string(inner.get_uint64());
                    break;
                  case 12: {
                    pbf_reader span = inner.get_message();
                    span.next();
                    out += " span " + std::to_string(span.get_sint32());
                    span.next();
                    out += "+" + std::to_string(span.get_uint32());
                    break;
                  }
                  case 13:
                    for (const std::int64_t delta : inner.get_packed_sint64()) out += " d" + std::to_string(delta);
                    break;
                  default:
                    out += " ?";
                    inner.skip();
                }
              }
            }
          }
          out += "\n";
        }
      }
    }
  }
  return out;
}

TEST(ProtobufTest, WritesFamiliesOfEveryType) {
  SampleBatch batch;
  batch.add(kCounter, {"mlx5_0"}, std::uint64_t{7});
  batch.add(kCounter, {"d\xff"}, 0.5);
  batch.add(kGauge, {}, -1);
  const SampleBatch* const one[] = {&batch};
  EXPECT_EQ(words(render_protobuf(one)),
            "family roce_test_state help State. type 1\n gauge -1.000000\n"
            "family roce_test_total help Line\nbreak \\. type 0\n device=mlx5_0 counter 7.000000\n"
            " device=d\xEF\xBF\xBD counter 0.500000\n");
}

TEST(ProtobufTest, WritesClassicAndNativeBuckets) {
  SampleBatch batch;
  Histogram h = histogram({1, 0, 2, 3, 4}, 12.5);
  h.native = true;
  h.zero_count = 1;
  h.buckets = {{-150, 2}, {-149, 5}, {-147, 1}, {3, 1}};
  batch.add(kLatency, {"a", "b"}, h);
  const SampleBatch* const one[] = {&batch};
  EXPECT_EQ(words(render_protobuf(one)),
            "family roce_test_rtt_seconds help Time. type 4\n device=a peer=b histogram count=10 sum=12.500000"
            " [1 0.000001] [1 0.000002] [3 0.000625] [6 1.280000] [10 inf] schema=3 threshold zero=1"
            " span -150+2 span 1+1 span 149+1 d2 d3 d-4 d0\n");
}

TEST(ProtobufTest, TheCountOfANativeHistogramIsThatOfItsBuckets) {
  SampleBatch batch;
  Histogram h = histogram({1, 0, 2, 3, 4}, 12.5);
  batch.add(kLatency, {"classic", "b"}, h);
  h.native = true;
  h.buckets = {{-150, 2}, {-149, 6}};  // two of the ten came between the two looks
  batch.add(kLatency, {"native", "b"}, h);
  const SampleBatch* const one[] = {&batch};
  const std::string page = words(render_protobuf(one));
  EXPECT_NE(page.find("device=classic peer=b histogram count=10 "), std::string::npos) << page;
  EXPECT_NE(page.find("device=native peer=b histogram count=8 "), std::string::npos) << page;
}

TEST(ProtobufTest, APageWithoutHistogramsStaysText) {
  SampleBatch batch;
  batch.add(kGauge, {}, 1);
  const SampleBatch* const one[] = {&batch};
  EXPECT_EQ(render_page(one, true).content_type, kTextContentType);
  batch.add(kBare, {}, histogram({1, 0, 0, 0, 0}, 1));
  EXPECT_EQ(render_page(one, true).content_type, kProtobufContentType);
  EXPECT_EQ(render_page(one, true).body, render_protobuf(one));
  EXPECT_EQ(render_page(one, false).content_type, kTextContentType);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/protobuf.h"

#include <cstdint>
#include <limits>
#include <protozero/pbf_builder.hpp>
#include <protozero/varint.hpp>
#include <unordered_set>

#include "exporter/metrics/exposition.h"
#include "exporter/metrics/families.h"

namespace roce {
namespace {

// Field numbers of io/prometheus/client/metrics.proto.
enum class FamilyField : protozero::pbf_tag_type { kName = 1, kHelp = 2, kType = 3, kMetric = 4 };
enum class MetricField : protozero::pbf_tag_type { kLabel = 1, kGauge = 2, kCounter = 3, kHistogram = 7 };
enum class LabelField : protozero::pbf_tag_type { kName = 1, kValue = 2 };
enum class ValueField : protozero::pbf_tag_type { kValue = 1 };
enum class HistogramField : protozero::pbf_tag_type {
  kSampleCount = 1,
  kSampleSum = 2,
  kBucket = 3,
  kSchema = 5,
  kZeroThreshold = 6,
  kZeroCount = 7,
  kPositiveSpan = 12,
  kPositiveDelta = 13
};
enum class BucketField : protozero::pbf_tag_type { kCumulativeCount = 1, kUpperBound = 2 };
enum class SpanField : protozero::pbf_tag_type { kOffset = 1, kLength = 2 };

std::int32_t type_number(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return 0;
    case MetricType::kGauge:
      return 1;
    case MetricType::kHistogram:
      return 4;
  }
  return 3;  // untyped
}

// Runs of neighbouring buckets, each with its distance from the end of the one before, and the counts as differences
// from one bucket to the next.
void add_native(protozero::pbf_builder<HistogramField>& out, const Histogram& histogram) {
  out.add_sint32(HistogramField::kSchema, histogram.schema);
  out.add_double(HistogramField::kZeroThreshold, histogram.zero_threshold);
  out.add_uint64(HistogramField::kZeroCount, histogram.zero_count);
  std::vector<std::int64_t> deltas;
  std::uint64_t before = 0;
  std::int32_t next = 0;  // the index behind the last run
  for (std::size_t i = 0; i < histogram.buckets.size();) {
    const std::int32_t begin = histogram.buckets[i].first;
    std::size_t end = i;
    while (end < histogram.buckets.size() &&
           histogram.buckets[end].first == begin + static_cast<std::int32_t>(end - i)) {
      deltas.push_back(static_cast<std::int64_t>(histogram.buckets[end].second - before));
      before = histogram.buckets[end].second;
      ++end;
    }
    protozero::pbf_builder<SpanField> span(out, HistogramField::kPositiveSpan);
    span.add_sint32(SpanField::kOffset, begin - next);
    span.add_uint32(SpanField::kLength, static_cast<std::uint32_t>(end - i));
    next = begin + static_cast<std::int32_t>(end - i);
    i = end;
  }
  out.add_packed_sint64(HistogramField::kPositiveDelta, deltas.begin(), deltas.end());
}

void add_histogram(protozero::pbf_builder<MetricField>& metric, const Histogram& histogram) {
  protozero::pbf_builder<HistogramField> out(metric, MetricField::kHistogram);
  // What is recorded while a snapshot is taken may be in one kind of buckets alone; a server refuses a native histogram
  // whose count is not the sum of its buckets.
  out.add_uint64(HistogramField::kSampleCount, histogram.native ? histogram.native_count() : histogram.count());
  out.add_double(HistogramField::kSampleSum, histogram.sum);
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    cumulative += histogram.counts[i];
    protozero::pbf_builder<BucketField> bucket(out, HistogramField::kBucket);
    bucket.add_uint64(BucketField::kCumulativeCount, cumulative);
    bucket.add_double(BucketField::kUpperBound,
                      i < histogram.bounds.size() ? histogram.bounds[i] : std::numeric_limits<double>::infinity());
  }
  if (histogram.native) add_native(out, histogram);
}

// The labels of a series, as they stand in its message.
std::string labels_of(const MetricDesc& metric, const Family::Series& series) {
  std::string out;
  std::string value;
  protozero::pbf_builder<MetricField> builder(out);
  std::string_view names = metric.labels;
  for (std::size_t i = 0; i < series.sample->label_count; ++i) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    value.clear();
    append_clean_label_value(value, series.batch->label(*series.sample, i));
    protozero::pbf_builder<LabelField> label(builder, MetricField::kLabel);
    label.add_string(LabelField::kName, name.data(), name.size());
    label.add_string(LabelField::kValue, value);
  }
  return out;
}

}  // namespace

std::string render_protobuf(std::span<const SampleBatch* const> batches, std::size_t* duplicates) {
  std::string page;
  for (const Family& family : families_of(batches)) {
    const MetricDesc& desc = *family.metric;
    std::string message;
    protozero::pbf_builder<FamilyField> out(message);
    out.add_string(FamilyField::kName, desc.name.data(), desc.name.size());
    out.add_string(FamilyField::kHelp, desc.help.data(), desc.help.size());
    out.add_enum(FamilyField::kType, type_number(desc.type));
    std::unordered_set<std::string> seen;
    for (const Family::Series& series : family.series) {
      std::string metric = labels_of(desc, series);
      if (!seen.insert(metric).second) {
        if (duplicates != nullptr) ++*duplicates;
        continue;
      }
      {
        protozero::pbf_builder<MetricField> builder(metric);
        if (desc.type == MetricType::kHistogram) {
          add_histogram(builder, series.batch->histogram(*series.sample));
        } else {
          const bool counter = desc.type == MetricType::kCounter;
          protozero::pbf_builder<ValueField> value(builder, counter ? MetricField::kCounter : MetricField::kGauge);
          value.add_double(ValueField::kValue, series.sample->value.as_double());
        }
      }
      out.add_message(FamilyField::kMetric, metric);
    }
    protozero::write_varint(std::back_inserter(page), message.size());
    page += message;
  }
  return page;
}

}  // namespace roce

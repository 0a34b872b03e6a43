// SPDX-License-Identifier: Apache-2.0
//
// Samples: what one run of one collector on one device produced. Label texts are kept in one arena a batch, so that
// a host with hundreds of functions costs few allocations. A batch is built by one thread, then read-only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/metrics/histogram.h"
#include "exporter/metrics/metric.h"

namespace roce {

// A sample value. Integers stay exact over the whole 64-bit range.
class Value {
 public:
  Value(std::uint64_t v) : kind_(Kind::kUnsigned), u_(v) {}  // NOLINT: implicit by design
  Value(std::int64_t v) : kind_(Kind::kSigned), i_(v) {}     // NOLINT
  Value(int v) : kind_(Kind::kSigned), i_(v) {}              // NOLINT
  Value(unsigned v) : kind_(Kind::kUnsigned), u_(v) {}       // NOLINT
  Value(double v) : kind_(Kind::kDouble), d_(v) {}           // NOLINT
  Value(bool v) : kind_(Kind::kUnsigned), u_(v ? 1 : 0) {}   // NOLINT

  double as_double() const;
  std::uint64_t as_unsigned() const;       // 0 where it is none
  void append_to(std::string& out) const;  // exposition text: exact integer, shortest double, +Inf, -Inf, NaN

 private:
  enum class Kind : std::uint8_t { kUnsigned, kSigned, kDouble };
  Kind kind_;
  union {
    std::uint64_t u_;
    std::int64_t i_;
    double d_;
  };
};

class SampleBatch {
 public:
  struct Sample {
    const MetricDesc* metric;
    Value value;                // of a histogram: its place, see histogram()
    std::uint32_t label_begin;  // index into label ends
    std::uint32_t label_count;
  };

  // `labels` are the values for metric.labels, in that order; the counts must agree (checked, also in release builds:
  // a sample with a wrong count is dropped and counted in malformed()).
  void add(const MetricDesc& metric, std::initializer_list<std::string_view> labels, Value value);
  void add(const MetricDesc& metric, const std::vector<std::string_view>& labels, Value value);

  // For metrics of type kHistogram, and only for them. One whose counts do not match its bounds is dropped and counted
  // too.
  void add(const MetricDesc& metric, const std::vector<std::string_view>& labels, Histogram histogram);
  const Histogram& histogram(const Sample& s) const;
  bool has_histograms() const { return !histograms_.empty(); }

  const std::vector<Sample>& samples() const { return samples_; }
  std::string_view label(const Sample& s, std::size_t i) const;
  std::size_t malformed() const { return malformed_; }

 private:
  template <class Range>
  void add_range(const MetricDesc& metric, const Range& labels, Value value);

  std::string arena_;
  std::vector<std::uint32_t> ends_;
  std::vector<Sample> samples_;
  std::vector<Histogram> histograms_;
  std::size_t malformed_ = 0;
};

}  // namespace roce

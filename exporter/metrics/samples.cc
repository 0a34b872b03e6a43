// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/samples.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace roce {

double Value::as_double() const {
  switch (kind_) {
    case Kind::kUnsigned:
      return static_cast<double>(u_);
    case Kind::kSigned:
      return static_cast<double>(i_);
    case Kind::kDouble:
      return d_;
  }
  return d_;
}

std::uint64_t Value::as_unsigned() const { return kind_ == Kind::kUnsigned ? u_ : 0; }

void Value::append_to(std::string& out) const {
  std::array<char, 32> buffer;  // NOLINT: filled by to_chars
  std::to_chars_result end{};
  switch (kind_) {
    case Kind::kUnsigned:
      end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), u_);
      break;
    case Kind::kSigned:
      end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), i_);
      break;
    case Kind::kDouble:
      if (std::isnan(d_)) {
        out += "NaN";
        return;
      }
      if (std::isinf(d_)) {
        out += d_ > 0 ? "+Inf" : "-Inf";
        return;
      }
      // A whole number is written as one: rates and byte counts read better than 5e+10, and lose nothing below 2^53.
      if (std::abs(d_) < 9007199254740992.0 && std::trunc(d_) == d_)
        end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<std::int64_t>(d_));
      else
        end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d_);
      break;
  }
  out.append(buffer.data(), end.ptr);
}

template <class Range>
void SampleBatch::add_range(const MetricDesc& metric, const Range& labels, Value value) {
  if (labels.size() != label_count(metric.labels)) {
    ++malformed_;
    return;
  }
  const auto begin = static_cast<std::uint32_t>(ends_.size());
  for (std::string_view label : labels) {
    arena_ += label;
    ends_.push_back(static_cast<std::uint32_t>(arena_.size()));
  }
  samples_.push_back({&metric, value, begin, static_cast<std::uint32_t>(labels.size())});
}

void SampleBatch::add(const MetricDesc& metric, std::initializer_list<std::string_view> labels, Value value) {
  if (metric.type == MetricType::kHistogram)
    ++malformed_;
  else
    add_range(metric, labels, value);
}

void SampleBatch::add(const MetricDesc& metric, const std::vector<std::string_view>& labels, Value value) {
  if (metric.type == MetricType::kHistogram)
    ++malformed_;
  else
    add_range(metric, labels, value);
}

void SampleBatch::add(const MetricDesc& metric, const std::vector<std::string_view>& labels, Histogram histogram) {
  if (metric.type != MetricType::kHistogram || histogram.counts.size() != histogram.bounds.size() + 1) {
    ++malformed_;
    return;
  }
  const std::size_t before = samples_.size();
  add_range(metric, labels, static_cast<std::uint64_t>(histograms_.size()));
  if (samples_.size() != before) histograms_.push_back(std::move(histogram));
}

const Histogram& SampleBatch::histogram(const Sample& s) const {
  return histograms_[static_cast<std::size_t>(s.value.as_unsigned())];
}

std::string_view SampleBatch::label(const Sample& s, std::size_t i) const {
  const std::size_t at = s.label_begin + i;
  const std::uint32_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(arena_).substr(begin, ends_[at] - begin);
}

}  // namespace roce

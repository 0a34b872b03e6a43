// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/exposition.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>
#include <vector>

#include "exporter/metrics/families.h"
#include "exporter/metrics/protobuf.h"

namespace roce {
namespace {

constexpr std::string_view kBucket = "_bucket";

void append_help(std::string& out, std::string_view help) {
  for (char c : help) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
}

// The writing of one family's series: what stands between the label values is made once for all of them.
class SeriesWriter {
 public:
  explicit SeriesWriter(const MetricDesc& metric) {
    char before = '{';
    for (std::string_view names = metric.labels; !names.empty();) {
      const std::size_t comma = std::min(names.find(','), names.size());
      std::string& text = between_.emplace_back(between_.empty() ? "" : "\"");
      text += std::exchange(before, ',');
      text += names.substr(0, comma);
      text += "=\"";
      names.remove_prefix(std::min(comma + 1, names.size()));
    }
  }

  // The name and the labels, for a histogram's bucket without the bound and the closing brace.
  void append(std::string& out, const Family::Series& ref, std::string_view name) const {
    out += name;
    for (std::size_t i = 0; i < between_.size(); ++i) {
      out += between_[i];
      append_label_value(out, ref.batch->label(*ref.sample, i));
    }
    if (!between_.empty()) out += '"';
  }
  bool has_labels() const { return !between_.empty(); }

 private:
  std::vector<std::string> between_;  // {device="   ",port="
};

// The labels of a family's series that are on the page already, compared as they are written: replaced bytes and cut
// values can make two of different ones. One table for all families, cleared for each.
class WrittenSeries {
 public:
  void clear(std::size_t most) {
    places_.clear();
    slots_.assign(std::bit_ceil(2 * most + 1), 0);
  }
  // Whether what the page ends with from `begin` on was there; if not, it is now.
  bool repeated(const std::string& page, std::size_t begin) {
    const std::string_view labels = std::string_view(page).substr(begin);
    std::size_t slot = std::hash<std::string_view>{}(labels) & (slots_.size() - 1);
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      const auto& [at, length] = places_[slots_[slot] - 1];
      if (std::string_view(page).substr(at, length) == labels) return true;
    }
    places_.emplace_back(begin, labels.size());
    slots_[slot] = static_cast<std::uint32_t>(places_.size());
    return false;
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // begin and length
  std::vector<std::uint32_t> slots_;                         // open addressing: index into places_, counted from 1
};

// Its buckets, sum and count.
void append_histogram(std::string& out, const MetricDesc& metric, const SeriesWriter& writer,
                      const Family::Series& ref) {
  const Histogram& histogram = ref.batch->histogram(*ref.sample);
  const std::string name(metric.name);
  std::string series;
  writer.append(series, ref, name + std::string(kBucket));
  series += writer.has_labels() ? ",le=\"" : "{le=\"";
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    cumulative += histogram.counts[i];
    out += series;
    if (i < histogram.bounds.size())
      Value(histogram.bounds[i]).append_to(out);
    else
      out += "+Inf";
    out += "\"} ";
    Value(cumulative).append_to(out);
    out += '\n';
  }
  for (const auto& [suffix, value] :
       {std::pair("_sum", Value(histogram.sum)), std::pair("_count", Value(cumulative))}) {
    writer.append(out, ref, name + suffix);
    out += writer.has_labels() ? "} " : " ";
    value.append_to(out);
    out += '\n';
  }
}

// Returns the number of repeated series left out; the first one stays.
std::size_t append_family(std::string& out, const Family& family, WrittenSeries& written) {
  const MetricDesc& metric = *family.metric;
  out += "# HELP ";
  out += metric.name;
  out += ' ';
  append_help(out, metric.help);
  out += "\n# TYPE ";
  out += metric.name;
  out += ' ';
  out += to_string(metric.type);
  out += '\n';
  const SeriesWriter writer(metric);
  const bool histogram = metric.type == MetricType::kHistogram;
  std::string name(metric.name);
  if (histogram) name += kBucket;  // its first line begins with the same text, which stays comparable
  std::size_t repeated = 0;
  written.clear(family.series.size());
  for (const Family::Series& ref : family.series) {
    const std::size_t begin = out.size();
    writer.append(out, ref, name);
    if (written.repeated(out, begin + name.size())) {
      out.resize(begin);
      ++repeated;
      continue;
    }
    if (histogram) {
      out.resize(begin);
      append_histogram(out, metric, writer, ref);
      continue;
    }
    out += writer.has_labels() ? "} " : " ";
    ref.sample->value.append_to(out);
    out += '\n';
  }
  return repeated;
}

// Length of the UTF-8 sequence at the front of `text`, 0 when the bytes are not one (overlong forms and surrogates
// are refused too, as Go's validation in the server does).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

namespace {

// Nearly all label values are ASCII that needs no escape, and are written as they are.
bool plain(std::string_view value) {
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return static_cast<signed char>(c) > 0 && c != '\\' && c != '"' && c != '\n'; });
}

void append_value(std::string& out, std::string_view value, bool escape) {
  if (value.size() <= kMaxLabelBytes && plain(value)) {
    out += value;
    return;
  }
  std::size_t used = 0;
  while (!value.empty()) {
    const std::size_t n = utf8_length(value);
    const bool replaced = n == 0 || value.front() == '\0';
    const std::size_t bytes = replaced ? 3 : n;
    if (used + bytes > kMaxLabelBytes) return;
    used += bytes;
    if (replaced) {
      out += "\xEF\xBF\xBD";  // U+FFFD, the replacement character
      value.remove_prefix(1);
      continue;
    }
    const char c = value.front();
    if (escape && (c == '\\' || c == '"' || c == '\n')) {
      out += '\\';
      out += c == '\n' ? 'n' : c;
    } else {
      out += value.substr(0, n);
    }
    value.remove_prefix(n);
  }
}

}  // namespace

void append_label_value(std::string& out, std::string_view value) { append_value(out, value, true); }

void append_clean_label_value(std::string& out, std::string_view value) { append_value(out, value, false); }

std::string render_text(std::span<const SampleBatch* const> batches, std::size_t* duplicates) {
  std::size_t count = 0;
  for (const SampleBatch* batch : batches) count += batch->samples().size();
  const std::vector<Family> families = families_of(batches);
  std::string out;
  out.reserve(count * 96 + families.size() * 160);
  WrittenSeries written;
  for (const Family& family : families) {
    const std::size_t repeated = append_family(out, family, written);
    if (duplicates != nullptr) *duplicates += repeated;
  }
  return out;
}

RenderedPage render_page(std::span<const SampleBatch* const> batches, bool prefers_protobuf, std::size_t* duplicates) {
  if (prefers_protobuf &&
      std::any_of(batches.begin(), batches.end(), [](const SampleBatch* batch) { return batch->has_histograms(); }))
    return {kProtobufContentType, render_protobuf(batches, duplicates)};
  return {kTextContentType, render_text(batches, duplicates)};
}

bool valid_metric_name(std::string_view name) {
  const auto ok = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; };
  return !name.empty() && ok(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return ok(c) || (c >= '0' && c <= '9'); });
}

bool valid_label_name(std::string_view name) {
  return valid_metric_name(name) && name.find(':') == std::string_view::npos && !name.starts_with("__");
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/metrics/exposition.h"

#include <algorithm>
#include <unordered_map>
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

// The name and the labels, for a histogram's bucket without the bound and the closing brace.
void append_series(std::string& out, const MetricDesc& metric, const Family::Series& ref,
                   std::string_view suffix = "") {
  out += metric.name;
  out += suffix;
  std::string_view names = metric.labels;
  for (std::size_t i = 0; i < ref.sample->label_count; ++i) {
    out += i == 0 ? '{' : ',';
    const std::size_t comma = names.find(',');
    out += names.substr(0, comma);
    names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
    out += "=\"";
    append_label_value(out, ref.batch->label(*ref.sample, i));
    out += '"';
  }
  if (ref.sample->label_count != 0 && suffix != kBucket) out += '}';
}

// Its buckets, sum and count.
void append_histogram(std::string& out, const MetricDesc& metric, const Family::Series& ref) {
  const Histogram& histogram = ref.batch->histogram(*ref.sample);
  const std::string series = [&] {
    std::string text;
    append_series(text, metric, ref, kBucket);
    text += ref.sample->label_count == 0 ? "{le=\"" : ",le=\"";
    return text;
  }();
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
  append_series(out, metric, ref, "_sum");
  out += ' ';
  Value(histogram.sum).append_to(out);
  out += '\n';
  append_series(out, metric, ref, "_count");
  out += ' ';
  Value(cumulative).append_to(out);
  out += '\n';
}

// Returns the number of repeated series left out; the first one stays. Series are compared as they are written:
// replaced bytes and cut values can make two of different ones.
std::size_t append_family(std::string& out, const MetricDesc& metric, const std::vector<Family::Series>& refs) {
  out += "# HELP ";
  out += metric.name;
  out += ' ';
  append_help(out, metric.help);
  out += "\n# TYPE ";
  out += metric.name;
  out += ' ';
  out += to_string(metric.type);
  out += '\n';
  std::size_t repeated = 0;
  std::unordered_multimap<std::size_t, std::pair<std::size_t, std::size_t>> seen;  // hash -> place and length in `out`
  seen.reserve(refs.size());
  for (const Family::Series& ref : refs) {
    const std::size_t begin = out.size();
    append_series(out, metric, ref, metric.type == MetricType::kHistogram ? kBucket : std::string_view{});
    const std::string_view page = out;
    const std::string_view series = page.substr(begin);
    const std::size_t hash = std::hash<std::string_view>{}(series);
    const auto [first, last] = seen.equal_range(hash);
    if (std::any_of(first, last, [&](const auto& entry) {
          return page.substr(entry.second.first, entry.second.second) == series;
        })) {
      out.resize(begin);
      ++repeated;
      continue;
    }
    seen.emplace(hash, std::pair(begin, series.size()));
    if (metric.type == MetricType::kHistogram) {
      out.resize(begin);  // the first line begins with the same text, which stays comparable
      append_histogram(out, metric, ref);
      continue;
    }
    out += ' ';
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

void append_value(std::string& out, std::string_view value, bool escape) {
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
  for (const Family& family : families) {
    const std::size_t repeated = append_family(out, *family.metric, family.series);
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

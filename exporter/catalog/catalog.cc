// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/catalog.h"

#include <algorithm>

namespace roce {
namespace {

using enum MetricType;
using enum Proof;

#define ROCE_METRIC(id, name, type, unit, labels, collector, by_default, proof, help) \
  MetricDesc{name, type, unit, labels, collector, by_default, proof, help},
constexpr MetricDesc kMetrics[] = {
#include "exporter/catalog/metrics.def"
};
#undef ROCE_METRIC

#define ROCE_PROCESS_METRIC(id, name, type, unit, labels, collector, by_default, proof, help) \
  MetricDesc{name, type, unit, labels, collector, by_default, proof, help},
constexpr MetricDesc kProcessMetrics[] = {
#include "exporter/catalog/process.def"
};
#undef ROCE_PROCESS_METRIC

namespace index_of {
enum Metric : std::size_t {
#define ROCE_METRIC(id, ...) id,
#include "exporter/catalog/metrics.def"
#undef ROCE_METRIC
};
enum Process : std::size_t {
#define ROCE_PROCESS_METRIC(id, ...) id,
#include "exporter/catalog/process.def"
#undef ROCE_PROCESS_METRIC
};
}  // namespace index_of

// ---- rules of a metric, kept while compiling -------------------------------------------------------------------------

constexpr bool legal_name(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (char c : s) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

// Calls f(name) for each part of a comma-separated list.
template <class F>
constexpr bool each_part(std::string_view list, F f) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (!f(list.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
    if (list.empty()) return false;  // a comma at the end
  }
  return true;
}

constexpr bool legal_labels(std::string_view list) {
  return each_part(list, [&](std::string_view name) {
    if (!legal_name(name) || name.starts_with("__") || name == "job" || name == "instance" || name == "le") return false;
    int seen = 0;
    each_part(list, [&](std::string_view other) {
      seen += other == name ? 1 : 0;
      return true;
    });
    return seen == 1;
  });
}

constexpr bool one_line(std::string_view s) {
  return !s.empty() && s.find('\n') == std::string_view::npos && s.front() != ' ' && s.back() != ' ';
}

constexpr bool unit_in_name(const MetricDesc& m) {
  if (m.unit != "" && m.unit != "bytes" && m.unit != "seconds" && m.unit != "bytes_per_second" && m.unit != "ratio") {
    return false;
  }
  std::string_view stem = m.name;
  if (m.type == kCounter) stem.remove_suffix(std::string_view("_total").size());
  const bool bytes_per_second = stem.ends_with("_bytes_per_second");
  if (m.unit == "bytes_per_second") return bytes_per_second;
  if (m.unit.empty()) return !stem.ends_with("_bytes") && !stem.ends_with("_seconds") && !bytes_per_second;
  return stem.size() > m.unit.size() && stem.ends_with(m.unit) && stem[stem.size() - m.unit.size() - 1] == '_';
}

constexpr bool total_is_counter(const MetricDesc& m) { return m.name.ends_with("_total") == (m.type == kCounter); }

template <std::size_t N, class F>
constexpr bool all_of(const MetricDesc (&metrics)[N], F f) {
  for (const MetricDesc& m : metrics) {
    if (!f(m)) return false;
  }
  return true;
}

template <std::size_t N>
constexpr bool unique_names(const MetricDesc (&metrics)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t j = i + 1; j < N; ++j) {
      if (metrics[i].name == metrics[j].name) return false;
    }
  }
  return true;
}

static_assert(all_of(kMetrics, [](const MetricDesc& m) { return legal_name(m.name); }));
static_assert(all_of(kMetrics, [](const MetricDesc& m) { return m.name.starts_with("roce_"); }));
static_assert(all_of(kMetrics, total_is_counter), "_total belongs to counters, and to each of them");
static_assert(all_of(kMetrics, unit_in_name), "a name ends in its base unit");
static_assert(all_of(kMetrics, [](const MetricDesc& m) { return legal_labels(m.labels); }));
static_assert(all_of(kMetrics, [](const MetricDesc& m) { return one_line(m.help); }));
static_assert(all_of(kMetrics, [](const MetricDesc& m) { return legal_name(m.collector); }));
static_assert(unique_names(kMetrics));
static_assert(all_of(kProcessMetrics, [](const MetricDesc& m) { return m.name.starts_with("process_"); }));
static_assert(all_of(kProcessMetrics, total_is_counter));
static_assert(all_of(kProcessMetrics, unit_in_name));
static_assert(all_of(kProcessMetrics, [](const MetricDesc& m) { return one_line(m.help) && m.labels.empty(); }));
static_assert(unique_names(kProcessMetrics));

}  // namespace

namespace metric {
#define ROCE_METRIC(id, ...) const MetricDesc& id = kMetrics[index_of::id];
#include "exporter/catalog/metrics.def"
#undef ROCE_METRIC
#define ROCE_PROCESS_METRIC(id, ...) const MetricDesc& id = kProcessMetrics[index_of::id];
#include "exporter/catalog/process.def"
#undef ROCE_PROCESS_METRIC
}  // namespace metric

std::span<const MetricDesc> all_metrics() { return kMetrics; }
std::span<const MetricDesc> process_metrics() { return kProcessMetrics; }

// PART 2

}  // namespace roce

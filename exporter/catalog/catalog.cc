// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/catalog.h"

#include <algorithm>

namespace roce {
namespace {

using enum MetricType;
using enum Proof;
using enum Weight;

#define ROCE_METRIC(id, name, type, unit, labels, collector, by_default, proof, help, ...) \
  MetricDesc{name, type, unit, labels, collector, by_default, proof, help __VA_OPT__(, ) __VA_ARGS__},
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
enum Metric : std::uint16_t {
#define ROCE_METRIC(id, ...) id,
#include "exporter/catalog/metrics.def"
#undef ROCE_METRIC
};
enum Process : std::uint8_t {
#define ROCE_PROCESS_METRIC(id, ...) id,
#include "exporter/catalog/process.def"
#undef ROCE_PROCESS_METRIC
};
}  // namespace index_of

// ---- rules of a metric, kept while compiling ----

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
    if (!legal_name(name) || name.starts_with("__")) return false;
    if (name == "job" || name == "instance" || name == "le") return false;
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
  if (m.unit != "" && m.unit != "bytes" && m.unit != "seconds" && m.unit != "bytes_per_second" && m.unit != "ratio" &&
      m.unit != "celsius") {
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

// ---- counter rows ----

struct Width {
  std::uint8_t bits;
  AtTop at_top;
};
constexpr Width k64{64, AtTop::kPlain};
constexpr Width k32Wraps{32, AtTop::kWraps};
constexpr Width kSaturates32{32, AtTop::kSaturates};
constexpr Width kSaturates16{16, AtTop::kSaturates};
constexpr Width kSaturates8{8, AtTop::kSaturates};
constexpr Width kSaturates4{4, AtTop::kSaturates};

struct Options {
  std::uint32_t multiply = 1;
  std::uint32_t divide = 1;
  bool optional = false;
  bool fallback = false;
  std::string_view twin_of{};
};

// Not constexpr: a row that breaks a rule does not compile.
void row_has_a_label_that_the_metric_does_not_have() {}
void row_leaves_a_label_of_the_metric_without_value() {}

// Values of `labels` in the order of the metric's labels, which `labels` must keep.
constexpr LabelValues values_of(std::string_view labels, std::string_view metric_labels) {
  LabelValues values;
  each_part(metric_labels, [&](std::string_view name) {
    if (is_object_label(name)) return true;
    const std::size_t equals = labels.find('=');
    if (equals == std::string_view::npos || labels.substr(0, equals) != name) {
      row_leaves_a_label_of_the_metric_without_value();
    }
    const std::size_t comma = labels.find(',');
    values.text[values.count++] =
        labels.substr(equals + 1, comma == std::string_view::npos ? comma : comma - equals - 1);
    labels.remove_prefix(comma == std::string_view::npos ? labels.size() : comma + 1);
    return true;
  });
  if (!labels.empty()) row_has_a_label_that_the_metric_does_not_have();
  return values;
}

constexpr CounterRow make_row(std::string_view driver, std::string_view counter, Interface interface,
                              const MetricDesc& metric, std::string_view labels, Width width, std::string_view why,
                              Options options) {
  CounterRow row;
  row.driver = driver;
  row.counter = counter;
  row.interface = interface;
  row.metric = &metric;
  row.labels = labels;
  row.multiply = options.multiply;
  row.divide = options.divide;
  row.width = width.bits;
  row.at_top = width.at_top;
  row.gauge = metric.type == kGauge;
  row.optional = options.optional;
  row.fallback = options.fallback;
  row.twin_of = options.twin_of;
  row.why = why;
  return row;
}

constexpr CounterRow make_family_row(std::string_view driver, std::string_view counter, Interface interface,
                                     const MetricDesc& metric, std::string_view labels, Width width,
                                     std::string_view why, Options options = {}) {
  CounterRow row = make_row(driver, counter, interface, metric, labels, width, why, options);
  row.values = values_of(labels, metric.labels);
  return row;
}

constexpr CounterRow make_generic_row(std::string_view driver, std::string_view counter, Interface interface,
                                      const MetricDesc& metric, std::string_view labels, Width width,
                                      std::string_view why, Options options = {}) {
  CounterRow row = make_row(driver, counter, interface, metric, labels, width, why, options);
  row.values.text[0] = counter;
  row.values.count = 1;
  return row;
}

constexpr CounterRow make_omitted_row(std::string_view driver, std::string_view counter, Interface interface,
                                      std::string_view why) {
  CounterRow row;
  row.driver = driver;
  row.counter = counter;
  row.interface = interface;
  row.why = why;
  return row;
}

#define ROCE_COUNTER(counter, interface, metric, labels, width, why, ...)                                \
  make_family_row(ROCE_DRIVER, counter, Interface::interface, kMetrics[index_of::metric], labels, width, \
                  why __VA_OPT__(, Options{__VA_ARGS__})),
#define ROCE_DRIVER_COUNTER(counter, interface, width, why, ...)                                                       \
  make_generic_row(ROCE_DRIVER, counter, Interface::interface, kMetrics[index_of::driver_counter], "counter=" counter, \
                   width, why __VA_OPT__(, Options{__VA_ARGS__})),
#define ROCE_DRIVER_GAUGE(counter, interface, why, ...)                                                              \
  make_generic_row(ROCE_DRIVER, counter, Interface::interface, kMetrics[index_of::driver_gauge], "counter=" counter, \
                   k64, why __VA_OPT__(, Options{__VA_ARGS__})),
#define ROCE_NETDEV_COUNTER(counter, width, why, ...)                                                                 \
  make_generic_row(ROCE_DRIVER, counter, Interface::kEthtool, kMetrics[index_of::netdev_counter], "counter=" counter, \
                   width, why __VA_OPT__(, Options{__VA_ARGS__})),
#define ROCE_NETDEV_LEVEL(counter, why, ...)                                                                        \
  make_generic_row(ROCE_DRIVER, counter, Interface::kEthtool, kMetrics[index_of::netdev_level], "counter=" counter, \
                   k64, why __VA_OPT__(, Options{__VA_ARGS__})),
#define ROCE_OMITTED(counter, interface, why) make_omitted_row(ROCE_DRIVER, counter, Interface::interface, why),
constexpr CounterRow kCounters[] = {
#include "exporter/catalog/counters/all.def"
};
#undef ROCE_COUNTER
#undef ROCE_DRIVER_COUNTER
#undef ROCE_DRIVER_GAUGE
#undef ROCE_NETDEV_COUNTER
#undef ROCE_NETDEV_LEVEL
#undef ROCE_OMITTED

constexpr std::size_t kCounterCount = std::size(kCounters);

constexpr bool counters_all_of(bool (*f)(const CounterRow&)) {
  for (const CounterRow& row : kCounters) {
    if (!f(row)) return false;
  }
  return true;
}
static_assert(counters_all_of([](const CounterRow& r) {
  return !r.driver.empty() && !r.counter.empty() && !r.why.empty();
}));
static_assert(counters_all_of([](const CounterRow& r) { return r.multiply >= 1 && r.divide >= 1; }));
static_assert(counters_all_of([](const CounterRow& r) { return r.counter != "lifespan"; }),
              "a cache time, not a counter");
static_assert(kCounterCount < 65536, "the index holds 16-bit positions");

// ---- look-up ----

using Index = std::array<std::uint16_t, kCounterCount>;

int compare(const CounterRow& row, std::string_view driver, std::string_view counter) {
  const int by_driver = row.driver.compare(driver);
  return by_driver != 0 ? by_driver : row.counter.compare(counter);
}

// Positions of the rows, sorted by driver, counter and interface.
const Index& sorted_index() {
  static const Index index = [] {
    Index positions{};
    for (std::size_t i = 0; i < kCounterCount; ++i) positions[i] = static_cast<std::uint16_t>(i);
    std::sort(positions.begin(), positions.end(), [](std::uint16_t a, std::uint16_t b) {
      const int order = compare(kCounters[a], kCounters[b].driver, kCounters[b].counter);
      return order != 0 ? order < 0 : kCounters[a].interface < kCounters[b].interface;
    });
    return positions;
  }();
  return index;
}

bool has_pattern(std::string_view counter) {
  const std::size_t open = counter.find('[');
  return open != std::string_view::npos && counter.size() >= open + 5 && counter[open + 2] == '-' &&
         counter[open + 4] == ']';
}

// Rows whose counter is a pattern, in the order of the table.
const std::array<std::uint16_t, kCounterCount>& pattern_rows(std::size_t& count) {
  struct Patterns {
    Index positions{};
    std::size_t count = 0;
  };
  static const Patterns patterns = [] {
    Patterns found;
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      if (has_pattern(kCounters[i].counter)) found.positions[found.count++] = static_cast<std::uint16_t>(i);
    }
    return found;
  }();
  count = patterns.count;
  return patterns.positions;
}

bool device_or_port(Interface interface) {
  return interface == Interface::kHwCounters || interface == Interface::kDeviceCounters;
}

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

std::span<const CounterRow> all_counters() { return kCounters; }

std::string_view to_string(Interface interface) {
  switch (interface) {
    case Interface::kPortCounters:
      return "port_counters";
    case Interface::kHwCounters:
      return "hw_counters";
    case Interface::kDeviceCounters:
      return "device_hw_counters";
    case Interface::kCmCounters:
      return "cm_counters";
    case Interface::kNetdev:
      return "netdev";
    case Interface::kEthtool:
      return "ethtool";
    case Interface::kOther:
      break;
  }
  return "other";
}

bool matches_pattern(std::string_view pattern, std::string_view text) {
  if (!has_pattern(pattern)) return pattern == text;
  const std::size_t open = pattern.find('[');
  const std::string_view tail = pattern.substr(open + 5);
  if (text.size() != open + 1 + tail.size()) return false;
  return text.substr(0, open) == pattern.substr(0, open) && text[open] >= pattern[open + 1] &&
         text[open] <= pattern[open + 3] && text.substr(open + 1) == tail;
}

std::string_view value_of(const CounterRow& row, std::size_t i, std::string_view counter) {
  const std::string_view value = row.values.text[i];
  if (!value.starts_with('[')) return value;
  const std::size_t open = row.counter.find('[');
  return open < counter.size() ? counter.substr(open, 1) : std::string_view();
}

const CounterRow* find_counter(std::string_view driver, Interface interface, std::string_view counter) {
  const Index& index = sorted_index();
  auto it = std::lower_bound(index.begin(), index.end(), 0, [&](std::uint16_t position, int) {
    return compare(kCounters[position], driver, counter) < 0;
  });
  const CounterRow* other_level = nullptr;
  for (; it != index.end() && compare(kCounters[*it], driver, counter) == 0; ++it) {
    const CounterRow& row = kCounters[*it];
    if (row.interface == interface) return &row;
    if (device_or_port(row.interface) && device_or_port(interface)) other_level = &row;
  }
  if (other_level != nullptr) return other_level;
  std::size_t count = 0;
  const Index& patterns = pattern_rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    const CounterRow& row = kCounters[patterns[i]];
    if (row.interface == interface && row.driver == driver && matches_pattern(row.counter, counter)) return &row;
  }
  return nullptr;
}

}  // namespace roce

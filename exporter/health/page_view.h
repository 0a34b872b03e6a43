// SPDX-License-Identifier: Apache-2.0
//
// A page as checks read it: its series by family, and how they moved since earlier pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exporter/metrics/samples.h"

namespace roce {

inline constexpr double kActive = 4;  // of roce_port_state

// One series of a page; valid as long as its batch.
class Series {
 public:
  Series(const SampleBatch* batch, const SampleBatch::Sample* sample) : batch_(batch), sample_(sample) {}

  // Value of the label, empty where the metric has no such label.
  std::string_view label(std::string_view name) const;
  double value() const { return sample_->value.as_double(); }
  const MetricDesc& metric() const { return *sample_->metric; }
  // A hash of the label values; with the metric it tells the series from all others.
  std::uint64_t labels_hash() const;

 private:
  const SampleBatch* batch_;
  const SampleBatch::Sample* sample_;
};

// Reads what it was built from; not to be used by several threads.
class PageView {
 public:
  explicit PageView(std::span<const SampleBatch* const> batches);
  PageView(const PageView&) = delete;
  PageView& operator=(const PageView&) = delete;

  std::span<const Series> of(const MetricDesc& metric) const;
  // The first series of the family with these label values; null where there is none. Found by the first of them, so
  // that hosts with hundreds of functions cost no more than their series.
  const Series* find(const MetricDesc& metric,
                     std::initializer_list<std::pair<std::string_view, std::string_view>> labels) const;
  // The series of the family with that value of a label, in the order of the page.
  std::span<const Series* const> with(const MetricDesc& metric, std::string_view label, std::string_view value) const;

 private:
  using ByValue = std::unordered_map<std::string_view, std::vector<const Series*>>;
  // By label; nodes stay where they are, and so does what with() has returned.
  using Indexes = std::map<std::string, ByValue, std::less<>>;

  std::unordered_map<const MetricDesc*, std::vector<Series>> families_;
  mutable std::unordered_map<const MetricDesc*, Indexes> indexes_;  // made when they are first asked for
};

// Names a port so that another card under its name is another port: device, PCI address, port.
std::string port_key(const PageView& page, const Series& port);

// Values of the families that checks watch, thinned out to one in twenty seconds and kept for ten minutes; of a value
// that stands still, only when it came and when it was seen last. Bounded in series and points; what is beyond is not
// watched. Not thread-safe.
class History {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kKept{660};
  static constexpr std::chrono::seconds kSpacing{20};
  static constexpr std::size_t kMaxSeries = 16384;
  static constexpr std::size_t kMaxPoints = 40;
  static constexpr std::size_t kMaxActivePorts = 4096;

  // A family, or those of its series alone that have that value of a label.
  struct Watched {
    const MetricDesc* metric = nullptr;
    std::string_view label;
    std::string_view value;
  };

  explicit History(std::vector<Watched> watched) : watched_(std::move(watched)) {}

  void record(const PageView& page, Clock::time_point now);

  struct Growth {
    double increase = 0;  // a step back is a restart of the counter: what it holds after it counts as old
    double seconds = 0;
    double per_second() const { return increase / seconds; }
  };
  // How a counter grew over the last `span` (up to twice as long where no younger value is kept, less where none is
  // older). Nothing without an earlier value at least a second before the last.
  std::optional<Growth> growth(const Series& series, std::chrono::seconds span) const;

  // Least value of the last `span`, by at least two pages a second or more apart.
  std::optional<double> least(const Series& series, std::chrono::seconds span) const;

  // Ports that a page, or an earlier run, saw active, by port_key(); they stay in it when they go down.
  const std::set<std::string>& active_ports() const { return active_ports_; }
  void remember_active(const std::set<std::string>& ports);

  bool empty() const { return series_.empty(); }

 private:
  struct Point {
    Clock::time_point time;
    double value;
  };
  using Points = std::vector<Point>;
  // Texts of thousands of series would take more memory than their values: sixty-four bits of a hash name one among
  // those of its metric.
  struct Key {
    const MetricDesc* metric;
    std::uint64_t labels;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return key.labels ^ (reinterpret_cast<std::uintptr_t>(key.metric) * 0x9E3779B97F4A7C15U);
    }
  };
  static Key key_of(const Series& series) { return {&series.metric(), series.labels_hash()}; }

  // The points of the span, and when it begins: within a value that stood still there is no point of its own.
  struct Window {
    Points::const_iterator begin;
    Points::const_iterator end;
    Clock::time_point since;
  };
  std::optional<Window> window(const Series& series, std::chrono::seconds span) const;

  std::vector<Watched> watched_;
  std::unordered_map<Key, Points, KeyHash> series_;
  Clock::time_point forgot_{};  // when those that no page shows any more were last taken out
  std::set<std::string> active_ports_;
};

}  // namespace roce

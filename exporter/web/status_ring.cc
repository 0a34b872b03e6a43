// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_ring.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

std::optional<Measure> measure_of(const MetricDesc& metric) {
  for (const auto& [family, measure] : ring_families())
    if (family == &metric) return measure;
  return std::nullopt;
}

// Of the labels behind device and port.
std::size_t digest_of(const SampleBatch& batch, const SampleBatch::Sample& sample) {
  std::string text;
  for (std::size_t i = 2; i < sample.label_count; ++i) {
    text += batch.label(sample, i);
    text += '\0';
  }
  return std::hash<std::string>()(text);
}

}  // namespace

std::span<const std::pair<const MetricDesc*, Measure>> ring_families() {
  static const std::pair<const MetricDesc*, Measure> kFamilies[] = {
      {&metric::port_receive_bytes, Measure::kReceive},   {&metric::port_transmit_bytes, Measure::kTransmit},
      {&metric::receive_out_of_sequence, Measure::kLoss}, {&metric::retransmit_triggers, Measure::kLoss},
      {&metric::retries_exceeded, Measure::kLoss},        {&metric::receiver_not_ready, Measure::kLoss},
      {&metric::port_receive_discards, Measure::kLoss},   {&metric::port_transmit_discards, Measure::kLoss},
      {&metric::priority_discards, Measure::kLoss},       {&metric::receive_ecn_marked, Measure::kCongestion},
      {&metric::cnp_handled, Measure::kCongestion},       {&metric::pfc_pause_seconds, Measure::kPauseSeconds},
      {&metric::pfc_frames, Measure::kPauseFrames},
  };
  return kFamilies;
}

float StatusRing::greatest_growth(const std::vector<One>& before, const std::vector<One>& after, double seconds) {
  double most = std::nan("");
  for (const auto& [digest, value] : after) {
    const auto old =
        std::find_if(before.begin(), before.end(), [d = digest](const One& one) { return one.first == d; });
    // A series that is new or started again tells nothing; fmax takes the number of a number and none.
    if (old != before.end() && value >= old->second) most = std::fmax(most, (value - old->second) / seconds);
  }
  return static_cast<float>(most);
}

void StatusRing::record(std::span<const SampleBatch* const> batches, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!empty_ && now - recorded_ < kSpacing) return;
  empty_ = false;
  recorded_ = now;

  std::map<std::pair<std::string_view, std::string_view>, Sums> sums;
  for (const SampleBatch* batch : batches) {
    const MetricDesc* metric = nullptr;
    std::optional<Measure> measure;
    for (const SampleBatch::Sample& sample : batch->samples()) {
      if (sample.metric != metric) {
        metric = sample.metric;
        measure = measure_of(*metric);
      }
      if (!measure || batch->label(sample, 0).empty()) continue;
      Sums& port = sums[{batch->label(sample, 0), batch->label(sample, 1)}];
      if (*measure == Measure::kPauseSeconds) {
        if (port.pauses.size() < kMaxPauses)
          port.pauses.emplace_back(digest_of(*batch, sample), sample.value.as_double());
        continue;
      }
      Sum& sum = port.of[static_cast<std::size_t>(*measure)];
      sum.value += sample.value.as_double();
      ++sum.series;
    }
  }

  for (auto& [key, port] : ports_)
    std::erase_if(port.points, [now](const Point& point) { return now - point.time > kSpan; });
  std::erase_if(ports_, [now](const auto& entry) { return now - entry.second.time > kSpan; });
  for (const auto& [key, now_sums] : sums) {
    const Key owned(key.first, key.second);
    auto at = ports_.find(owned);
    if (at == ports_.end()) {
      if (ports_.size() >= kMaxPorts) continue;
      at = ports_.emplace(owned, Port{now, now_sums, {}}).first;
      continue;
    }
    Port& port = at->second;
    const double seconds = std::chrono::duration<double>(now - port.time).count();
    Point point;
    point.time = now;
    for (std::size_t i = 0; i < kMeasures; ++i) {
      if (static_cast<Measure>(i) == Measure::kPauseSeconds) {
        point.per_second[i] = greatest_growth(port.last.pauses, now_sums.pauses, seconds);
        continue;
      }
      const Sum& before = port.last.of[i];
      const Sum& after = now_sums.of[i];
      const bool moved_on = after.series != 0 && after.series == before.series && after.value >= before.value;
      point.per_second[i] = moved_on ? static_cast<float>((after.value - before.value) / seconds)
                                     : std::numeric_limits<float>::quiet_NaN();
    }
    if (port.points.size() >= kMaxPoints) port.points.erase(port.points.begin());
    port.points.push_back(point);
    port.time = now;
    port.last = now_sums;
  }
}

std::vector<StatusRing::Point> StatusRing::points(std::string_view device, std::string_view port,
                                                  Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const auto at = ports_.find(Key(device, port));
  if (at == ports_.end()) return {};
  std::vector<Point> points = at->second.points;
  std::erase_if(points, [now](const Point& point) { return now - point.time > kSpan; });
  return points;
}

std::size_t StatusRing::ports() const {
  const std::lock_guard lock(mutex_);
  return ports_.size();
}

std::size_t StatusRing::bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [key, port] : ports_)
    total += sizeof key + key.first.capacity() + key.second.capacity() + sizeof port +
             port.points.capacity() * sizeof(Point) + port.last.pauses.capacity() * sizeof(One);
  return total;
}

}  // namespace roce

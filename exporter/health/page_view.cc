// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/page_view.h"

#include <algorithm>
#include <functional>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

constexpr auto kForgetting = std::chrono::seconds(60);

// Position of a name in a comma-separated list; npos where it is not in it.
std::size_t position(std::string_view list, std::string_view name) {
  for (std::size_t i = 0;; ++i) {
    if (list.starts_with(name) && (list.size() == name.size() || list[name.size()] == ',')) return i;
    const std::size_t comma = list.find(',');
    if (comma == std::string_view::npos) return std::string_view::npos;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string_view Series::label(std::string_view name) const {
  const std::size_t at = position(metric().labels, name);
  return at == std::string_view::npos ? std::string_view() : batch_->label(*sample_, at);
}

std::uint64_t Series::labels_hash() const {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < sample_->label_count; ++i)
    out = (out ^ std::hash<std::string_view>{}(batch_->label(*sample_, i))) * 0x9E3779B97F4A7C15U + i + 1;
  return out;
}

PageView::PageView(std::span<const SampleBatch* const> batches) {
  for (const SampleBatch* batch : batches) {
    const MetricDesc* last = nullptr;
    std::vector<Series>* family = nullptr;
    for (const SampleBatch::Sample& sample : batch->samples()) {
      if (sample.metric != last) {
        last = sample.metric;
        family = &families_[last];
      }
      family->emplace_back(batch, &sample);
    }
  }
}

std::span<const Series> PageView::of(const MetricDesc& metric) const {
  const auto at = families_.find(&metric);
  return at == families_.end() ? std::span<const Series>() : std::span<const Series>(at->second);
}

std::span<const Series* const> PageView::with(const MetricDesc& metric, std::string_view label,
                                              std::string_view value) const {
  const auto family = families_.find(&metric);
  if (family == families_.end()) return {};
  Indexes& indexes = indexes_[&metric];
  auto index = indexes.find(label);
  if (index == indexes.end()) {
    index = indexes.emplace(label, ByValue()).first;
    for (const Series& series : family->second) index->second[series.label(label)].push_back(&series);
  }
  const auto found = index->second.find(value);
  return found == index->second.end() ? std::span<const Series* const>()
                                      : std::span<const Series* const>(found->second);
}

const Series* PageView::find(const MetricDesc& metric,
                             std::initializer_list<std::pair<std::string_view, std::string_view>> labels) const {
  for (const Series* series : with(metric, labels.begin()->first, labels.begin()->second))
    if (std::all_of(labels.begin(), labels.end(), [&](const auto& l) { return series->label(l.first) == l.second; }))
      return series;
  return nullptr;
}

std::string port_key(const PageView& page, const Series& port) {
  const std::string_view device = port.label("device");
  const Series* info = page.find(metric::device_info, {{"device", device}});
  std::string out(device);
  for (const std::string_view part :
       {info == nullptr ? std::string_view() : info->label("pci_address"), port.label("port")}) {
    out += ' ';
    out += part;
  }
  return out;
}

void History::remember_active(const std::set<std::string>& ports) {
  for (const std::string& port : ports)
    if (active_ports_.size() < kMaxActivePorts) active_ports_.insert(port);
}

void History::record(const PageView& page, Clock::time_point now) {
  for (const Series& state : page.of(metric::port_state))
    if (state.value() >= kActive && active_ports_.size() < kMaxActivePorts) active_ports_.insert(port_key(page, state));
  if (now - forgot_ >= kForgetting) {
    forgot_ = now;
    std::erase_if(series_, [&](const auto& entry) { return now - entry.second.back().time > kKept; });
  }
  for (const Watched& watched : watched_) {
    for (const Series& series : page.of(*watched.metric)) {
      if (!watched.label.empty() && series.label(watched.label) != watched.value) continue;
      const Key key = key_of(series);
      auto at = series_.find(key);
      if (at == series_.end()) {
        if (series_.size() >= kMaxSeries) continue;
        at = series_.emplace(key, Points()).first;
      }
      Points& points = at->second;
      if (!points.empty() && now - points.back().time > kKept) points.clear();  // gone, and come again
      const Point point{now, series.value()};
      // The last point slides along while the value stands still, and until it is far enough from the one before it;
      // not where a counter began again, which is where its growth is counted from.
      if (points.size() >= 2) {
        const Point& before = points[points.size() - 2];
        const bool still = before.value == points.back().value && point.value == before.value;
        const bool near = points.back().time - before.time < kSpacing && points.back().value >= before.value;
        if (still || near) points.pop_back();
      }
      points.push_back(point);
      while (points.size() > kMaxPoints || (points.size() > 1 && now - points[1].time > kKept))
        points.erase(points.begin());
    }
  }
}

std::optional<History::Window> History::window(const Series& series, std::chrono::seconds span) const {
  const auto at = series_.find(key_of(series));
  if (at == series_.end()) return std::nullopt;
  const Points& points = at->second;
  const auto last = std::prev(points.end());
  // The youngest value that is as old as the span, unless it is far older; else the oldest within the span.
  auto first = points.begin();
  while (std::next(first) != points.end() && last->time - std::next(first)->time >= span) ++first;
  auto since = first->time;
  if (first != last && last->time - since > span) {
    if (first->value == std::next(first)->value)
      since = last->time - span;  // it stood still from its point to the next
    else if (last->time - since > 2 * span && std::next(first) != last)
      since = (++first)->time;
  }
  if (first == last || last->time - since < std::chrono::seconds(1)) return std::nullopt;
  return Window{first, points.end(), since};
}

std::optional<History::Growth> History::growth(const Series& series, std::chrono::seconds span) const {
  const auto range = window(series, span);
  if (!range) return std::nullopt;
  Growth out;
  for (auto at = std::next(range->begin); at != range->end; ++at)
    out.increase += std::max(0.0, at->value - std::prev(at)->value);
  out.seconds = std::chrono::duration<double>(std::prev(range->end)->time - range->since).count();
  return out;
}

std::optional<double> History::least(const Series& series, std::chrono::seconds span) const {
  const auto range = window(series, span);
  if (!range) return std::nullopt;
  double out = range->begin->value;
  for (auto at = range->begin; at != range->end; ++at) out = std::min(out, at->value);
  return out;
}

}  // namespace roce

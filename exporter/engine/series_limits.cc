// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/series_limits.h"

#include <algorithm>
#include <map>

namespace roce {
namespace {

using Counts = std::map<std::string_view, std::size_t>;  // by port or network device

bool is_detail(const Part& part, const SampleBatch::Sample& sample) {
  return part.least || sample.metric->weight == Weight::kDetail;
}

std::string_view port_of(const LimitedPart& of, const SampleBatch::Sample& sample) {
  const bool has_port = of.of_rdma_device && sample.metric->labels.starts_with("device,port");
  return has_port ? of.part->samples.label(sample, 1) : std::string_view{};
}

void copy(const SampleBatch& from, const SampleBatch::Sample& sample, SampleBatch& to) {
  std::vector<std::string_view> labels;
  for (std::size_t i = 0; i < sample.label_count; ++i) labels.push_back(from.label(sample, i));
  to.add(*sample.metric, labels, sample.value);
}

// How many details each port or network device, or the host, has room for beside its evidence.
Counts room_for_details(std::span<const LimitedPart> parts, const SeriesLimits& limits) {
  Counts room;
  const auto take = [&](std::string_view object, std::size_t limit, bool detail) {
    std::size_t& left = room.try_emplace(object, limit).first->second;
    if (!detail && left != 0) --left;
  };
  for (const LimitedPart& of : parts)
    for (const SampleBatch::Sample& sample : of.part->samples.samples()) {
      const bool detail = is_detail(*of.part, sample);
      take(port_of(of, sample), limits.together, detail);
      if (!of.netdev.empty()) take(of.netdev, limits.per_netdev, detail);
    }
  return room;
}

LimitedSeries limit_part(const LimitedPart& of, const SeriesLimits& limits, Counts& used, Counts& room) {
  LimitedSeries out;
  const SampleBatch& batch = of.part->samples;
  std::size_t* const of_netdev = of.netdev.empty() ? nullptr : &used[of.netdev];
  std::size_t* const netdev_details_left = of.netdev.empty() ? nullptr : &room[of.netdev];
  std::vector<const SampleBatch::Sample*> kept;
  kept.reserve(batch.samples().size());
  for (const SampleBatch::Sample& sample : batch.samples()) {
    const std::string_view port = port_of(of, sample);
    std::size_t& of_port = used[port];
    const bool detail = is_detail(*of.part, sample);
    std::size_t& details_left = room[port];
    if (of_port >= limits.together || (of_netdev != nullptr && *of_netdev >= limits.per_netdev) ||
        (detail && (details_left == 0 || (netdev_details_left != nullptr && *netdev_details_left == 0)))) {
      ++out.dropped;
      if (!detail) ++out.evidence_dropped;
      continue;
    }
    if (detail) {
      --details_left;
      if (netdev_details_left != nullptr) --*netdev_details_left;
    }
    ++of_port;
    if (of_netdev != nullptr) ++*of_netdev;
    kept.push_back(&sample);
  }
  if (out.dropped == 0) return out;
  auto cut = std::make_shared<SampleBatch>();
  for (const SampleBatch::Sample* sample : kept) copy(batch, *sample, *cut);
  out.cut = std::move(cut);
  return out;
}

}  // namespace

std::vector<LimitedSeries> apply_limits(std::span<const LimitedPart> parts, const SeriesLimits& limits) {
  std::vector<LimitedSeries> out;
  std::size_t all = 0;
  for (const LimitedPart& of : parts) all += of.part->samples.samples().size();
  // Nearly always: no look at single series then.
  if (all <= std::min(limits.together, limits.per_netdev)) {
    out.resize(parts.size());
    return out;
  }
  Counts used;
  Counts room = room_for_details(parts, limits);
  for (const LimitedPart& of : parts) out.push_back(limit_part(of, limits, used, room));
  return out;
}

}  // namespace roce

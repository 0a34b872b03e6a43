// SPDX-License-Identifier: Apache-2.0
//
// The metrics page of the prober: from the engine's statistics to series, within the limit of series.
//
// A device gives at most kMostSeries series. What does not fit is left out in this order, the last first, and counted
// in roce_series_dropped_total{collector="probes"}:
//   1. the device and the responder
//   2. of each peer and class what was sent and lost, then the peers' states and identities
//   3. failures of other reasons that happened
//   4. histograms of loopback and of the prober's own lag
//   5. late, duplicate and corrupt replies, ECN marks, hops, detectors, READ counters
//   6. rtt of the first class
//   7. rtt of other classes, READ rtt, network rtt, responder delay
//   8. connect and registration histograms, and counters that are still 0
// Within each, storage peers come before fixed ones, and "rotating" comes last.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exporter/metrics/samples.h"
#include "probes/catalog/catalog.h"
#include "probes/engine.h"

namespace roce::probe {

inline constexpr std::size_t kMostSeries = 700;
inline constexpr std::string_view kRotating = "rotating";

struct ProbePage {
  SampleBatch samples;
  std::size_t dropped = 0;  // series
};

// Adds the counts of one to another: buckets, cells, sums. What is a state of one peer stays as it is in `into`.
void add_to(HistogramSnapshot& into, const HistogramSnapshot& from);
void add_to(PeerStats& into, const PeerStats& from);

// The sum of rotating peers must not step back when one of them leaves: what those had that left is kept. Thread-safe.
class RotatingTotals {
 public:
  // Gives the engine its next peers.
  void change(Engine& engine, std::vector<Peer> next);
  struct Reading {
    EngineStats stats;
    std::vector<PeerStats> published;  // peers as they are on the page
  };
  // What the engine counts now; never between the two steps of a change.
  Reading read(const Engine& engine) const;

  // The parts of it: to be called with the statistics just before the engine is given `next`;
  void retire(const EngineStats& before, const std::vector<Peer>& next);
  // fixed peers, and one named "rotating" for each device that has or had some.
  std::vector<PeerStats> published(const EngineStats& stats) const;

 private:
  mutable std::mutex change_mutex_;  // taken before mutex_
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::uint8_t>, PeerStats> gone_;  // by device and port
};

// `peers` as RotatingTotals::published gives them. `native`: a histogram counts as one series.
ProbePage make_page(const std::vector<DeviceStats>& devices, const std::vector<PeerStats>& peers, bool native = false,
                    std::size_t most_series = kMostSeries);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// Limits of series: of a port, of a network device, of the host. What is over one is left out of a page, the least
// important first.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "exporter/collectors/collector.h"

namespace roce {

struct SeriesLimits {
  std::size_t together;    // of each port of the RDMA device that the parts are of; else of all parts together
  std::size_t per_netdev;  // of what is of one network device
};

// A part that shares a limit with others.
struct LimitedPart {
  const Part* part;
  bool of_rdma_device;      // series have a limit a port; those without a port, one of their own
  std::string_view netdev;  // that it is of, where it is of no RDMA device; else empty
};

// What became of it.
struct LimitedSeries {
  std::shared_ptr<const SampleBatch> cut;  // what is left; null: all of it
  std::size_t dropped = 0;
  std::size_t evidence_dropped = 0;  // of them, those that are no details (Weight::kDetail)
};

// Parts in order of importance: details go first, of the rest the last.
std::vector<LimitedSeries> apply_limits(std::span<const LimitedPart> parts, const SeriesLimits& limits);

}  // namespace roce

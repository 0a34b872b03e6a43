// SPDX-License-Identifier: Apache-2.0
//
// The page at `/`: verdict first, then links with their last fifteen minutes, a picture of what hangs on what, storage
// sessions, sources. One HTML document without outside assets; the same with its script and without it.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <string_view>

#include "exporter/health/verdict.h"
#include "exporter/web/status_ring.h"

namespace roce {

struct StatusPage {
  std::span<const SampleBatch* const> batches;  // of the page
  const Verdict& verdict;                       // on it
  const StatusRing& ring;
  StatusRing::Clock::time_point now;
  StatusRing::Clock::time_point collected;  // when the page was
  std::time_t wall_clock = 0;               // what clocks show now
  std::string_view telemetry_path;
  std::string_view host_name;  // may be empty
  std::string_view recording;  // where the page is of a recording: a sentence that says so
  bool details = false;        // false: counts and verdict ids alone
};

std::string render_status_page(const StatusPage& status);

}  // namespace roce

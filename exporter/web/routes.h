// SPDX-License-Identifier: Apache-2.0
//
// The exporter's HTTP routes: /, /metrics, /health, /-/healthy, /-/ready, /-/reload.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "exporter/engine/engine.h"
#include "exporter/health/health.h"
#include "exporter/web/page_metrics.h"
#include "exporter/web/server.h"
#include "exporter/web/status_board.h"

namespace roce {

// What the routes work on. Everything outlives the server; thread-safe.
struct RouteContext {
  Engine* engine = nullptr;
  OwnMetrics* own = nullptr;
  Health* health = nullptr;  // null: each page is judged by itself, and its metrics tell nothing of verdicts
  StatusBoard board;
  std::string telemetry_path = "/metrics";
  std::string host_name;  // for the status page; empty: it names none
  std::string recording;  // said there where the pages are of a recording
  int max_requests = 40;
  bool lifecycle = false;                    // POST /-/reload
  std::function<bool(std::string&)> reload;  // false: the text says why the old configuration stays
  std::atomic<int> requests{0};              // under way
};

std::vector<web::Route> exporter_routes(RouteContext& context);

// The page in text format, as `print` writes it and /metrics answers it.
std::string metrics_text(RouteContext& context, std::chrono::milliseconds budget, const std::vector<std::string>& only);

// Budget of a scrape: what Prometheus announces less half a second to travel, else 9.5 s.
std::chrono::milliseconds scrape_budget(std::string_view timeout_header);

}  // namespace roce

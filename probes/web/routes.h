// SPDX-License-Identifier: Apache-2.0
//
// The prober's HTTP routes: /, /metrics, /probe, /peers.json, /rdma/endpoint, /-/healthy, /-/ready, /-/reload; and of
// the control socket: /-/release.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exporter/web/page_metrics.h"
#include "exporter/web/server.h"
#include "probes/config/options.h"
#include "probes/engine.h"
#include "probes/peers/discovery.h"
#include "probes/peers/exchange.h"
#include "probes/web/adhoc.h"
#include "probes/web/page.h"

namespace roce::probe {

// What the routes work on. Everything outlives the server; thread-safe but for what is set before it starts.
struct RouteContext {
  Engine* engine = nullptr;
  OwnMetrics* own = nullptr;
  const HttpsSource* source = nullptr;
  RotatingTotals* rotating = nullptr;
  AdhocProbes* adhoc = nullptr;
  std::function<DiscoveryState()> discovery;
  std::function<std::shared_ptr<const Options>()> options;  // in force
  std::function<bool(std::string&)> reload;                 // false: why the old configuration stays
  std::string telemetry_path = "/metrics";
  std::string node;
  bool lifecycle = false;
  int max_requests = 40;

  std::atomic<int> requests{0};  // under way
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> exchange_ok{0}, exchange_refused{0}, exchange_failed{0};
  std::atomic<bool> token_unreadable{false};  // and it was said
  std::atomic<std::uint64_t> adhoc_success{0}, adhoc_failure{0}, adhoc_busy{0};
};

std::vector<web::Route> prober_routes(RouteContext& context);

// /rdma/endpoint alone, for a server of its own.
std::vector<web::Route> exchange_routes(RouteContext& context);

// The page of /metrics.
std::string metrics_page(RouteContext& context, bool protobuf, std::string& content_type);

// POST /-/release?seconds=N (1 to 600, 60 where none is said): closes every RDMA device for that long.
web::Response answer_release(RouteContext& context, const web::Request& request);

}  // namespace roce::probe

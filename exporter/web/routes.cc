// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "exporter/metrics/exposition.h"
#include "exporter/web/answers.h"
#include "exporter/web/status_assets.h"
#include "exporter/web/status_page.h"

namespace roce {
namespace {

using web::limited;
using web::Request;
using web::Response;
using web::shows_identities;
using web::text_response;

constexpr std::chrono::milliseconds kDefaultBudget{9500};
constexpr std::chrono::milliseconds kStaleVerdict = 2 * StatusBoard::kPatience;

bool known_collector(std::string_view name) {
  const auto registry = collector_registry();
  return std::any_of(registry.begin(), registry.end(), [&](const CollectorEntry& e) { return e.name == name; });
}

Response answer_metrics(RouteContext& context, const Request& request) {
  std::vector<std::string> only;
  for (const auto& [name, value] : request.query) {
    if (name != "collect[]") continue;
    if (!known_collector(value)) {
      std::string names;
      for (const CollectorEntry& entry : collector_registry()) names += fmt::format(" {}", entry.name);
      return text_response(400, fmt::format("collect[]: no such collector; there are:{}\n", names));
    }
    only.push_back(value);
  }
  return limited(context, [&] {
    Response response;
    response.content_type = kTextContentType;
    response.compress = true;
    response.body = metrics_text(context, scrape_budget(request.header("X-Prometheus-Scrape-Timeout-Seconds")), only);
    context.own->scrapes.Increment();
    return response;
  });
}

Verdict verdict_on(RouteContext& context, const Page& page) {
  return context.health != nullptr ? context.health->judge(page) : judge(page);
}

Response answer_health(RouteContext& context, const Request& request) {
  return limited(context, [&] {
    const auto latest = context.board.put(context.engine->collect(kDefaultBudget), false);
    const Verdict verdict = verdict_on(context, *latest.page);
    Response response;
    response.content_type = "application/json";
    response.status = verdict.status == Status::kOk || verdict.status == Status::kWarning ? 200 : 503;
    response.body = to_json(verdict, shows_identities(request));
    return response;
  });
}

// Made of what was collected for others while scrapes come.
Response answer_status(RouteContext& context, const Request& request) {
  return limited(context, [&] {
    auto latest = context.board.latest();
    std::shared_ptr<const Verdict> verdict;
    if (!latest)
      latest = context.board.put(context.engine->collect(kDefaultBudget), false);
    else if (context.health != nullptr)
      verdict = context.health->recent(kStaleVerdict);
    if (!verdict) verdict = std::make_shared<Verdict>(verdict_on(context, *latest->page));
    const auto batches = latest->page->batches();
    const StatusPage status{.batches = batches,
                            .verdict = *verdict,
                            .ring = context.board.ring(),
                            .now = StatusBoard::Clock::now(),
                            .collected = latest->collected,
                            .wall_clock = std::time(nullptr),
                            .telemetry_path = context.telemetry_path,
                            .host_name = context.host_name,
                            .recording = context.recording,
                            .details = shows_identities(request)};
    return web::html_response(render_status_page(status), kStatusStyle, kStatusScript);
  });
}

}  // namespace

std::chrono::milliseconds scrape_budget(std::string_view timeout_header) {
  return web::scrape_budget(timeout_header, kDefaultBudget);
}

std::string metrics_text(RouteContext& context, std::chrono::milliseconds budget,
                         const std::vector<std::string>& only) {
  Page page = context.engine->collect(budget, only);
  if (!page.in_time) context.own->budget_exceeded.Increment();
  SampleBatch own;
  add_own_metrics(*context.own, context.engine->collections(), own);
  add_process_metrics(own);
  // A page of single collectors is no ground for a verdict.
  if (context.health != nullptr && only.empty()) context.health->add_metrics(page, own);
  std::vector<const SampleBatch*> batches = page.batches();
  batches.push_back(&own);
  std::string text = render_text(batches);
  if (only.empty()) context.board.put(std::move(page), true);
  return text;
}

std::vector<web::Route> exporter_routes(RouteContext& context) {
  RouteContext* c = &context;
  return {
      {"/", {"GET"}, [c](const Request& request) { return answer_status(*c, request); }},
      {context.telemetry_path, {"GET"}, [c](const Request& request) { return answer_metrics(*c, request); }},
      {"/health", {"GET"}, [c](const Request& request) { return answer_health(*c, request); }},
      {"/-/healthy", {"GET"}, [](const Request&) { return text_response(200, "roce_exporter is healthy.\n"); }},
      {"/-/ready", {"GET"}, [](const Request&) { return text_response(200, "roce_exporter is ready.\n"); }},
      {"/-/reload", {"POST"}, [c](const Request&) { return web::answer_reload(c->lifecycle, c->reload); }},
  };
}

}  // namespace roce

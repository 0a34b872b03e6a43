// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "exporter/metrics/exposition.h"
#include "exporter/web/answers.h"
#include "exporter/web/status_page.h"

namespace roce {
namespace {

using web::limited;
using web::Request;
using web::Response;
using web::shows_identities;
using web::text_response;

constexpr std::chrono::milliseconds kDefaultBudget{9500};
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
    const Verdict verdict = verdict_on(context, context.engine->collect(kDefaultBudget));
    Response response;
    response.content_type = "application/json";
    response.status = verdict.status == Status::kOk || verdict.status == Status::kWarning ? 200 : 503;
    response.body = to_json(verdict, shows_identities(request));
    return response;
  });
}

Response answer_status(RouteContext& context, const Request& request) {
  return limited(context, [&] {
    const Page page = context.engine->collect(kDefaultBudget);
    return web::html_response(
        render_status_page(page, verdict_on(context, page), context.telemetry_path, shows_identities(request)));
  });
}

}  // namespace

std::chrono::milliseconds scrape_budget(std::string_view timeout_header) {
  return web::scrape_budget(timeout_header, kDefaultBudget);
}

std::string metrics_text(RouteContext& context, std::chrono::milliseconds budget,
                         const std::vector<std::string>& only) {
  const Page page = context.engine->collect(budget, only);
  if (!page.in_time) context.own->budget_exceeded.Increment();
  SampleBatch own;
  add_own_metrics(*context.own, context.engine->collections(), own);
  add_process_metrics(own);
  // A page of single collectors is no ground for a verdict.
  if (context.health != nullptr && only.empty()) context.health->add_metrics(page, own);
  std::vector<const SampleBatch*> batches = page.batches();
  batches.push_back(&own);
  return render_text(batches);
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

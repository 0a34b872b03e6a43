// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exporter/metrics/exposition.h"
#include "exporter/web/status_page.h"

namespace roce {
namespace {

using web::Request;
using web::Response;

constexpr std::chrono::milliseconds kDefaultBudget{9500};
constexpr std::chrono::milliseconds kTravel{500};
constexpr std::chrono::milliseconds kLeastBudget{100};

Response text_response(int status, std::string body) {
  Response response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

// Counts a request for as long as it lasts.
class RequestSlot {
 public:
  explicit RequestSlot(std::atomic<int>& count) : count_(count), number_(count.fetch_add(1) + 1) {}
  ~RequestSlot() { count_.fetch_sub(1); }
  RequestSlot(const RequestSlot&) = delete;
  RequestSlot& operator=(const RequestSlot&) = delete;
  int number() const { return number_; }

 private:
  std::atomic<int>& count_;
  int number_;
};

// Runs `answer` unless too many requests are under way.
template <class F>
Response limited(RouteContext& context, F answer) {
  const RequestSlot slot(context.requests);
  if (context.max_requests > 0 && slot.number() > context.max_requests) {
    context.own->scrapes_rejected.Increment();
    Response response = text_response(
        503, fmt::format("Limit of concurrent requests reached ({}), try again later.\n", context.max_requests));
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  return answer();
}

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

// Identities are for this host, and for whom a web configuration let in by a certificate or a password.
bool shows_identities(const Request& request) { return request.from_loopback || request.authenticated(); }
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
    Response response;
    response.content_type = "text/html; charset=utf-8";
    response.compress = true;
    response.headers.emplace_back(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'");
    response.body =
        render_status_page(page, verdict_on(context, page), context.telemetry_path, shows_identities(request));
    return response;
  });
}

Response answer_reload(RouteContext& context) {
  if (!context.lifecycle) return text_response(403, "Lifecycle API is not enabled (--web.enable-lifecycle).\n");
  std::string why;
  if (context.reload(why)) return text_response(200, "Configuration reloaded.\n");
  return text_response(500, fmt::format("The configuration stays as it was: {}\n", why));
}

}  // namespace

std::chrono::milliseconds scrape_budget(std::string_view timeout_header) {
  double announced = 0;
  const auto [end, ec] =
      std::from_chars(timeout_header.data(), timeout_header.data() + timeout_header.size(), announced);
  if (ec != std::errc{} || end != timeout_header.data() + timeout_header.size() || !(announced > 0) || announced > 3600)
    return kDefaultBudget;
  const auto budget = std::chrono::milliseconds(static_cast<std::int64_t>(announced * 1000)) - kTravel;
  return std::max(budget, kLeastBudget);
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
      {"/-/reload", {"POST"}, [c](const Request&) { return answer_reload(*c); }},
  };
}

}  // namespace roce

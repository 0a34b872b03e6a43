// SPDX-License-Identifier: Apache-2.0
#include "probes/web/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "exporter/base/log.h"
#include "exporter/base/version.h"
#include "exporter/catalog/catalog.h"
#include "exporter/metrics/exposition.h"
#include "exporter/web/answers.h"
#include "exporter/web/http.h"
#include "probes/catalog/catalog.h"
#include "probes/peers/token.h"
#include "probes/web/status.h"

namespace roce::probe {
namespace {

using web::limited;
using web::Request;
using web::Response;
using web::shows_identities;
using web::text_response;

constexpr std::chrono::milliseconds kDefaultProbeBudget{9500};

void add_prober_metrics(RouteContext& context, std::uint64_t refused_by_engine, SampleBatch& out) {
  out.add(metric::build_info, {kVersion, kRevision, kCompiler}, 1);
  out.add(metric::scrapes, {}, context.own->scrapes.Value());
  out.add(metric::scrapes_rejected, {}, context.own->scrapes_rejected.Value());
  out.add(roce::metric::config_last_reload_successful, {}, context.own->reload_successful.Value());
  out.add(roce::metric::config_last_reload_success_timestamp, {}, context.own->reload_timestamp.Value());
  out.add(roce::metric::series_dropped, {"probes"}, context.dropped.load());
  const DiscoveryState state = context.discovery();
  const auto count = [&](auto&& fits) {
    return static_cast<std::uint64_t>(std::count_if(state.peers.begin(), state.peers.end(), fits));
  };
  out.add(metric::peers, {"storage"}, count([](const Peer& p) { return p.storage; }));
  out.add(metric::peers, {"fixed"}, count([](const Peer& p) { return !p.storage && !p.rotating; }));
  out.add(metric::peers, {"rotating"}, count([](const Peer& p) { return p.rotating; }));
  out.add(metric::peers_refused, {}, static_cast<std::uint64_t>(state.refused) + refused_by_engine);
  out.add(metric::endpoints_known, {"static"}, static_cast<std::uint64_t>(state.from_static));
  out.add(metric::endpoints_known, {"file_sd"}, static_cast<std::uint64_t>(state.from_files));
  out.add(metric::endpoints_known, {"dns"}, static_cast<std::uint64_t>(state.from_dns));
  out.add(metric::discovery_failures, {"file_sd"}, state.file_failures);
  out.add(metric::discovery_failures, {"dns"}, state.dns_failures);
  out.add(metric::exchange_requests, {"ok"}, context.exchange_ok.load());
  out.add(metric::exchange_requests, {"refused"}, context.exchange_refused.load());
  out.add(metric::exchange_requests, {"failed"}, context.exchange_failed.load());
  const auto failures = context.source->failures();
  for (std::size_t i = 0; i < failures.size(); ++i)
    out.add(metric::exchange_failures, {to_string(static_cast<ExchangeFailure>(i))}, failures[i]);
  const auto options = context.options();  // held: a reload lets go of them
  for (const Key& key : options->keys)
    out.add(metric::key_not_after, {std::to_string(key.id)},
            std::chrono::duration<double>(key.not_after.time_since_epoch()).count());
  out.add(metric::adhoc_probes, {"success"}, context.adhoc_success.load());
  out.add(metric::adhoc_probes, {"failure"}, context.adhoc_failure.load());
  out.add(metric::adhoc_probes, {"busy"}, context.adhoc_busy.load());
}

Response answer_metrics(RouteContext& context, const Request& request) {
  return limited(context, [&] {
    Response response;
    response.compress = true;
    response.body = metrics_page(context, web::prefers_protobuf(request.header("Accept")), response.content_type);
    context.own->scrapes.Increment();
    return response;
  });
}

Response answer_probe(RouteContext& context, const Request& request) {
  std::string target;
  std::string name = "echo";
  for (const auto& [key, value] : request.query) {
    if (key == "target") target = value;
    if (key == "module") name = value;
  }
  const auto options = context.options();
  const auto module = options->modules.find(name);
  if (module == options->modules.end()) {
    std::string names;
    for (const auto& [known, m] : options->modules) names += " " + known;
    return text_response(400, fmt::format("module: no such module; there are:{}\n", names));
  }
  if (target.empty()) return text_response(400, "target: none given; it is the name of a peer\n");
  const auto peers = context.discovery().peers;
  if (std::none_of(peers.begin(), peers.end(), [&](const Peer& p) { return p.name == target; }))
    return text_response(400, "target: no such peer; only those of the configuration are probed (see /peers.json)\n");
  return limited(context, [&] {
    BurstSpec spec = module->second.burst;
    spec.peer = target;
    const auto answer = context.adhoc->run(
        spec, web::scrape_budget(request.header("X-Prometheus-Scrape-Timeout-Seconds"), kDefaultProbeBudget));
    if (answer.kind == AdhocProbes::Answer::Kind::kBusy) {
      context.adhoc_busy.fetch_add(1);
      Response response = text_response(503, "busy: one probe a peer, and four in all, at a time\n");
      response.headers.emplace_back("Retry-After", "1");
      return response;
    }
    (answer.success ? context.adhoc_success : context.adhoc_failure).fetch_add(1);
    if (!answer.success) log::debug("a probe failed", {{"peer", target}, {"err", answer.failure}});
    Response response;
    response.content_type = kTextContentType;
    response.body = adhoc_text(answer);
    return response;
  });
}

// A client certificate that was checked, or the token; over TLS in both cases.
bool may_exchange(RouteContext& context, const Options& options, const Request& request) {
  if (!request.tls) return false;
  if (request.client_certificate) return true;
  const std::string_view shown = bearer_of(request.header("Authorization"));
  if (options.exchange.bearer_token_file.empty() || shown.empty()) return false;
  const auto token = read_token(options.exchange.bearer_token_file);
  // Told once, until it can be read again: whoever asks may be anybody.
  if (const bool told = context.token_unreadable.exchange(!token); !token && !told)
    log::warn("the bearer token cannot be read", {{"err", token.error().message()}});
  return token && same_token(*token, shown);
}

Response answer_endpoint(RouteContext& context, const Request& request) {
  const auto options = context.options();
  if (!may_exchange(context, *options, request)) {
    context.exchange_refused.fetch_add(1);
    return text_response(403, "Only over TLS, for who shows a client certificate or the bearer token.\n");
  }
  return limited(context, [&] {
    Response response;
    response.content_type = "application/json";
    if (request.method == "POST") {
      const auto wanted = parse_read_request(request.body);
      if (!wanted) {
        context.exchange_failed.fetch_add(1);
        return text_response(400, wanted.error().message() + "\n");
      }
      const auto grant = context.engine->accept_read(*wanted);
      if (!grant) {
        context.exchange_failed.fetch_add(1);
        return text_response(503, grant.error().message() + "\n");
      }
      response.body = to_json(*grant);
    } else {
      std::vector<RailEndpoint> endpoints;
      for (Endpoint& endpoint : context.engine->endpoints()) {
        const auto rail = options->rails.find(endpoint.device);
        endpoints.push_back({std::move(endpoint), rail == options->rails.end() ? "" : rail->second});
      }
      response.body = endpoints_json(context.node, endpoints);
    }
    context.exchange_ok.fetch_add(1);
    return response;
  });
}

Response answer_status(RouteContext& context, const Request& request) {
  return limited(context, [&] {
    return web::html_response(render_status(context.engine->stats(), context.telemetry_path, shows_identities(request)),
                              kStyle);
  });
}

Response answer_peers(RouteContext& context, const Request& request) {
  if (!shows_identities(request))
    return text_response(403, "Names of peers are shown to this host, or to who logs in.\n");
  return limited(context, [&] {
    Response response;
    response.content_type = "application/json";
    response.compress = true;
    response.body = peers_json(context.engine->stats());
    return response;
  });
}

}  // namespace

std::string metrics_page(RouteContext& context, bool protobuf, std::string& content_type) {
  const auto [stats, published] = context.rotating->read(*context.engine);
  const ProbePage page = make_page(stats.devices, published, protobuf);
  // What is left out now is left out at each scrape: the counter says how much in all, as the exporter's does.
  context.dropped.fetch_add(page.dropped);
  SampleBatch own;
  add_prober_metrics(context, stats.refused_peers, own);
  add_web_metrics(context.own->web, own);
  add_process_metrics(own);
  const SampleBatch* const batches[] = {&page.samples, &own};
  RenderedPage rendered = render_page(batches, protobuf);
  content_type = rendered.content_type;
  return std::move(rendered.body);
}

Response answer_release(RouteContext& context, const Request& request) {
  std::uint32_t seconds = 60;
  for (const auto& [key, value] : request.query) {
    if (key != "seconds") continue;
    const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (ec != std::errc{} || end != value.data() + value.size() || seconds < 1 || seconds > 600)
      return text_response(400, "seconds: a whole number from 1 to 600\n");
  }
  const auto done = context.engine->release(std::chrono::seconds(seconds));
  if (!done) return text_response(500, done.error().message() + "\n");
  log::info("RDMA devices closed on request", {{"seconds", seconds}});
  return text_response(200, fmt::format("Closed for {} s.\n", seconds));
}

std::vector<web::Route> prober_routes(RouteContext& context) {
  RouteContext* c = &context;
  std::vector<web::Route> routes{
      {"/", {"GET"}, [c](const Request& request) { return answer_status(*c, request); }},
      {context.telemetry_path, {"GET"}, [c](const Request& request) { return answer_metrics(*c, request); }},
      {"/probe", {"GET"}, [c](const Request& request) { return answer_probe(*c, request); }},
      {"/peers.json", {"GET"}, [c](const Request& request) { return answer_peers(*c, request); }},
      {"/rdma/endpoint", {"GET", "POST"}, [c](const Request& request) { return answer_endpoint(*c, request); }},
      {"/-/healthy", {"GET"}, [](const Request&) { return text_response(200, "roce_prober is healthy.\n"); }},
      {"/-/ready", {"GET"}, [](const Request&) { return text_response(200, "roce_prober is ready.\n"); }},
      {"/-/reload", {"POST"}, [c](const Request&) { return web::answer_reload(c->lifecycle, c->reload); }},
  };
  for (web::Route& route : routes) {
    if (route.path != "/rdma/endpoint") continue;
    route.judges_clients = true;
    route.takes_body = true;
  }
  return routes;
}

std::vector<web::Route> exchange_routes(RouteContext& context) {
  std::vector<web::Route> routes;
  for (web::Route& route : prober_routes(context))
    if (route.path == "/rdma/endpoint") routes.push_back(std::move(route));
  return routes;
}

}  // namespace roce::probe

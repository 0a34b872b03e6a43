// SPDX-License-Identifier: Apache-2.0
//
// Serves a page with histograms as the prober's are, for a real Prometheus to read: prints its port, ends with its
// standard input. Each scrape finds 1000 more latencies around 4.8 us.
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>

#include "exporter/metrics/exposition.h"
#include "exporter/web/http.h"
#include "exporter/web/server.h"
#include "probes/measure/histogram_sample.h"

namespace {

using namespace roce;

constexpr MetricDesc kRtt{"test_rtt_seconds", MetricType::kHistogram, "seconds", "peer", "test", true,
                          Proof::kMade,       "Round trips."};
constexpr MetricDesc kSent{"test_sent_total", MetricType::kCounter, "", "peer", "test", true, Proof::kMade, "Sent."};
constexpr MetricDesc kState{"test_state", MetricType::kGauge, "", "", "test", true, Proof::kMade, "State."};

}  // namespace

int main() {
  std::mutex mutex;
  auto latencies = std::make_unique<probe::LatencyHistogram>();
  const auto quiet = std::make_unique<probe::LatencyHistogram>();
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> rtt(std::log(4800.0), 0.3);
  std::uint64_t sent = 0;
  web::ServerOptions options;
  options.listen_addresses = {"127.0.0.1:0"};
  const auto page = [&](const web::Request& request) {
    const std::lock_guard lock(mutex);
    for (int i = 0; i < 1000; ++i) latencies->record(static_cast<std::uint64_t>(rtt(random)));
    sent += 1000;
    SampleBatch batch;
    batch.add(kRtt, {"busy"}, probe::to_histogram(latencies->snapshot()));
    batch.add(kRtt, {"quiet"}, probe::to_histogram(quiet->snapshot()));
    batch.add(kSent, {"busy \"1\""}, sent);
    batch.add(kState, {}, -1.5);
    const SampleBatch* const all[] = {&batch};
    RenderedPage rendered = render_page(all, web::prefers_protobuf(request.header("Accept")));
    web::Response response;
    response.content_type = rendered.content_type;
    response.body = std::move(rendered.body);
    response.compress = true;
    response.headers.emplace_back("Vary", "Accept");
    return response;
  };
  std::vector<web::Route> routes;
  routes.push_back({"/metrics", {"GET"}, page});
  auto server = web::Server::start(options, std::move(routes));
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message().c_str());
    return 1;
  }
  std::puts((*server)->urls().at(0).c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

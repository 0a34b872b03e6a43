// SPDX-License-Identifier: Apache-2.0
//
// A page of 256 ports with 64 counters each, by this project's writer and by prometheus-cpp's on the same data.
#include <benchmark/benchmark.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <string>
#include <vector>

#include "exporter/catalog/catalog.h"
#include "exporter/metrics/exposition.h"

namespace roce {
namespace {

constexpr std::size_t kPorts = 256;
constexpr std::size_t kFamilies = 64;

std::uint64_t value_of(std::size_t port, std::size_t family) { return (port + 1) * 1'000'003 + family * 10'007; }

// Families with the labels device and port, of the catalog.
std::vector<const MetricDesc*> families() {
  std::vector<const MetricDesc*> chosen;
  for (const MetricDesc& metric : all_metrics())
    if (metric.labels == "device,port" && metric.type == MetricType::kCounter && chosen.size() < kFamilies)
      chosen.push_back(&metric);
  return chosen;
}

void exposition(benchmark::State& state) {
  const auto chosen = families();
  std::vector<std::unique_ptr<SampleBatch>> batches;
  std::vector<const SampleBatch*> order;
  for (std::size_t port = 0; port < kPorts; ++port) {
    batches.push_back(std::make_unique<SampleBatch>());
    const std::string device = "mlx5_" + std::to_string(port);
    for (std::size_t i = 0; i < chosen.size(); ++i) batches.back()->add(*chosen[i], {device, "1"}, value_of(port, i));
    order.push_back(batches.back().get());
  }
  for (auto _ : state) benchmark::DoNotOptimize(render_text(order));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPorts * chosen.size()));
  state.SetLabel("sample");
}
BENCHMARK(exposition)->Unit(benchmark::kMillisecond);

void exposition_by_prometheus_cpp(benchmark::State& state) {
  const auto chosen = families();
  std::vector<prometheus::MetricFamily> page;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    auto& family = page.emplace_back();
    family.name = std::string(chosen[i]->name);
    family.help = std::string(chosen[i]->help);
    family.type = prometheus::MetricType::Counter;
    for (std::size_t port = 0; port < kPorts; ++port) {
      auto& metric = family.metric.emplace_back();
      metric.label = {{"device", "mlx5_" + std::to_string(port)}, {"port", "1"}};
      metric.counter.value = static_cast<double>(value_of(port, i));
    }
  }
  const prometheus::TextSerializer serializer;
  for (auto _ : state) benchmark::DoNotOptimize(serializer.Serialize(page));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kPorts * chosen.size()));
  state.SetLabel("sample");
}
BENCHMARK(exposition_by_prometheus_cpp)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace roce

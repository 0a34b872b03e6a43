// SPDX-License-Identifier: Apache-2.0
//
// What the prober does with each latency.
#include <benchmark/benchmark.h>

#include "probes/measure/latency_histogram.h"

namespace roce::probe {
namespace {

void histogram_record(benchmark::State& state) {
  LatencyHistogram histogram;
  std::uint64_t ns = 1;
  for (auto _ : state) {
    ns = ns * 6364136223846793005ULL + 1442695040888963407ULL;
    histogram.record(ns >> 44);  // up to a millisecond
  }
  benchmark::DoNotOptimize(histogram.snapshot().count);
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("latency");
}
BENCHMARK(histogram_record);

}  // namespace
}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// A driver's spelling looked up in the catalog. Collectors do it once for each counter, not at each scrape.
#include <benchmark/benchmark.h>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

void catalog_lookup(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(find_counter("mlx5", Interface::kHwCounters, "out_of_sequence"));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("known name");
}
BENCHMARK(catalog_lookup);

void catalog_lookup_of_a_pattern(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(find_counter("mlx5-ethtool", Interface::kEthtool, "rx_prio3_pause"));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("name with a priority in it");
}
BENCHMARK(catalog_lookup_of_a_pattern);

void catalog_lookup_in_vain(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(find_counter("mlx5", Interface::kHwCounters, "no_such_counter"));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("unknown name");
}
BENCHMARK(catalog_lookup_in_vain);

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The answer to one STAT_GET: the counters of a port as the kernel sends them.
#include <benchmark/benchmark.h>

#include <string>

#include "exporter/kernel/rdma_messages.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

void netlink_port_counters(benchmark::State& state) {
  using namespace rdma_abi;
  constexpr int kCounters = 30;
  made::Attributes table;
  for (int i = 0; i < kCounters; ++i)
    table.nest(kStatHwcounterEntry, made::Attributes()
                                        .text(kStatHwcounterName, "rx_counter_name_" + std::to_string(i))
                                        .padding()
                                        .u64(kStatHwcounterValue, 1'000'003ULL * static_cast<unsigned>(i)));
  const made::ByteVector answer =
      made::Attributes().u32(kDevIndex, 7).u32(kPortIndex, 1).nest(kStatHwcounters, table).bytes();
  for (auto _ : state) {
    const auto counters = parse_rdma_counters(answer);
    if (!counters || counters->size() != kCounters) state.SkipWithError("not what was sent");
    benchmark::DoNotOptimize(counters);
  }
  state.SetItemsProcessed(state.iterations() * kCounters);
  state.SetLabel("counter");
}
BENCHMARK(netlink_port_counters);

}  // namespace
}  // namespace roce

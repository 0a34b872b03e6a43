// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/absent.h"

#include "exporter/catalog/catalog.h"

namespace roce {
void add_absent(Part& part, std::string_view device, std::string_view what, ErrorKind kind) {
  const CounterState state = state_of(kind);
  part.samples.add(metric::counter_support, {device, "", what, to_string(state)}, 1);
  ++part.counters[""][static_cast<std::size_t>(state)];
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Port counters of the performance agent. Source: ports/N/counters, and counters_ext of kernels before 4.5, whose
// 64-bit twins replace the 32-bit counters that stick at their top.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_port_counters_collector(const CollectorContext& context);

}  // namespace roce

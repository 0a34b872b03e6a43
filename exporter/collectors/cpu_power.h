// SPDX-License-Identifier: Apache-2.0
//
// CPU settings that add latency: idle states, frequency governors, energy preference. Source:
// /sys/devices/system/cpu. Virtual machines often have none of them. Nothing is set, and /dev/cpu_dma_latency is not
// opened.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_cpu_power_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// What the host's own processing adds to a request: softirqs, drops and squeezes of the network stack, interrupt work
// of the busiest CPU, tasks that wait for a CPU. Source: /proc/softirqs, /proc/net/softnet_stat, /proc/stat,
// /proc/pressure/cpu.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_host_path_collector(const CollectorContext& context);

}  // namespace roce

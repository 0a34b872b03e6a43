// SPDX-License-Identifier: Apache-2.0
//
// Kernel settings and module parameters that tuning guides name, as information only. Source: /proc/sys,
// /sys/module, the clock source. Only what is on the lists here is read; nothing is set.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_kernel_settings_collector(const CollectorContext& context);

}  // namespace roce

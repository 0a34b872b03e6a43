// SPDX-License-Identifier: Apache-2.0
//
// Huge pages by size and NUMA node, the devices beside each node, transparent huge pages, and the kernel's counts of
// pins and of huge pages made. Sources: kernel/mm and devices/system/node in sysfs, vmstat; where sysfs has none,
// meminfo tells of the default size.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_hugepages_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// System V shared memory segments against their limits: programs take huge pages through them. Sources: sysvipc/shm and
// sys/kernel/shm* in procfs.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_sysv_shm_collector(const CollectorContext& context);

}  // namespace roce

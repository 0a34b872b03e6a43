// SPDX-License-Identifier: Apache-2.0
//
// Loaded kernel modules that carry storage over RDMA. Sources: /sys/module, modules in procfs.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_storage_modules_collector(const CollectorContext& context);

}  // namespace roce

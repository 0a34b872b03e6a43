// SPDX-License-Identifier: Apache-2.0
//
// GPUDirect Storage. Source: driver/nvidia-fs in procfs.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_gds_collector(const CollectorContext& context);

}  // namespace roce

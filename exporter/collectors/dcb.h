// SPDX-License-Identifier: Apache-2.0
//
// Data centre bridging of the network devices below a port: what is lossless, and what maps to it.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_dcb_collector(const CollectorContext& context);

}  // namespace roce

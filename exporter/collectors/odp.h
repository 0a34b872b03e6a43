// SPDX-License-Identifier: Apache-2.0
//
// Page faults of memory regions with on-demand paging, from RDMA netlink, added up over the regions of a device.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_odp_collector(const CollectorContext& context);

}  // namespace roce

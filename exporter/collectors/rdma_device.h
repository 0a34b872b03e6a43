// SPDX-License-Identifier: Apache-2.0
//
// Identity of a device: driver, PCI address, firmware, board. Source: attributes of /sys/class/infiniband/DEV and the
// RDMA netlink device message.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_rdma_device_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// State, rate, link layer and netdev of each port; carrier changes, so that a flap between two scrapes is counted;
// which counter sources the port has. Source: /sys/class/infiniband/DEV/ports/N, /sys/class/net/IF; where sysfs has no
// port directory, the RDMA netlink port message.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_rdma_port_collector(const CollectorContext& context);

}  // namespace roce

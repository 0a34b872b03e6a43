// SPDX-License-Identifier: Apache-2.0
//
// Link of network devices: is it there and why not, pause and FEC with their statistics, standard statistics. What the
// driver's own statistics have too is left to the collector `ethtool`, so that each quantity has one source. Of the
// legs of a bond and of devices without RDMA also the carrier changes; those of a port's own device are with rdma_port.
// Source: ethtool netlink; /sys/class/net where there is none.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_link_collector(const CollectorContext& context);

}  // namespace roce

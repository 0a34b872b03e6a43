// SPDX-License-Identifier: Apache-2.0
//
// The driver's own statistics of network devices (ethtool -S): PFC, pause, the physical port, PCIe as the NIC sees it,
// this function's RDMA bytes, drops. Each known driver's spelling goes to a family that all share; what a known driver
// lists beyond its table is left out, what an unknown one lists goes to the generic family. Source: SIOCETHTOOL.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_ethtool_collector(const CollectorContext& context);

}  // namespace roce

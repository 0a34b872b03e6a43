// SPDX-License-Identifier: Apache-2.0
//
// The PCI Express path of an RDMA device: link speed and width of every link up to the root port, transfer settings,
// error counters, IOMMU. Source: the sysfs directories of the device's function and of the ports above it. Units:
// lanes, transfers a second, bytes, bytes a second. Without CAP_SYS_ADMIN the transfer settings are absent as `denied`.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_pcie_collector(const CollectorContext& context);

}  // namespace roce

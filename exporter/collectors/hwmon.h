// SPDX-License-Identifier: Apache-2.0
//
// Temperatures of an RDMA device and of the modules in its cages, with their limits, in degrees Celsius. Source: the
// hwmon devices below the device's PCI function; no module is asked over its own bus.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_hwmon_collector(const CollectorContext& context);

}  // namespace roce

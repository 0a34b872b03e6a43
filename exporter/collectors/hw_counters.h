// SPDX-License-Identifier: Apache-2.0
//
// Hardware counters of the driver, per port and per device. Source: one STAT_GET request a port; sysfs
// ports/N/hw_counters where netlink cannot (no netlink, reply too big); sysfs DEV/hw_counters for the device level,
// which netlink does not cover.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_hw_counters_collector(const CollectorContext& context);

}  // namespace roce

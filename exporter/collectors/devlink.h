// SPDX-License-Identifier: Apache-2.0
//
// Health reporters of an RDMA device's driver: state, errors, recoveries. Source: devlink, by generic netlink. No
// reporter is asked to diagnose or to dump.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_devlink_collector(const CollectorContext& context);

}  // namespace roce

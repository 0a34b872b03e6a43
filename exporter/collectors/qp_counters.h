// SPDX-License-Identifier: Apache-2.0
//
// Counter sets that somebody bound to QPs with `rdma statistic qp`. Bounded: at most 16 sets a device. Source: the
// STAT_GET dump of RDMA netlink.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_qp_counters_collector(const CollectorContext& context);

}  // namespace roce

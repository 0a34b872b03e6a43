// SPDX-License-Identifier: Apache-2.0
//
// Memory limits of the processes that hold an RDMA context, and what they have pinned. Sources: RDMA netlink for who
// holds one, limits, status, comm and cgroup in procfs, systemd's configuration.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_processes_collector(const CollectorContext& context);

}  // namespace roce

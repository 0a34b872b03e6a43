// SPDX-License-Identifier: Apache-2.0
//
// Which service, pod, container and job a process that uses RDMA belongs to, by the path of its cgroup.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_process_cgroups_collector(const CollectorContext& context);

}  // namespace roce

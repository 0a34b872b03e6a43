// SPDX-License-Identifier: Apache-2.0
//
// Limits and use of the rdma and hugetlb controllers, of cgroups that hold RDMA processes.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_cgroups_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Verbs objects by who made them, from RDMA netlink.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_rdma_owners_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Verbs objects in use against what the device allows. Source: the resource summary of RDMA netlink (RES_GET).
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_rdma_resources_collector(const CollectorContext& context);

}  // namespace roce

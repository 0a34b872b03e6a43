// SPDX-License-Identifier: Apache-2.0
//
// QPs by type, state and owner, from RDMA netlink. A QP costs some drivers a firmware command, so QPs are listed only
// while the kernel counts few of them.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_qp_collector(const CollectorContext& context);

}  // namespace roce

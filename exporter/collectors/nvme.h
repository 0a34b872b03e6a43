// SPDX-License-Identifier: Apache-2.0
//
// NVMe controllers of this host, above all those over RDMA: state, timeouts, queues, paths, ANA, statistics of each
// path, and the RDMA port that carries a controller. Sources: class/nvme, class/nvme-subsystem, block, and the routes.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_nvme_collector(const CollectorContext& context);

}  // namespace roce

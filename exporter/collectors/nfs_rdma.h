// SPDX-License-Identifier: Apache-2.0
//
// NFS over RDMA: mounts (self/mountstats) and this host's server (sys/sunrpc/svc_rdma, fs/nfsd).
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_nfs_rdma_collector(const CollectorContext& context);

}  // namespace roce

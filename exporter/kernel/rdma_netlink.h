// SPDX-License-Identifier: Apache-2.0
//
// RDMA state of the running kernel by RDMA netlink. Thread-safe: each request has a socket of its own, since the kernel
// works on a request inside the sender's send or receive call, for as long as a driver's firmware takes; nothing can
// cancel that, but no other caller waits for it. Such a call is visible in the CallTracker while it lasts (`rdma_get`,
// `rdma_port_get`, `rdma_stat_get`, `rdma_stat_get_status`, `rdma_stat_get_qp`, `rdma_stat_get_mr`, `rdma_res_get`,
// `rdma_res_qp_get` and so on, `rdma_sys_get`).
//
// No socket is opened while the RDMA core is not loaded, because opening one would load it: all calls then answer
// kAbsent. Errors carry the kernel's errno and, when it gave one, its explanation. A device that has gone is kAbsent;
// what kernel or driver cannot do is kUnsupported (the kernel says EINVAL for both, so the device is asked for again).
#pragma once

#include <memory>
#include <string>

#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/netlink_channel.h"
#include "exporter/kernel/rdma.h"

namespace roce {

// `sysfs_root`: where `class/infiniband` and `module/ib_core` tell whether the RDMA core is loaded. `tracker` may be
// null. `connect` replaces the kernel's socket (tests).
std::unique_ptr<RdmaSource> open_rdma_netlink(const std::string& sysfs_root, std::shared_ptr<CallTracker> tracker = {},
                                              NetlinkConnect connect = {});

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Data centre bridging of the running kernel by rtnetlink (RTM_GETDCB): one request a network device, unprivileged, in
// the network namespace of the caller. The kernel answers under its RTNL lock, and the driver may ask its firmware
// meanwhile; such a call is visible in the CallTracker as `dcb_get`. Thread-safe: each request has its own socket.
#pragma once

#include <memory>

#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/netlink_channel.h"

namespace roce {

// `tracker` may be null. `connect` replaces the kernel's socket (tests).
std::unique_ptr<DcbSource> open_dcb_netlink(std::shared_ptr<CallTracker> tracker = {}, NetlinkConnect connect = {});

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// ethtool of the running kernel: SIOCETHTOOL for the driver's statistics and name, the generic netlink family for the
// rest. Thread-safe. A call that the kernel holds up holds up its caller alone and is visible in the CallTracker while
// it lasts (`ethtool_strings`, `ethtool_stats`, `ethtool_drvinfo`, `ethtool_linkstate_get`, `ethtool_pause_get`,
// `ethtool_fec_get`, `ethtool_stats_get`). Needs no privilege and sees the network namespace of the process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/ethtool.h"
#include "exporter/kernel/netlink_channel.h"

namespace roce {

// One SIOCETHTOOL: `data` begins with the command. 0 or an errno.
using EthtoolIoctl = std::function<int(const std::string& netdev, void* data)>;

// `tracker` may be null. `call` and `connect` replace the kernel (tests).
std::unique_ptr<EthtoolSource> open_ethtool(std::shared_ptr<CallTracker> tracker = {}, EthtoolIoctl call = {},
                                            NetlinkConnect connect = {});

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Lists over netlink.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exporter/base/result.h"
#include "exporter/kernel/netlink_channel.h"

namespace roce {

// Asks for a list and gives the payload of each of its messages to `take`, which may end it with an error. The channel
// is of no further use after a failure. `title` names the request in errors, which carry the kernel's errno. kBusy: the
// list changed while it was read, what was taken may lack something; kTimeout: no further message came in time.
Result<void> netlink_dump(NetlinkChannel& channel, std::uint16_t type, Bytes payload, const std::string& title,
                          const std::function<Result<void>(Bytes)>& take);

}  // namespace roce

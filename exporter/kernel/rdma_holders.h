// SPDX-License-Identifier: Apache-2.0
//
// Which processes hold an RDMA context: for the collectors that judge them, and for recordings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"

namespace roce {

struct RdmaHolders {
  bool known = false;               // something tells who holds a context
  std::vector<std::uint32_t> pids;  // ascending
  std::uint64_t hidden = 0;         // contexts of processes that this PID namespace does not show
  std::optional<Error> error;       // a device could not be asked
};

// Asks the RDMA core for the owners of contexts, on kernels before 5.13 for those of other objects. Where a made tree
// or a recording does not tell, all processes in it count as holders.
RdmaHolders find_rdma_holders(const Host& host, const DeviceList& devices);

}  // namespace roce

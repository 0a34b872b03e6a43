// SPDX-License-Identifier: Apache-2.0
//
// The network devices below the ports: MTU and the RoCE MTU that follows, state, traffic of the kernel's stack.
#pragma once

#include <cstdint>
#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_netdev_collector(const CollectorContext& context);

// The largest RoCE path MTU in bytes that a network device of that MTU carries with all headers; 0 where not even the
// smallest fits.
unsigned roce_path_mtu(std::uint64_t netdev_mtu);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// ECN and its parameters as the driver lets them be seen, and what the connection manager gives new connections.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_congestion_control_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Bonds and their members, named after the RDMA port that stands on them.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_bond_collector(const CollectorContext& context);

}  // namespace roce

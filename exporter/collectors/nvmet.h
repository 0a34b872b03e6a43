// SPDX-License-Identifier: Apache-2.0
//
// This host's NVMe target. Sources: nvmet in configfs and, for connected controllers, debugfs, where they are mounted
// already. Secrets of hosts are below nvmet/hosts, which is not opened.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_nvmet_collector(const CollectorContext& context);

}  // namespace roce

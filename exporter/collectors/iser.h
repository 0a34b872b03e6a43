// SPDX-License-Identifier: Apache-2.0
//
// iSER sessions. Sources: class/iscsi_session, class/iscsi_connection, class/scsi_host. Names and passwords for
// log-in stand beside them and are not read.
#pragma once

#include <memory>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_iser_collector(const CollectorContext& context);

}  // namespace roce

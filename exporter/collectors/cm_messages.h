// SPDX-License-Identifier: Apache-2.0
//
// Messages of the connection manager: connection set-up as the storage session sees it. Source: ports/N/cm_tx_msgs,
// cm_tx_retries, cm_rx_msgs, cm_rx_duplicates.
#pragma once

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_cm_messages_collector(const CollectorContext& context);

}  // namespace roce

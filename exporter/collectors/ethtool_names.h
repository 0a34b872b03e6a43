// SPDX-License-Identifier: Apache-2.0
//
// Which counter table the statistics of a network device belong to, and which of their names are those of single
// queues. Pure functions but for the source that they ask: thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"

namespace roce {

struct EthtoolTable {
  std::string driver;  // of the rows: mlx5-ethtool; empty where there is no table for it
  bool told = false;   // the kernel named the driver; false: a recording did not, the table was guessed
};

// Of a recording that does not tell the driver, the table is that of the RDMA device's driver, or else the one that
// knows at least two of the recorded names.
EthtoolTable ethtool_table(const Host& host, const InventoryDevice& device, const InventoryNetdev& netdev);

// True for names of one queue among many: rx0_packets, rx_queue_3_bytes, [1]: tx_drops, queue_2_tx_cnt, rxq0: bytes.
bool is_queue_statistic(std::string_view name);

}  // namespace roce

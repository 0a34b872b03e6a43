// SPDX-License-Identifier: Apache-2.0
//
// The PCI functions of a card that an RDMA device stands on.
#pragma once

#include <vector>

#include "exporter/kernel/inventory.h"

namespace roce {

// One network device for each function, with its PCI address: several below a bond. Where no network device tells its
// function it is the RDMA device's own; an RDMA device of no function has none. No I/O.
std::vector<InventoryNetdev> card_functions(const InventoryDevice& device);

}  // namespace roce

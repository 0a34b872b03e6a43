// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/card_functions.h"

#include <algorithm>

namespace roce {

std::vector<InventoryNetdev> card_functions(const InventoryDevice& device) {
  std::vector<InventoryNetdev> functions;
  for (const InventoryNetdev& netdev : device.netdevs) {
    const bool known = std::any_of(functions.begin(), functions.end(),
                                   [&](const auto& other) { return other.pci_address == netdev.pci_address; });
    if (!netdev.pci_address.empty() && !known) functions.push_back(netdev);
  }
  if (!functions.empty() || device.pci_address.empty()) return functions;
  InventoryNetdev own;
  if (!device.netdevs.empty()) own = device.netdevs.front();
  own.device = device.name;
  if (own.port.empty() && device.ports.size() == 1) own.port = device.ports.front().text;
  own.pci_address = device.pci_address;
  functions.push_back(std::move(own));
  return functions;
}

}  // namespace roce

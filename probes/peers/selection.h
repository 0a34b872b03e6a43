// SPDX-License-Identifier: Apache-2.0
//
// From what is known of the fleet to the peers that this node's engine probes. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/engine.h"
#include "probes/peers/entry.h"
#include "probes/peers/graph.h"

namespace roce::probe {

struct LocalDevice {
  std::string name;
  std::uint8_t port = 1;
  std::string rail;  // declared; empty: its subnet decides, which the exchange looks after
};

// One end of a storage session of this node.
struct StorageTarget {
  std::string address;  // of the far end
  std::string device;   // local device that carries it; empty: not known
  bool operator==(const StorageTarget&) const = default;
};

struct Selection {
  std::vector<Peer> peers;    // storage ends first, each pair once
  std::size_t refused = 0;    // over max_peers
  std::size_t endpoints = 0;  // known on the rails of this node, itself not counted
};

// `entries` in any order, of this node or not. `names` says which node has an address, for addresses that no entry has.
Selection select_peers(const std::vector<PeerEntry>& entries, const std::string& self,
                       const std::vector<LocalDevice>& devices, const std::vector<StorageTarget>& storage,
                       const std::vector<std::pair<std::string, std::string>>& names, const GraphShape& shape,
                       std::size_t max_peers, std::uint64_t hour);

}  // namespace roce::probe

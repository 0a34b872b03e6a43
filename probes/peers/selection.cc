// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/selection.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace roce::probe {
namespace {

// An entry as one endpoint of a rail.
struct Candidate {
  const PeerEntry* entry;
  std::string name;  // unique on the rail
};

// "node2" for "node2.example.org", and the whole where it is an address.
std::string_view short_name(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos || name.find_first_not_of("0123456789.:abcdefABCDEF") == std::string_view::npos)
    return name;
  return name.substr(0, dot);
}

// Two whole names are of one node only where they are equal; a short one may be that of a whole one.
bool same_node(std::string_view a, std::string_view b) { return a == b || short_name(a) == b || a == short_name(b); }

Peer make_peer(const LocalDevice& device, const Candidate& candidate, bool rotating, bool storage) {
  Peer peer;
  peer.name = candidate.name;
  peer.device = device.name;
  peer.port = device.port;
  peer.url = candidate.entry->url;
  peer.remote_device = candidate.entry->device;
  peer.rotating = rotating;
  peer.storage = storage;
  return peer;
}

}  // namespace

Selection select_peers(const std::vector<PeerEntry>& entries, const std::string& self,
                       const std::vector<LocalDevice>& devices, const std::vector<StorageTarget>& storage,
                       const std::vector<std::pair<std::string, std::string>>& names, const GraphShape& shape,
                       std::size_t max_peers, std::uint64_t hour) {
  Selection selection;
  std::vector<Peer> of_graph;
  std::set<std::pair<std::string, std::string>> taken;  // device, name
  for (const LocalDevice& device : devices) {
    // The endpoints of this device's rail.
    std::map<std::string, int> of_node;
    std::vector<const PeerEntry*> on_rail;
    for (const PeerEntry& entry : entries) {
      if (!device.rail.empty() && !entry.rail.empty() && entry.rail != device.rail) continue;
      on_rail.push_back(&entry);
      ++of_node[entry.node];
    }
    std::vector<Candidate> candidates;
    std::set<std::string> seen;
    std::string own_name;
    for (const PeerEntry* entry : on_rail) {
      const bool several = of_node[entry->node] > 1 && !entry->device.empty();
      std::string name = several ? entry->node + "/" + entry->device : entry->node;
      if (!seen.insert(name).second) continue;
      if (same_node(entry->node, self)) {
        // Among its own devices this one's entry is its place on the ring.
        if (own_name.empty() || entry->device == device.name) own_name = name;
        continue;
      }
      candidates.push_back({entry, std::move(name)});
    }
    selection.endpoints += candidates.size();
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
    // A list that does not hold this node yet: it finds its place by its name.
    if (own_name.empty()) own_name = self;

    for (const StorageTarget& target : storage) {
      if (!target.device.empty() && target.device != device.name) continue;
      std::string node;
      for (const auto& [address, name] : names)
        if (address == target.address) node = name;
      for (const Candidate& candidate : candidates) {
        const auto& own = candidate.entry->addresses;
        const bool by_address = std::find(own.begin(), own.end(), target.address) != own.end();
        if (!by_address && (node.empty() || !same_node(candidate.entry->node, node))) continue;
        if (taken.emplace(device.name, candidate.name).second)
          selection.peers.push_back(make_peer(device, candidate, false, true));
        break;
      }
    }

    std::vector<std::string> ring;
    ring.reserve(candidates.size() + 1);
    for (const Candidate& candidate : candidates) ring.push_back(candidate.name);
    ring.push_back(own_name);
    for (const Neighbour& neighbour : neighbours(ring, own_name, shape, hour))
      if (neighbour.index < candidates.size() && !taken.contains({device.name, candidates[neighbour.index].name}))
        of_graph.push_back(make_peer(device, candidates[neighbour.index], neighbour.rotating, false));
  }
  // Fixed neighbours of all devices before rotating ones, so that the limit takes those first.
  for (const bool rotating : {false, true})
    for (Peer& peer : of_graph)
      if (peer.rotating == rotating) selection.peers.push_back(std::move(peer));
  if (selection.peers.size() > max_peers) {
    selection.refused = selection.peers.size() - max_peers;
    selection.peers.resize(max_peers);
  }
  return selection;
}

}  // namespace roce::probe

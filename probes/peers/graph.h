// SPDX-License-Identifier: Apache-2.0
//
// Who probes whom. Every node computes the same graph from the same list and seed, without a controller: in a small
// rail all probe all; in a large one each node has `degree` neighbours on a ring of all nodes that is ordered by a
// keyed hash. Neighbours at fixed distances stay while the list does, so that their series go on; one distance changes
// every hour, so that in time everybody has met many others. All functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace roce::probe {

struct GraphShape {
  std::string seed;
  std::uint32_t degree = 8;      // even, at least 4
  std::uint32_t full_mesh = 24;  // nodes
};

struct Neighbour {
  std::size_t index = 0;  // into the list of nodes
  bool rotating = false;
  bool operator==(const Neighbour&) const = default;
};

// Place of a node on the ring: SipHash-like keyed mixing of its name; ties are broken by the name.
std::uint64_t ring_hash(std::string_view seed, std::string_view name);

// The distance that changes: of `hour` (hours since the epoch), between degree/2 and (nodes-1)/2. Successive hours are
// spread over the range, and a node more or less changes it by one at most.
std::size_t rotating_distance(std::size_t nodes, std::uint32_t degree, std::uint64_t hour);

// The neighbours of `self` among `nodes` (names, each once, self among them), fixed ones first by distance. Exactly
// `degree` of them in a rail above `full_mesh` nodes, else all others; empty where self is not in the list.
std::vector<Neighbour> neighbours(std::span<const std::string> nodes, std::string_view self, const GraphShape& shape,
                                  std::uint64_t hour);

// The ring, for who needs the neighbours of many: indices of nodes in ring order.
std::vector<std::size_t> ring_order(std::span<const std::string> nodes, std::string_view seed);
std::vector<Neighbour> neighbours_on_ring(std::span<const std::size_t> ring, std::size_t place, const GraphShape& shape,
                                          std::uint64_t hour);

}  // namespace roce::probe

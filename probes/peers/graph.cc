// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace roce::probe {
namespace {

// SipHash-2-4, for a hash that is the same on all nodes and builds and that names cannot be made to cluster in.
class SipHash {
 public:
  SipHash(std::uint64_t k0, std::uint64_t k1)
      : v_{0x736f6d6570736575ULL ^ k0, 0x646f72616e646f6dULL ^ k1, 0x6c7967656e657261ULL ^ k0,
           0x7465646279746573ULL ^ k1} {}

  std::uint64_t operator()(std::string_view text) {
    std::uint64_t word = 0;
    std::size_t i = 0;
    for (; i < text.size(); ++i) {
      word |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i % 8));
      if (i % 8 == 7) {
        take(word);
        word = 0;
      }
    }
    take(word | (std::uint64_t{text.size() & 0xFF} << 56U));
    v_[2] ^= 0xFF;
    for (int n = 0; n < 4; ++n) round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
  }

 private:
  void take(std::uint64_t word) {
    v_[3] ^= word;
    round();
    round();
    v_[0] ^= word;
  }
  void round() {
    v_[0] += v_[1];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[3];
    v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] += v_[3];
    v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] += v_[1];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2];
    v_[2] = std::rotl(v_[2], 32);
  }

  std::uint64_t v_[4];
};

}  // namespace

std::uint64_t ring_hash(std::string_view seed, std::string_view name) {
  const std::uint64_t key = SipHash(0, 0)(seed);
  return SipHash(key, ~key)(name);
}

std::size_t rotating_distance(std::size_t nodes, std::uint32_t degree, std::uint64_t hour) {
  const std::size_t first = degree / 2;
  const std::size_t last = (nodes - 1) / 2;
  if (last <= first) return first;
  // Multiples of the golden ratio fall into the largest gap that is left, hour by hour.
  constexpr double kGolden = 0.6180339887498949;
  const double share = std::fmod(static_cast<double>(hour % 1'000'000) * kGolden, 1.0);
  return first + static_cast<std::size_t>(share * static_cast<double>(last - first + 1));
}

std::vector<std::size_t> ring_order(std::span<const std::string> nodes, std::string_view seed) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(nodes.size());
  for (const std::string& name : nodes) hashes.push_back(ring_hash(seed, name));
  std::vector<std::size_t> ring(nodes.size());
  std::iota(ring.begin(), ring.end(), std::size_t{0});
  std::sort(ring.begin(), ring.end(), [&](std::size_t a, std::size_t b) {
    return hashes[a] != hashes[b] ? hashes[a] < hashes[b] : nodes[a] < nodes[b];
  });
  return ring;
}

std::vector<Neighbour> neighbours_on_ring(std::span<const std::size_t> ring, std::size_t place, const GraphShape& shape,
                                          std::uint64_t hour) {
  std::vector<Neighbour> found;
  const std::size_t n = ring.size();
  if (n <= std::max<std::size_t>(shape.full_mesh, shape.degree + 1)) {
    for (std::size_t distance = 1; distance < n; ++distance) found.push_back({ring[(place + distance) % n], false});
    return found;
  }
  const auto add = [&](std::size_t distance, bool rotating) {
    found.push_back({ring[(place + distance) % n], rotating});
    found.push_back({ring[(place + n - distance) % n], rotating});
  };
  for (std::size_t distance = 1; distance < shape.degree / 2; ++distance) add(distance, false);
  add(rotating_distance(n, shape.degree, hour), true);
  return found;
}

std::vector<Neighbour> neighbours(std::span<const std::string> nodes, std::string_view self, const GraphShape& shape,
                                  std::uint64_t hour) {
  const auto ring = ring_order(nodes, shape.seed);
  const auto place = std::find_if(ring.begin(), ring.end(), [&](std::size_t i) { return nodes[i] == self; });
  if (place == ring.end()) return {};
  return neighbours_on_ring(ring, static_cast<std::size_t>(place - ring.begin()), shape, hour);
}

}  // namespace roce::probe

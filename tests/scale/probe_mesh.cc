// SPDX-License-Identifier: Apache-2.0
//
// The graph of probes at the size of a large fleet: 10,000 endpoints. Prints what it found; exit 1 where a promise of
// probes/peers/graph.h does not hold.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "probes/peers/graph.h"

namespace {

using roce::probe::GraphShape;
using roce::probe::Neighbour;

constexpr std::size_t kNodes = 10000;
constexpr std::size_t kHours = 24;
const GraphShape kShape{"fleet", 8, 24};

int failures = 0;
void check(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok  " : "FAIL", what);
  failures += holds ? 0 : 1;
}

std::vector<std::string> fleet(std::size_t n) {
  std::vector<std::string> names;
  char name[32];
  for (std::size_t i = 0; i < n; ++i) {
    std::snprintf(name, sizeof name, "rack%03zu-node%02zu", i / 20, i % 20);
    names.emplace_back(name);
  }
  return names;
}

// Neighbours of each node by its index.
std::vector<std::vector<Neighbour>> graph(const std::vector<std::string>& names, std::uint64_t hour) {
  const auto ring = roce::probe::ring_order(names, kShape.seed);
  std::vector<std::vector<Neighbour>> all(names.size());
  for (std::size_t place = 0; place < ring.size(); ++place)
    all[ring[place]] = roce::probe::neighbours_on_ring(ring, place, kShape, hour);
  return all;
}

void exact_degree(const std::vector<std::string>& names) {
  bool exact = true, symmetric = true;
  for (const std::uint64_t hour : {0ull, 1ull, 495000ull}) {
    const auto all = graph(names, hour);
    std::vector<std::size_t> probed_by(names.size());
    for (const auto& own : all) {
      std::vector<std::size_t> distinct;
      for (const Neighbour& n : own) distinct.push_back(n.index);
      std::sort(distinct.begin(), distinct.end());
      distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
      exact = exact && distinct.size() == kShape.degree && own.size() == kShape.degree;
      for (const std::size_t i : distinct) ++probed_by[i];
    }
    symmetric =
        symmetric && std::all_of(probed_by.begin(), probed_by.end(), [](std::size_t n) { return n == kShape.degree; });
  }
  check(exact, "each node probes exactly 8 others");
  check(symmetric, "each node is probed by exactly 8 others");
}

// Pairs of fixed neighbours, by name, that change when one node joins or leaves.
void little_movement(const std::vector<std::string>& names) {
  auto more = names;
  more.push_back("newcomer");
  const auto before = graph(names, 7);
  const auto after = graph(more, 7);
  std::size_t moved = 0, rotating_far = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const Neighbour& n : after[i]) {
      if (n.rotating) continue;
      const bool had = std::any_of(before[i].begin(), before[i].end(),
                                   [&](const Neighbour& o) { return !o.rotating && o.index == n.index; });
      moved += had ? 0 : 1;
    }
  }
  const auto a = roce::probe::rotating_distance(names.size(), 8, 7);
  const auto b = roce::probe::rotating_distance(more.size(), 8, 7);
  rotating_far = a > b ? a - b : b - a;
  std::printf("     one node more: %zu of %zu fixed pairs change\n", moved, names.size() * 6);
  // The newcomer's own three neighbours on each side, and the pairs that it separates.
  check(moved <= 12, "one node more or less moves at most 12 fixed pairs");
  check(rotating_far <= 1, "and the rotating distance by one at most");
}

// `bad` nodes: each has to be seen by at least three that are not, within a day; three are what blame needs.
bool covered(const std::vector<std::vector<std::vector<Neighbour>>>& day, const std::vector<bool>& bad) {
  std::vector<std::unordered_map<std::size_t, int>> seen(bad.size());
  for (const auto& hour : day)
    for (std::size_t i = 0; i < bad.size(); ++i)
      if (!bad[i])
        for (const Neighbour& n : hour[i])
          if (bad[n.index]) seen[n.index][i] = 1;
  for (std::size_t i = 0; i < bad.size(); ++i)
    if (bad[i] && seen[i].size() < 3) return false;
  return true;
}

void coverage(const std::vector<std::string>& names) {
  std::vector<std::vector<std::vector<Neighbour>>> day;
  for (std::size_t hour = 0; hour < kHours; ++hour) day.push_back(graph(names, 495000 + hour));
  const std::size_t share = kNodes / 20;
  std::vector<bool> bad(kNodes);

  std::mt19937 random(1);
  bool all = true;
  for (int run = 0; run < 20; ++run) {
    std::fill(bad.begin(), bad.end(), false);
    std::vector<std::size_t> order(kNodes);
    for (std::size_t i = 0; i < kNodes; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < share; ++i) bad[order[i]] = true;
    all = all && covered(day, bad);
  }
  check(all, "any 5 % of the nodes, at random: each seen by three others within 24 h");

  std::fill(bad.begin(), bad.end(), false);
  std::fill(bad.begin(), bad.begin() + share, true);
  check(covered(day, bad), "whole racks");

  std::fill(bad.begin(), bad.end(), false);
  const auto ring = roce::probe::ring_order(names, kShape.seed);
  for (std::size_t i = 0; i < share; ++i) bad[ring[i]] = true;
  check(covered(day, bad), "an arc of the ring, the worst for fixed neighbours");

  // 5 % of the paths: whichever pairs a bad switch port carries.
  std::size_t blind = 0;
  for (std::size_t i = 0; i < kNodes; ++i) {
    bool meets = false;
    for (const auto& hour : day)
      for (const Neighbour& n : hour[i]) {
        const std::uint64_t pair = roce::probe::ring_hash(
            "path", std::to_string(std::min(i, n.index)) + "-" + std::to_string(std::max(i, n.index)));
        meets = meets || pair % 20 == 0;
      }
    blind += meets ? 0 : 1;
  }
  std::printf("     5 %% of the paths: %zu of %zu nodes meet none within 24 h\n", blind, kNodes);
  check(blind < kNodes / 5, "5 % of the paths: at least four of five nodes meet one within 24 h");
}

void constant_load() {
  bool constant = true;
  for (const std::size_t n : {25, 100, 1000, 10000}) {
    const auto all = graph(fleet(n), 3);
    constant = constant && std::all_of(all.begin(), all.end(), [](const auto& own) { return own.size() == 8; });
  }
  check(constant, "probes of a node do not depend on the size of the fleet");
}

}  // namespace

int main() {
  const auto names = fleet(kNodes);
  exact_degree(names);
  little_movement(names);
  coverage(names);
  constant_load();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

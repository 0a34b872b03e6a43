// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "probes/peers/entry.h"
#include "probes/peers/exchange.h"
#include "probes/peers/graph.h"
#include "probes/peers/selection.h"
#include "probes/peers/token.h"

namespace roce::probe {
namespace {

using testing::HasSubstr;

std::vector<std::string> names(std::size_t n) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.push_back("node" + std::to_string(i));
  return all;
}

TEST(Graph, ASmallRailIsAFullMesh) {
  const auto found = neighbours(names(24), "node3", {}, 0);
  EXPECT_EQ(found.size(), 23u);
  for (const Neighbour& n : found) EXPECT_FALSE(n.rotating);
}

TEST(Graph, ALargeOneHasTheDegreeAndIsSymmetric) {
  const auto all = names(101);
  std::set<std::pair<std::string, std::string>> edges;
  for (const std::string& self : all) {
    const auto found = neighbours(all, self, {"s"}, 5);
    EXPECT_EQ(found.size(), 8u);
    std::set<std::size_t> distinct;
    for (const Neighbour& n : found) {
      distinct.insert(n.index);
      edges.emplace(self, all[n.index]);
      EXPECT_NE(all[n.index], self);
    }
    EXPECT_EQ(distinct.size(), 8u);
  }
  for (const auto& [a, b] : edges) EXPECT_TRUE(edges.contains({b, a}));
}

TEST(Graph, TheOrderOfTheListDoesNotMatterAndTheSeedDoes) {
  auto all = names(60);
  const auto pick = [&](const std::string& seed) {
    std::set<std::string> out;
    for (const Neighbour& n : neighbours(all, "node7", {seed}, 0))
      if (!n.rotating) out.insert(all[n.index]);
    return out;
  };
  const auto before = pick("a");
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(pick("a"), before);
  EXPECT_NE(pick("b"), before);
}

PeerEntry entry(const std::string& node, const std::string& device = "", const std::string& rail = "") {
  PeerEntry e;
  e.node = node;
  e.url = "https://" + node + ":14792";
  e.device = device;
  e.rail = rail;
  return e;
}

TEST(Selection, StorageComesFirstAndOnce) {
  std::vector<PeerEntry> entries{entry("node1"), entry("node2"), entry("node3")};
  entries[2].addresses = {"192.0.2.3"};
  const auto selection = select_peers(entries, "node1", {{"mlx5_0", 1, ""}}, {{"192.0.2.3", "mlx5_0"}}, {}, {}, 64, 0);
  ASSERT_EQ(selection.peers.size(), 2u);
  EXPECT_EQ(selection.peers[0].name, "node3");
  EXPECT_TRUE(selection.peers[0].storage);
  EXPECT_EQ(selection.peers[1].name, "node2");
  EXPECT_FALSE(selection.peers[1].storage);
}

TEST(Selection, AnAddressIsFoundByWhatEndpointsTold) {
  const auto selection = select_peers({entry("node2.example.org")}, "node1", {{"rxe0", 1, ""}}, {{"10.77.0.2", ""}},
                                      {{"10.77.0.2", "node2"}}, {}, 64, 0);
  ASSERT_EQ(selection.peers.size(), 1u);
  EXPECT_TRUE(selection.peers[0].storage);
}

TEST(Selection, TheSameNameInAnotherDomainIsAnotherNode) {
  const std::vector<PeerEntry> entries{entry("node1.b.org"), entry("node2.a.org")};
  const auto selection = select_peers(entries, "node1.a.org", {{"d", 1, ""}}, {{"10.0.0.9", ""}},
                                      {{"10.0.0.9", "node2.b.org"}}, {}, 64, 0);
  ASSERT_EQ(selection.peers.size(), 2u);
  for (const Peer& peer : selection.peers) EXPECT_FALSE(peer.storage) << peer.name;
  // A host that knows its short name only is found in a list of whole ones, and the other way round.
  EXPECT_EQ(select_peers(entries, "node2", {{"d", 1, ""}}, {}, {}, {}, 64, 0).peers.size(), 1u);
  EXPECT_EQ(
      select_peers({entry("node1"), entry("node2")}, "node2.a.org", {{"d", 1, ""}}, {}, {}, {}, 64, 0).peers.size(),
      1u);
}

TEST(Selection, RailsSeparateAndDevicesNameThePeer) {
  const std::vector<PeerEntry> entries{entry("node2", "mlx5_0", "a"), entry("node2", "mlx5_1", "b"), entry("node3")};
  const auto selection = select_peers(entries, "node1", {{"mlx5_0", 1, "a"}, {"mlx5_1", 1, "b"}}, {}, {}, {}, 64, 0);
  ASSERT_EQ(selection.peers.size(), 4u);
  for (const Peer& peer : selection.peers) {
    if (peer.name == "node2") {
      EXPECT_EQ(peer.remote_device, peer.device);
    }
  }
}

TEST(Selection, TheLimitIsKeptAndTold) {
  std::vector<PeerEntry> entries;
  for (int i = 0; i < 20; ++i) entries.push_back(entry("n" + std::to_string(i)));
  const auto selection = select_peers(entries, "n0", {{"d", 1, ""}}, {}, {}, {}, 5, 0);
  EXPECT_EQ(selection.peers.size(), 5u);
  EXPECT_EQ(selection.refused, 14u);
  EXPECT_EQ(selection.endpoints, 19u);
}

TEST(FileSd, TargetsAndLabels) {
  const auto found = parse_file_sd(
      R"([{"targets":["node2"],"labels":{"node":"n2","rail":"a","addresses":"192.0.2.1,192.0.2.2","__meta":"x"}},{"targets":["[::1]:5","c:7"]}])",
      14792);
  ASSERT_TRUE(found) << found.error();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].node, "n2");
  EXPECT_EQ((*found)[0].url, "https://node2:14792");
  EXPECT_EQ((*found)[0].addresses.size(), 2u);
  EXPECT_EQ((*found)[1].url, "https://[::1]:5");
}

TEST(FileSd, WhatIsNoSuchListIsRefused) {
  for (const char* bad :
       {"", "{}", "[1]", "[{}]", "[{\"targets\":[1]}]", "[{\"targets\":[\"a b\"]}]", "[{\"targets\":[],\"labels\":[]}]",
        "[{\"targets\":[\"a\"],\"labels\":{\"node\":1}}]", "[[[[[[[[[[[[[]]]]]]]]]]]]]"})
    EXPECT_FALSE(parse_file_sd(bad, 1)) << bad;
}

Endpoint endpoint(const std::string& device, const char* address) {
  Endpoint e;
  e.node = "node2";
  e.device = device;
  e.gid = *parse_gid(address);
  e.qpn = 17;
  e.qkey = 5;
  e.mtu = 4096;
  e.read = true;
  return e;
}

TEST(Exchange, EndpointsSurviveTheWay) {
  const auto found = parse_endpoints(
      endpoints_json("node2", {{endpoint("mlx5_0", "192.0.2.1"), "a"}, {endpoint("mlx5_1", "fd00::1"), ""}}));
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].rail, "a");
  EXPECT_EQ((*found)[0].endpoint.node, "node2");
  EXPECT_EQ((*found)[1].endpoint.gid, *parse_gid("fd00::1"));
  EXPECT_TRUE((*found)[1].endpoint.read);
}

TEST(Exchange, WhatIsOutOfRangeIsRefused) {
  const std::string good = endpoints_json("n", {{endpoint("d", "192.0.2.1"), ""}});
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{"\"qpn\":17", "\"qpn\":16777216"},
                                                                  {"\"qpn\":17", "\"qpn\":0"},
                                                                  {"\"qkey\":5", "\"qkey\":2147483648"},
                                                                  {"\"mtu\":4096", "\"mtu\":-1"},
                                                                  {"\"read\":true", "\"read\":1"},
                                                                  {"\"port\":1", "\"port\":\"1\""}}) {
    std::string bad = good;
    bad.replace(bad.find(from), std::string_view(from).size(), to);
    EXPECT_FALSE(parse_endpoints(bad)) << bad;
  }
  EXPECT_FALSE(parse_endpoints(std::string(70000, ' ')));
  EXPECT_FALSE(parse_endpoints(std::string(60000, '[')));
}

TEST(Exchange, ReadHalvesSurviveTheWay) {
  ReadRequest request{"d", *parse_gid("192.0.2.1"), 18, 0xFFFFFF, 1024};
  const auto asked = parse_read_request(to_json(request));
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->psn, 0xFFFFFFu);
  ReadGrant grant{*parse_gid("192.0.2.2"), 19, 1, 1024, 0xFFFFFFFFFFFFFFFFull, 0xFFFFFFFF, 4096};
  const auto granted = parse_read_grant(to_json(grant));
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->address, 0xFFFFFFFFFFFFFFFFull);
  EXPECT_FALSE(parse_read_grant(to_json(request)));
}

TEST(Exchange, TheEndpointOfTheSameRailIsChosen) {
  const std::vector<RailEndpoint> all{
      {endpoint("a0", "192.0.2.1"), ""}, {endpoint("a1", "198.51.100.1"), "r"}, {endpoint("a2", "203.0.113.1"), ""}};
  const auto pick = [&](const std::string& device, const LocalPort& local) {
    const auto* e = choose_endpoint(all, device, local);
    return e == nullptr ? std::string() : e->endpoint.device;
  };
  LocalPort local{"x", "", {}};
  EXPECT_EQ(pick("a2", local), "a2");
  EXPECT_EQ(pick("zz", local), "");
  EXPECT_EQ(pick("", local), "a0");
  local.rail = "r";
  EXPECT_EQ(pick("", local), "a1");
  local = {"x", "", {*parse_prefix("203.0.113.0/24")}};
  EXPECT_EQ(pick("", local), "a2");
  local = {"a1", "", {}};
  EXPECT_EQ(pick("", local), "a1");
}

TEST(Exchange, NothingButHttpsIsAsked) {
  HttpsSource source;
  Peer peer;
  peer.url = "http://127.0.0.1:1";
  EXPECT_FALSE(source.endpoint(peer));
  peer.url = "file:///etc/passwd#";
  EXPECT_FALSE(source.endpoint(peer));
  EXPECT_EQ(source.failures()[static_cast<std::size_t>(ExchangeFailure::kConnect)], 2u);
}

TEST(Token, ComparesAndFindsIt) {
  EXPECT_TRUE(same_token("abc", "abc"));
  EXPECT_FALSE(same_token("abc", "abd"));
  EXPECT_FALSE(same_token("abc", ""));
  EXPECT_EQ(bearer_of("Bearer  x"), "x");
  EXPECT_EQ(bearer_of("bearer x"), "x");
  EXPECT_EQ(bearer_of("Basic x"), "");
  EXPECT_EQ(bearer_of("Bearer"), "");
}

}  // namespace
}  // namespace roce::probe

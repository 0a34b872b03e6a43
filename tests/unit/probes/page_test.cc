// SPDX-License-Identifier: Apache-2.0
#include "probes/web/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/metrics/exposition.h"
#include "probes/measure/summary.h"
#include "probes/web/adhoc.h"
#include "probes/web/blame.h"
#include "probes/web/control.h"

namespace roce::probe {
namespace {

using testing::HasSubstr;
using testing::Not;

PeerStats peer(const std::string& name, bool rotating = false, bool storage = false) {
  PeerStats stats;
  stats.peer.name = name;
  stats.peer.device = "mlx5_0";
  stats.peer.rotating = rotating;
  stats.peer.storage = storage;
  stats.state = PeerState::kOk;
  stats.classes.resize(2);
  stats.classes[0].qos = "storage";
  stats.classes[1].qos = "best_effort";
  return stats;
}

DeviceStats device() {
  DeviceStats stats;
  stats.device = "mlx5_0";
  stats.state = "active";
  return stats;
}

std::string text(const ProbePage& page) {
  const SampleBatch* const batches[] = {&page.samples};
  return render_text(batches);
}

std::size_t series(const std::string& page) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < page.size(); at = page.find('\n', at) + 1) n += page[at] != '#' ? 1 : 0;
  return n;
}

TEST(Page, CountersAndHistogramsStartAtZero) {
  const std::string page = text(make_page({device()}, {peer("node2")}));
  EXPECT_THAT(page,
              HasSubstr("roce_probe_sent_total{device=\"mlx5_0\",port=\"1\",peer=\"node2\",qos=\"storage\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_failures_total{device=\"mlx5_0\",port=\"1\",peer=\"node2\",qos=\"storage\","
                              "reason=\"timeout\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_rtt_seconds_bucket{device=\"mlx5_0\",port=\"1\",peer=\"node2\",qos="
                              "\"storage\",le=\"+Inf\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_peer_state{device=\"mlx5_0\",port=\"1\",peer=\"node2\",state=\"ok\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("roce_prober_device_state{device=\"mlx5_0\",port=\"1\",state=\"down\"} 0\n"));
}

TEST(Page, WhatLeavesVanishes) { EXPECT_THAT(text(make_page({device()}, {peer("node3")})), Not(HasSubstr("node2"))); }

TEST(Page, StaysWithinTheLimitAndSaysWhatItDropped) {
  std::vector<PeerStats> peers;
  for (int i = 0; i < 64; ++i) peers.push_back(peer("node" + std::to_string(i), false, i == 63));
  const ProbePage page = make_page({device()}, peers);
  const std::string written = text(page);
  EXPECT_LE(series(written), kMostSeries);
  EXPECT_GT(page.dropped, 0u);
  // Loss of every peer is told before the latency of any, and storage comes first.
  for (int i = 0; i < 60; ++i)
    EXPECT_THAT(written, HasSubstr("peer=\"node" + std::to_string(i) + "\",qos=\"storage\",reason=\"timeout\""));
  const ProbePage eight = make_page({device()}, {peers.begin(), peers.begin() + 8});
  EXPECT_LE(series(text(eight)), kMostSeries);
  EXPECT_THAT(text(eight),
              HasSubstr("roce_probe_rtt_seconds_count{device=\"mlx5_0\",port=\"1\",peer=\"node7\",qos=\"storage\"}"));
}

TEST(Page, NativeHistogramsFitEightPeersWhole) {
  std::vector<PeerStats> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(peer("node" + std::to_string(i)));
  EXPECT_EQ(make_page({device()}, peers, true).dropped, 0u);
}

TEST(Page, WhatWasSkippedIsTheDevicesOwnThoughPeersLeave) {
  DeviceStats of = device();
  of.skipped = 7;
  PeerStats leaver = peer("node2");
  leaver.classes[0].skipped = 5;
  const char* const line = "roce_probe_skipped_total{device=\"mlx5_0\",port=\"1\"} 7\n";
  EXPECT_THAT(text(make_page({of}, {leaver, peer("node3")})), HasSubstr(line));
  EXPECT_THAT(text(make_page({of}, {peer("node3")})), HasSubstr(line));
}

TEST(Page, LongReadsAndRegistrationsAreTold) {
  DeviceStats of = device();
  of.registration_failures = 2;
  PeerStats stats = peer("node2");
  stats.mtu_sent = 9;
  stats.mtu_received = 4;
  stats.mtu_failures[static_cast<std::size_t>(Failure::kRetryExceeded)] = 5;
  const std::string page = text(make_page({of}, {stats}));
  const std::string labels = "{device=\"mlx5_0\",port=\"1\",peer=\"node2\"";
  EXPECT_THAT(page, HasSubstr("roce_probe_memory_registration_failures_total{device=\"mlx5_0\",port=\"1\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_mtu_reads_sent_total" + labels + "} 9\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_mtu_reads_received_total" + labels + "} 4\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_mtu_read_failures_total" + labels + ",reason=\"retry_exceeded\"} 5\n"));
  EXPECT_THAT(page, HasSubstr("roce_probe_mtu_read_failures_total" + labels + ",reason=\"timeout\"} 0\n"));
  PeerStats sum = stats;
  add_to(sum, stats);
  EXPECT_EQ(sum.mtu_sent, 18u);
  EXPECT_EQ(sum.mtu_received, 8u);
  EXPECT_EQ(sum.mtu_failures[static_cast<std::size_t>(Failure::kRetryExceeded)], 10u);
}

TEST(Page, FailuresThatHappenedAreToldByReason) {
  PeerStats stats = peer("node2");
  stats.classes[0].failures[static_cast<std::size_t>(Failure::kUnresolved)] = 3;
  EXPECT_THAT(text(make_page({device()}, {stats})), HasSubstr("qos=\"storage\",reason=\"unresolved\"} 3\n"));
}

TEST(Rotating, TheSumNeverStepsBack) {
  RotatingTotals totals;
  EngineStats before;
  before.peers = {peer("node5", true), peer("node6", true), peer("node2")};
  before.peers[0].classes[0].sent = 100;
  before.peers[1].classes[0].sent = 10;
  const auto sum = [&](const EngineStats& stats) {
    for (const PeerStats& p : totals.published(stats))
      if (p.peer.name == kRotating) return p.classes[0].sent;
    return std::uint64_t{0};
  };
  EXPECT_EQ(sum(before), 110u);
  Peer stays = before.peers[1].peer;
  totals.retire(before, {stays});
  EngineStats after;
  after.peers = {before.peers[1], peer("node7", true)};
  after.peers[1].classes[0].sent = 1;
  EXPECT_EQ(sum(after), 111u);
  EXPECT_EQ(totals.published(after).size(), 1u);
}

TEST(Rotating, HistogramsAddUp) {
  HistogramSnapshot a, b;
  a.buckets[3] = 2;
  a.count = 2;
  a.sum_ns = 10;
  a.fine = {{1, 1}, {5, 1}};
  b.buckets[3] = 1;
  b.count = 1;
  b.sum_ns = 7;
  b.fine = {{5, 1}};
  add_to(a, b);
  EXPECT_EQ(a.buckets[3], 3u);
  EXPECT_EQ(a.sum_ns, 17u);
  EXPECT_THAT(a.fine, testing::ElementsAre(testing::Pair(1, 1), testing::Pair(5, 2)));
}

EngineStats judged(std::initializer_list<PeerState> states) {
  EngineStats stats;
  stats.devices = {device()};
  for (const PeerState state : states) {
    stats.peers.push_back(peer("node" + std::to_string(stats.peers.size())));
    stats.peers.back().state = state;
  }
  return stats;
}

TEST(Blame, NeedsThreePeersForMySide) {
  using enum PeerState;
  EXPECT_EQ(judge(judged({kOk, kOk, kOk}))[0].blame, Blame::kNone);
  EXPECT_EQ(judge(judged({kDown}))[0].blame, Blame::kPeers);
  EXPECT_EQ(judge(judged({kDown, kOk, kOk}))[0].blame, Blame::kPeers);
  EXPECT_EQ(judge(judged({kDown, kLossy, kOk}))[0].blame, Blame::kMySide);
  EXPECT_EQ(judge(judged({kUnknown}))[0].blame, Blame::kUnknown);
  EngineStats slow = judged({kDown, kDown, kDown});
  slow.devices[0].throttle = 0.5;
  EXPECT_EQ(judge(slow)[0].blame, Blame::kHost);
}

TEST(Burst, IsCutToTheTimeThereIs) {
  using std::chrono::milliseconds;
  BurstSpec spec;
  spec.count = 100;
  spec.gap = milliseconds(20);
  spec.deadline = milliseconds(500);
  EXPECT_EQ(fit(spec, milliseconds(10000)).count, 100u);
  EXPECT_EQ(fit(spec, milliseconds(1500)).count, 51u);
  EXPECT_EQ(fit(spec, milliseconds(200)).count, 1u);
  EXPECT_EQ(fit(spec, milliseconds(200)).deadline, milliseconds(200));
}

TEST(Summary, UsesEverySample) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 1; i <= 100; ++i) samples.push_back(101 - i);
  const Summary s = summarise(samples);
  EXPECT_EQ(s.min, 1u);
  EXPECT_EQ(s.median, 50u);
  EXPECT_EQ(s.p99, 99u);
  EXPECT_EQ(s.p999, 100u);
  EXPECT_EQ(s.max, 100u);
  EXPECT_NEAR(s.deviation, 29.011, 0.001);
  EXPECT_EQ(summarise({}).count, 0u);
}

TEST(Control, AnswersItsRouteOnly) {
  const std::vector<web::Route> routes{{"/-/release", {"POST"}, [](const web::Request& r) {
                                          web::Response response;
                                          response.body = r.query.empty() ? "-" : r.query[0].second;
                                          return response;
                                        }}};
  EXPECT_THAT(control_answer("POST /-/release?seconds=9 HTTP/1.1\r\n\r\n", routes), testing::EndsWith("\r\n\r\n9"));
  EXPECT_THAT(control_answer("GET /-/release HTTP/1.1\r\n\r\n", routes), testing::StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(control_answer("POST /x HTTP/1.1\r\n\r\n", routes), testing::StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(control_answer("nonsense", routes), testing::StartsWith("HTTP/1.1 400 "));
}

}  // namespace
}  // namespace roce::probe

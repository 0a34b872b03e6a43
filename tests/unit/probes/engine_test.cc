// SPDX-License-Identifier: Apache-2.0
//
// The whole engine with its threads, in real time, over the fabric in memory. Nothing here asserts how long anything
// takes: what has to come is waited for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "probes/web/page.h"
#include "tests/unit/probes/host.h"

namespace roce::probe::fake {
namespace {

using namespace std::chrono_literals;

// What the HTTPS side would do: asks the other engines.
class Wire final : public EndpointSource {
 public:
  std::mutex mutex;
  std::map<std::string, Engine*> engines;  // by device
  Result<Endpoint> endpoint(const Peer& peer) override {
    const std::lock_guard lock(mutex);
    const auto found = engines.find(peer.name);
    if (found == engines.end()) return fail(ErrorKind::kIo, peer.name + ": connection refused");
    for (auto& endpoint : found->second->endpoints()) return endpoint;
    return fail(ErrorKind::kAbsent, peer.name + ": answers on no device");
  }
  Result<ReadGrant> connect_read(const Peer& peer, const ReadRequest& request) override {
    const std::lock_guard lock(mutex);
    const auto found = engines.find(peer.name);
    if (found == engines.end()) return fail(ErrorKind::kIo, peer.name + ": connection refused");
    return found->second->accept_read(request);
  }
};

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    fabric.real_time = true;
    fabric.fate = [](const Sending&) {
      Fate fate;
      fate.latency = 0;
      return fate;
    };
    fabric.add("a0", "10.0.0.1");
    fabric.add("b0", "10.0.0.2");
  }
  ~EngineTest() override {
    const std::lock_guard lock(wire.mutex);
    wire.engines.clear();
  }
  static EngineSettings settings(const std::string& device) {
    EngineSettings s;
    s.node = "node-" + device;
    s.devices = {device};
    s.classes = {{"storage", 26, 3}, {"best", 0, 0}};
    s.interval = 20ms;
    s.budget = 200;
    s.loopback_interval = 20ms;
    s.responder = true;
    s.source_rate = 1000;
    s.allowed = {{*parse_gid("10.0.0.0"), 104}};
    s.read_interval = 0ms;
    s.connect_interval = 0ms;
    s.registration_interval = 0ms;
    return s;
  }
  std::unique_ptr<Engine> start(const std::string& device, EngineSettings s) {
    auto engine = std::move(*start_engine(fabric, s, wire));
    engine->set_keys({key_of(1)});
    const std::lock_guard lock(wire.mutex);
    wire.engines[device.substr(0, 1)] = engine.get();
    return engine;
  }
  std::unique_ptr<Engine> start(const std::string& device) { return start(device, settings(device)); }
  static Peer peer(const std::string& name, const std::string& device) {
    Peer p;
    p.name = name;
    p.device = device;
    return p;
  }
  static BurstSpec to(const std::string& name, std::uint32_t count = 10, std::uint32_t size = 128) {
    BurstSpec spec;
    spec.peer = name;
    spec.count = count;
    spec.size = size;
    return spec;
  }
  static bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  static std::string describe(const Engine& engine) {
    const auto stats = engine.stats();
    std::string out;
    for (const auto& d : stats.devices)
      out += fmt::format("{} {} {} requests {} mac {} replay {} rate {} unknown {} malformed {} repairs {}\n", d.device,
                         d.state, d.error, d.requests, d.rejected_mac, d.rejected_replay, d.rejected_rate,
                         d.rejected_unknown, d.rejected_malformed, d.qp_repairs);
    for (const auto& each : stats.peers)
      for (const auto& c : each.classes)
        out += fmt::format(
            "{} {} {} sent {} received {} late {} skipped {} timeout {} unresolved {} no_endpoint {} "
            "send_error {} flushed {}\n",
            each.peer.name, to_string(each.state), c.qos, c.sent, c.received, c.late, c.skipped, c.failures[0],
            c.failures[2], c.failures[3], c.failures[1], c.failures[8]);
    return out;
  }
  static std::uint64_t received(const Engine& engine) {
    const auto stats = engine.stats();
    std::uint64_t n = 0;
    for (const auto& each : stats.peers)
      for (const auto& pair : each.classes) n += pair.received;
    return n;
  }
  Fabric fabric;
  Wire wire;
};

TEST_F(EngineTest, TwoEnginesProbeEachOther) {
  const auto a = start("a0"), b = start("b0");
  a->set_peers({peer("b", "a0")});
  b->set_peers({peer("a", "b0")});
  ASSERT_TRUE(eventually([&] { return received(*a) > 40 && received(*b) > 40; })) << describe(*a) << describe(*b);
  const auto stats = a->stats();
  ASSERT_EQ(stats.peers.size(), 1u);
  ASSERT_EQ(stats.peers[0].classes.size(), 2u);
  EXPECT_EQ(stats.peers[0].classes[0].qos, "storage");
  EXPECT_EQ(stats.peers[0].state, PeerState::kOk);
  EXPECT_EQ(stats.peers[0].remote_node, "node-b0");
  EXPECT_GT(stats.peers[0].classes[1].received, 0u);
  EXPECT_GT(stats.peers[0].last_success, 1e9);
  ASSERT_EQ(stats.devices.size(), 1u);
  EXPECT_EQ(stats.devices[0].state, "active");
  EXPECT_GT(stats.devices[0].requests, 0u);
  EXPECT_NEAR(stats.devices[0].interval_seconds, 0.02, 1e-9);
  EXPECT_TRUE(eventually([&] { return a->stats().devices[0].loopback_rtt.count > 3; }));
}

TEST_F(EngineTest, PeersThatStayKeepTheirCountersAndThoseThatLeaveAreGone) {
  const auto a = start("a0"), b = start("b0");
  Peer stays = peer("b", "a0");
  a->set_peers({stays, peer("x", "a0")});
  ASSERT_TRUE(eventually([&] { return received(*a) > 10; }));
  const auto before = received(*a);
  EXPECT_EQ(a->stats().peers.size(), 2u);
  a->set_peers({stays});
  EXPECT_EQ(a->stats().peers.size(), 1u);
  EXPECT_GE(received(*a), before);
  // Another class: the one that stays keeps its counters.
  EngineSettings s = settings("a0");
  s.classes = {{"best", 0, 0}, {"cnp", 48, 6}};
  a->set_settings(s);
  const auto stats = a->stats();
  ASSERT_EQ(stats.peers[0].classes.size(), 2u);
  EXPECT_GT(stats.peers[0].classes[0].received, 0u);
  ASSERT_TRUE(eventually([&] { return a->stats().peers[0].classes[1].received > 5; }));
}

TEST_F(EngineTest, RotatingPeersAreCountedOnce) {
  const auto a = start("a0"), b = start("b0");
  const auto rotating = [&](const std::string& name) {
    Peer p = peer(name, "a0");
    p.rotating = true;
    return p;
  };
  RotatingTotals totals;
  const auto sent = [&] {
    std::uint64_t n = 0;
    for (const PeerStats& each : totals.read(*a).published) {
      EXPECT_EQ(each.peer.name, kRotating);
      for (const PairStats& pair : each.classes) n += pair.sent;
    }
    return n;
  };
  totals.change(*a, {rotating("b"), rotating("x")});
  ASSERT_TRUE(eventually([&] { return sent() >= 200; })) << describe(*a);
  // Another place among them is no reason to begin anew.
  totals.change(*a, {rotating("x"), rotating("b")});
  const auto before = sent();
  EXPECT_GE(before, 200u);
  // To nobody of these anything is sent.
  totals.change(*a, {rotating("x"), rotating("y")});
  const auto after = sent();
  EXPECT_GE(after, before);
  EXPECT_LT(after, before + 200) << "counted once by the engine, once more as one that left";
  for (const PeerStats& each : a->stats().peers)
    EXPECT_EQ(each.classes[0].sent, 0u) << "of the one before in its place";
  totals.change(*a, {rotating("b")});
  EXPECT_GE(sent(), after);
  EXPECT_LT(sent(), after + 200);
}

TEST_F(EngineTest, TheConnectProbeIsNotTurnedOnInSilence) {
  const auto a = start("a0");
  EngineSettings s = settings("a0");
  s.connect_interval = 60s;
  testing::internal::CaptureStderr();
  a->set_settings(s);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("the connect probe is turned on by a restart only"));
}

TEST_F(EngineTest, TheBudgetIsOfTheWholeNode) {
  EngineSettings s = settings("a0");
  s.interval = 1000ms;
  s.budget = 4;
  const auto a = start("a0", s);
  std::vector<Peer> peers;
  for (int i = 0; i < 10; ++i) peers.push_back(peer("p" + std::to_string(i), "a0"));
  a->set_peers(peers);
  EXPECT_TRUE(eventually([&] { return a->stats().devices[0].interval_seconds == 5.0; }));  // 20 pairs, 4 a second
}

TEST_F(EngineTest, MorePeersThanADeviceTakesAreRefusedAndCounted) {
  const auto a = start("a0");
  std::vector<Peer> peers;
  for (int i = 0; i < 70; ++i) peers.push_back(peer("p" + std::to_string(i), "a0"));
  a->set_peers(peers);
  EXPECT_EQ(a->stats().peers.size(), 64u);
  EXPECT_EQ(a->stats().refused_peers, 6u);
}

TEST_F(EngineTest, ADeviceThatGoesAwayIsClosedAndOneThatComesBackIsOpened) {
  const auto a = start("a0"), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] { return received(*a) > 5; }));
  Device& device = *fabric.devices.at("a0");
  fabric.remove(device);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(fabric.mutex);
    return device.open_contexts == 0;
  }));
  EXPECT_TRUE(eventually([&] { return a->stats().devices[0].state == "absent"; }));
  EXPECT_EQ(a->stats().peers[0].state, PeerState::kUnknown);
  const auto before = received(*a);
  fabric.bring_back(device);
  EXPECT_TRUE(eventually([&] { return received(*a) > before + 5; }));
}

TEST_F(EngineTest, AFatalEventClosesAtOnceAndAnotherGidOpensAgain) {
  const auto a = start("a0"), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] { return received(*a) > 5; }));
  Device& device = *fabric.devices.at("a0");
  const auto opened = [&] {
    const std::lock_guard lock(fabric.mutex);
    return device.opened;
  };
  auto times = opened();
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.raise(device, DeviceEvent::kFatal);
  }
  ASSERT_TRUE(eventually([&] { return opened() > times; }));
  auto before = received(*a);
  ASSERT_TRUE(eventually([&] { return received(*a) > before + 5; }));
  times = opened();
  {
    const std::lock_guard lock(fabric.mutex);
    device.gid = *parse_gid("10.0.0.11");
    fabric.raise(device, DeviceEvent::kGidChange);
  }
  ASSERT_TRUE(eventually([&] { return opened() > times; }));
  before = received(*a);
  EXPECT_TRUE(eventually([&] { return received(*a) > before + 5; }));
  EXPECT_EQ(a->endpoints().at(0).gid, *parse_gid("10.0.0.11"));
}

TEST_F(EngineTest, ReleaseClosesBeforeItReturns) {
  const auto a = start("a0"), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] { return received(*a) > 5; }));
  ASSERT_TRUE(a->release(3600s));
  {
    const std::lock_guard lock(fabric.mutex);
    EXPECT_EQ(fabric.devices.at("a0")->open_contexts, 0u);
    EXPECT_EQ(fabric.devices.at("a0")->addresses, 0u);
  }
  EXPECT_EQ(a->stats().devices[0].state, "released");
  EXPECT_TRUE(a->endpoints().empty());
  const auto failed = a->burst(to("b"));
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->sent, 0u);
  EXPECT_EQ(failed->failure, "a0: the device is released");
  ASSERT_TRUE(a->release(0s));
  const auto before = received(*a);
  EXPECT_TRUE(eventually([&] { return received(*a) > before + 5; }));
}

TEST_F(EngineTest, TheResponderIsOffUntilItIsTurnedOn) {
  EngineSettings s = settings("b0");
  s.responder = false;
  const auto a = start("a0"), b = start("b0", s);
  a->set_peers({peer("b", "a0")});
  EXPECT_TRUE(b->endpoints().empty());
  ASSERT_TRUE(eventually([&] { return a->stats().peers[0].classes[0].failures[3] > 3; }));  // no endpoint
  EXPECT_EQ(received(*a), 0u);
  s.responder = true;
  b->set_settings(s);
  EXPECT_TRUE(eventually([&] { return received(*a) > 5; }));
}

TEST_F(EngineTest, ABurstIsAnsweredInTheOrderOfSending) {
  EngineSettings s = settings("a0");
  s.interval = 10s;
  const auto a = start("a0", s), b = start("b0");
  a->set_peers({peer("b", "a0")});
  BurstSpec spec;
  spec.peer = "b";
  spec.count = 30;
  spec.gap = 2ms;
  spec.deadline = 5000ms;
  spec.qos = "best";
  const auto result = a->burst(spec);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->failure, "");
  EXPECT_EQ(result->sent, 30u);
  EXPECT_EQ(result->received, 30u);
  EXPECT_EQ(result->rtt.size(), 30u);
  EXPECT_EQ(result->hops, 1u);
  EXPECT_EQ(result->ecn_capable, 60u);
  EXPECT_EQ(result->ecn_marked, 0u);
  const auto stats = a->stats();
  EXPECT_LT(stats.peers[0].classes[1].sent, 3u);  // a burst is nobody's loss ratio
}

TEST_F(EngineTest, BurstsSayWhatIsWrongWithThem) {
  const auto a = start("a0");
  a->set_peers({peer("b", "a0")});
  EXPECT_EQ(a->burst(to("nobody")).error().object, "nobody: no such peer");
  EXPECT_EQ(a->burst(to("b", 0)).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(a->burst(to("b", 100000)).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(a->burst(to("b", 10, 64)).error().kind, ErrorKind::kMalformed);
  ASSERT_TRUE(eventually([&] { return a->stats().devices[0].state == "active"; }));
  const auto result = a->burst(to("b"));  // no such engine: its endpoint never comes
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sent, 0u);
  EXPECT_EQ(result->failure, "b: its endpoint is not known");
}

TEST_F(EngineTest, WithoutAGapOneProbeIsUnderWayAtATime) {
  EngineSettings s = settings("a0");
  s.interval = 10s;
  int under_way = 0, most = 0, drop = 0;
  fabric.fate = [&](const fake::Sending& sending) {
    fake::Fate fate;
    if (sending.loopback() || sending.payload.size() != 256) return fate;
    const bool request = sending.from == fabric.devices["a0"]->gid;
    under_way = request ? under_way + 1 : 0;
    most = std::max(most, under_way);
    if (request && drop > 0 && --drop >= 0) {
      fate.drop = true;
      under_way = 0;
    }
    return fate;
  };
  const auto a = start("a0", s), b = start("b0");
  a->set_peers({peer("b", "a0")});
  BurstSpec spec = to("b", 30, 256);
  spec.gap = 0ms;
  spec.deadline = 5000ms;
  auto result = a->burst(spec);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->received, 30U);
  EXPECT_EQ(most, 1);
  {
    const std::lock_guard lock(fabric.mutex);
    drop = 3;
  }
  spec.count = 10;
  spec.deadline = 200ms;
  result = a->burst(spec);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sent, 10U);
  EXPECT_EQ(result->received, 7U);
  spec.kind = BurstSpec::Kind::kRead;
  spec.deadline = 5000ms;
  result = a->burst(spec);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sent, 10U);
  EXPECT_EQ(result->received, 10U);
}

TEST_F(EngineTest, ReadsGoOnWithoutTheSoftwareOfThePeer) {
  EngineSettings s = settings("a0");
  s.read_interval = 20ms;
  s.registration_interval = 20ms;
  const auto b = start("b0"), a = start("a0", s);
  ASSERT_TRUE(eventually([&] { return !b->endpoints().empty(); }));
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] {
    const auto stats = a->stats();
    return stats.peers[0].read_rtt.count > 10 && stats.peers[0].mtu_received > 2 &&
           stats.devices[0].registration.count > 2;
  }));
  const auto stats = a->stats();
  EXPECT_GE(stats.peers[0].reads_sent, stats.peers[0].read_rtt.count);
  for (const auto n : stats.peers[0].read_failures) EXPECT_EQ(n, 0u);
  BurstSpec spec = to("b", 10, 8);
  spec.kind = BurstSpec::Kind::kRead;
  spec.gap = 10ms;
  const auto result = a->burst(spec);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->failure, "");
  EXPECT_GE(result->received, 1u);
  EXPECT_EQ(result->received, result->rtt.size());
}

TEST_F(EngineTest, AReadThatFailsIsCountedByReasonAndConnectedAnew) {
  EngineSettings s = settings("a0");
  s.read_interval = 20ms;
  const auto a = start("a0", s), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] { return a->stats().peers[0].read_rtt.count > 3; }));
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.read_status = [](const Gid&, const Gid&, std::uint32_t) { return kWorkRetryExceeded; };
  }
  ASSERT_TRUE(eventually([&] {
    const auto stats = a->stats();
    return stats.peers[0].read_failures[static_cast<std::size_t>(Failure::kRetryExceeded)] +
               stats.peers[0].mtu_failures[static_cast<std::size_t>(Failure::kRetryExceeded)] >
           0;
  }));
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.read_status = nullptr;
  }
  const auto before = a->stats().peers[0].read_rtt.count;
  EXPECT_TRUE(eventually([&] { return a->stats().peers[0].read_rtt.count > before + 3; }));
}

TEST_F(EngineTest, ReadsOfABurstBehindOneThatHangsAreLost) {
  const auto a = start("a0", settings("a0")), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually([&] { return a->stats().peers[0].classes[0].received > 0; }));
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.read_status = [](const Gid&, const Gid&, std::uint32_t) { return -1; };
  }
  BurstSpec spec = to("b", 20, 8);
  spec.kind = BurstSpec::Kind::kRead;
  spec.gap = 5ms;
  spec.deadline = 100ms;
  const auto result = a->burst(spec);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->failure, "");
  EXPECT_EQ(result->sent, 20U);
  EXPECT_EQ(result->received, 0U);
}

TEST_F(EngineTest, LongReadsThatFailAloneAreTheirOwnSeries) {
  EngineSettings s = settings("a0");
  s.read_interval = 20ms;
  fabric.read_status = [](const Gid&, const Gid&, std::uint32_t bytes) {
    return bytes > 1500 ? kWorkRetryExceeded : kWorkSuccess;
  };
  const auto a = start("a0", s), b = start("b0");
  a->set_peers({peer("b", "a0")});
  ASSERT_TRUE(eventually(
      [&] { return a->stats().peers[0].mtu_failures[static_cast<std::size_t>(Failure::kRetryExceeded)] > 0; }));
  const auto stats = a->stats();
  EXPECT_GE(stats.peers[0].read_rtt.count, 3u);
  EXPECT_EQ(stats.peers[0].mtu_received, 0u);
  EXPECT_EQ(stats.peers[0].read_failures[static_cast<std::size_t>(Failure::kRetryExceeded)], 0u);
}

TEST_F(EngineTest, BaselinesAreKeptOverARestart) {
  Baseline baseline;
  baseline.medians.assign(30, 5'000);
  baseline.cells = {{400, 1000}, {401, 1500}};
  const auto saved = write_baselines(std::vector<SavedBaseline>{{"b@a0/1", "storage", baseline}});
  const auto a = start("a0");
  a->restore_baselines("nonsense");
  a->restore_baselines(saved);
  a->set_peers({peer("b", "a0")});  // of which there is no engine, so that nothing is learnt
  ASSERT_TRUE(eventually([&] { return a->stats().devices[0].state == "active"; }));
  EXPECT_EQ(a->save_baselines(), saved);  // copied by the thread that they belong to
  ASSERT_TRUE(a->release(3600s));
  EXPECT_EQ(a->save_baselines(), saved);  // there is none
}

TEST_F(EngineTest, TooLittleLockableMemoryIsTheStateOfTheDevice) {
  fabric.devices.at("a0")->lockable = 1024;
  const auto a = start("a0");
  ASSERT_TRUE(eventually([&] { return a->stats().devices[0].state == "error"; }));
  EXPECT_THAT(a->stats().devices[0].error, testing::HasSubstr("RLIMIT_MEMLOCK"));
}

TEST_F(EngineTest, WithoutKeysNothingIsSentAndTheDeviceSaysSo) {
  const auto a = start("a0"), b = start("b0");
  a->set_keys({});
  a->set_peers({peer("b", "a0")});
  EXPECT_TRUE(eventually([&] { return a->stats().devices[0].error.find("no key") == 0; }));
  EXPECT_TRUE(eventually([&] { return a->stats().peers[0].classes[0].skipped > 3; }));
  EXPECT_EQ(received(*a), 0u);
  a->set_keys({key_of(1)});
  EXPECT_TRUE(eventually([&] { return received(*a) > 3; }));
}

}  // namespace
}  // namespace roce::probe::fake

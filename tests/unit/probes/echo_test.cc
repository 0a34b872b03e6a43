// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/probes/host.h"

namespace roce::probe::fake {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kSec = 1'000'000'000;

std::uint64_t failures(const PairRecord& pair, Failure failure) {
  return pair.failures[static_cast<std::size_t>(failure)].get();
}

class Echo : public testing::Test {
 protected:
  Echo() {
    a_device = &fabric.add("a0", "10.0.0.1");
    b_device = &fabric.add("b0", "10.0.0.2");
  }
  void start(std::vector<QosClass> classes = {{"best", 0, 0}}) {
    a = std::make_unique<Host>(fabric, directory, "a0", 7);
    b = std::make_unique<Host>(fabric, directory, "b0", 8);
    a->plan().loopback_interval = 0;
    directory.endpoints["b"] = b->endpoint();
    peer = a->probe("b", std::move(classes));
    pair = peer->pairs[0].get();
  }
  // Plays all threads for that long, in steps small enough that nobody is late.
  void run(std::uint64_t ns, std::uint64_t step = kMs) {
    for (std::uint64_t t = 0; t < ns; t += step) {
      fabric.advance(step);
      if (a) a->turn();
      if (b) b->turn();
      if (c) c->turn();
    }
  }
  Fabric fabric;
  Directory directory;
  Device* a_device;
  Device* b_device;
  std::unique_ptr<Host> a, b, c;
  std::shared_ptr<PeerRecord> peer;
  PairRecord* pair = nullptr;
};

TEST_F(Echo, EachProbeIsAnsweredOnceAndOnSchedule) {
  start();
  run(60 * kSec);
  EXPECT_GE(pair->sent.get(), 58u);
  EXPECT_LE(pair->sent.get(), 61u);
  EXPECT_GE(pair->received.get() + 1, pair->sent.get());
  for (const auto& counter : pair->failures) EXPECT_EQ(counter.get(), 0u);
  EXPECT_EQ(pair->duplicates.get() + pair->late.get() + pair->corrupt.get(), 0u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kOk);
  EXPECT_EQ(b->record.requests.get(), pair->received.get());
  EXPECT_EQ(peer->counters->hops.load(), 1u);
  EXPECT_EQ(a->record.rejected_malformed.get(), 0u);
}

TEST_F(Echo, HardwareTimestampsSplitNetworkFromResponderAndHost) {
  a_device->khz = 1'000'000;  // one tick a nanosecond
  a_device->tick_offset = 123'456'789;
  b_device->khz = 250'000;  // another clock
  fabric.fate = [](const Sending&) {
    Fate fate;
    fate.latency = 3'000;
    return fate;
  };
  start();
  run(30 * kSec);
  ASSERT_GE(pair->received.get(), 25u);
  // The threads are played once a millisecond, so the round trip seen by the host is a multiple of that, and the
  // network's part of it two times 3 us whatever the host did.
  EXPECT_GE(pair->rtt.snapshot().quantile_ns(0.5), kMs);
  const auto network = pair->network.snapshot();
  EXPECT_GE(network.count + 2, pair->received.get());
  EXPECT_NEAR(static_cast<double>(network.quantile_ns(0.5)), 6'000.0, 200.0);
  EXPECT_NEAR(static_cast<double>(network.quantile_ns(1)), 6'000.0, 200.0);
  EXPECT_TRUE(peer->counters->responder_delay_hardware.load());
  EXPECT_EQ(failures(*pair, Failure::kInvalidTimestamp), 0u);
}

TEST_F(Echo, TheDeviceClockMayWrapBetweenTwoStamps) {
  a_device->khz = 1'000'000;
  a_device->mask = 0xffffff;  // wraps every 16.8 ms
  b_device->khz = 156'250;
  b_device->mask = 0xfffff;
  start();
  run(60 * kSec);
  const auto network = pair->network.snapshot();
  EXPECT_GE(network.count, 55u);
  EXPECT_NEAR(static_cast<double>(network.quantile_ns(1)), 10'000.0, 300.0);
  EXPECT_EQ(failures(*pair, Failure::kInvalidTimestamp), 0u);
}

TEST_F(Echo, ANegativeNetworkTimeIsCountedAndNotKept) {
  a_device->khz = 1'000'000;
  b_device->khz = 1'000'000;
  start();
  run(10 * kSec);
  // The far clock begins to run five times too fast, so that its part is longer than the whole.
  b_device->khz = 5'000'000;
  const auto before = pair->network.snapshot().count;
  run(10 * kSec);
  EXPECT_GE(failures(*pair, Failure::kInvalidTimestamp), 8u);
  EXPECT_LE(pair->network.snapshot().count, before + 2);
}

TEST_F(Echo, OneSideWithoutHardwareTimestampsLeavesTheNetworkSeriesEmpty) {
  a_device->khz = 1'000'000;
  start();
  run(10 * kSec);
  EXPECT_GE(pair->received.get(), 8u);
  EXPECT_EQ(pair->network.snapshot().count, 0u);
  EXPECT_GE(peer->counters->responder_delay.snapshot().count, 8u);
  EXPECT_FALSE(peer->counters->responder_delay_hardware.load());
}

TEST_F(Echo, EbusyOfAPollLosesNothing) {
  start();
  run(5 * kSec);
  for (int i = 0; i < 200; ++i) {
    {
      const std::lock_guard lock(fabric.mutex);
      a_device->busy_polls = 3;
      b_device->busy_polls = 3;
    }
    run(100 * kMs);
  }
  EXPECT_GE(pair->received.get() + 1, pair->sent.get());
  EXPECT_EQ(failures(*pair, Failure::kTimeout), 0u);
  EXPECT_EQ(a->record.qp_repairs.get(), 0u);
}

TEST_F(Echo, EveryStatusOfASendIsCountedUnderItsReasonAndRepaired) {
  const std::vector<std::pair<int, Failure>> expected = {
      {1, Failure::kSendError},     {2, Failure::kQpError},       {3, Failure::kSendError},
      {4, Failure::kSendError},     {5, Failure::kFlushed},       {6, Failure::kSendError},
      {7, Failure::kSendError},     {8, Failure::kSendError},     {9, Failure::kRemoteAccess},
      {10, Failure::kRemoteAccess}, {11, Failure::kRemoteAccess}, {12, Failure::kRetryExceeded},
      {13, Failure::kRnrExceeded},  {14, Failure::kSendError},    {15, Failure::kSendError},
      {16, Failure::kSendError},    {17, Failure::kSendError},    {18, Failure::kSendError},
      {19, Failure::kSendError},    {20, Failure::kSendError},    {21, Failure::kSendError},
      {22, Failure::kSendError},    {23, Failure::kSendError}};
  int status = 0;
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    if (sending.from == a_device->gid) fate.send_status = std::exchange(status, 0);
    return fate;
  };
  start();
  run(3 * kSec);
  std::uint64_t repairs = 0;
  for (const auto& [number, failure] : expected) {
    const auto before = failures(*pair, failure);
    const auto answered = pair->received.get();
    const auto qpn = a->probe_queue->qpn();
    status = number;
    run(4 * kSec);
    EXPECT_EQ(failures(*pair, failure), before + 1) << number;
    EXPECT_EQ(a->record.qp_repairs.get(), ++repairs) << number;
    EXPECT_EQ(a->probe_queue->qpn(), qpn);
    EXPECT_GT(pair->received.get(), answered + 1) << number;
  }
  EXPECT_EQ(failures(*pair, Failure::kTimeout), 0u);
}

TEST_F(Echo, ARefusedPostIsASendErrorAndNothingWasSent) {
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    if (sending.from == a_device->gid) fate.post_errno = ENOMEM;
    return fate;
  };
  start();
  run(10 * kSec);
  EXPECT_EQ(pair->sent.get(), 0u);
  EXPECT_GE(failures(*pair, Failure::kSendError), 9u);
}

TEST_F(Echo, LateRepliesCountAsLostAndAsLateAndTheirLatencyIsKept) {
  fabric.fate = [](const Sending&) {
    Fate fate;
    fate.latency = 400 * kMs;
    return fate;
  };
  start();
  run(20 * kSec);
  EXPECT_EQ(pair->received.get(), 0u);
  EXPECT_GE(failures(*pair, Failure::kTimeout), 18u);
  EXPECT_GE(pair->late.get(), 17u);
  EXPECT_NEAR(static_cast<double>(pair->rtt.snapshot().quantile_ns(0.5)), 800e6, 20e6);
  EXPECT_EQ(pair->duplicates.get(), 0u);
}

TEST_F(Echo, DuplicatesAreCountedAndAnsweredOnce) {
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    if (sending.from == b_device->gid) fate.copies = 2;
    return fate;
  };
  start();
  run(20 * kSec);
  EXPECT_GE(pair->received.get(), 18u);
  EXPECT_EQ(pair->duplicates.get(), pair->received.get());
  EXPECT_EQ(pair->rtt.snapshot().count, pair->received.get());
}

TEST_F(Echo, ADuplicatedRequestIsAReplay) {
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    if (sending.from == a_device->gid) fate.copies = 2;
    return fate;
  };
  start();
  run(20 * kSec);
  EXPECT_GE(pair->received.get(), 18u);
  EXPECT_EQ(pair->duplicates.get(), 0u);
  EXPECT_GE(b->record.rejected_replay.get(), 18u);
}

TEST_F(Echo, ADamagedReplyIsCorruptAndLost) {
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    fate.corrupt = sending.from == b_device->gid;
    return fate;
  };
  start();
  run(10 * kSec);
  EXPECT_EQ(pair->received.get(), 0u);
  EXPECT_GE(pair->corrupt.get(), 8u);
  EXPECT_GE(failures(*pair, Failure::kTimeout), 8u);
}

TEST_F(Echo, MarksAreToldOfBothDirections) {
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    fate.mark = sending.from == a_device->gid;
    fate.routers = 3;
    return fate;
  };
  start();
  run(10 * kSec);
  const auto n = pair->received.get();
  ASSERT_GE(n, 8u);
  EXPECT_EQ(pair->ecn_capable_forward.get(), n);
  EXPECT_EQ(pair->ecn_marked_forward.get(), n);
  EXPECT_EQ(pair->ecn_capable_back.get(), n);
  EXPECT_EQ(pair->ecn_marked_back.get(), 0u);  // the reply does not carry the mark of its request
  EXPECT_EQ(peer->counters->hops.load(), 4u);
}

TEST_F(Echo, OneClassMayFailAloneAndThePeerIsNotDown) {
  fabric.fate = [](const Sending& sending) {
    Fate fate;
    fate.drop = sending.traffic_class >> 2 == 26;
    return fate;
  };
  start({{"storage", 26, 3}, {"best", 0, 0}});
  run(20 * kSec);
  EXPECT_EQ(peer->pairs[0]->received.get(), 0u);
  EXPECT_GE(failures(*peer->pairs[0], Failure::kTimeout), 18u);
  EXPECT_GE(peer->pairs[1]->received.get(), 18u);
  EXPECT_EQ(failures(*peer->pairs[1], Failure::kTimeout), 0u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kLossy);
}

TEST_F(Echo, LabelsAreUsedInTurnAndTheReplyTakesTheSame) {
  std::map<std::uint32_t, int> there, back;
  fabric.fate = [&](const Sending& sending) {
    ++(sending.from == a_device->gid ? there : back)[sending.flow_label];
    return Fate{};
  };
  start();
  run(32 * kSec);
  EXPECT_EQ(there.size(), 8u);
  EXPECT_FALSE(there.contains(0));
  for (const auto& [label, n] : there) EXPECT_EQ(back[label], n);
}

TEST_F(Echo, APeerThatStopsIsDownAndOneThatComesBackWithAnotherNumberIsFound) {
  start();
  run(5 * kSec);
  ASSERT_EQ(peer->counters->state.load(), PeerState::kOk);
  b.reset();
  run(6 * kSec);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kDown);
  EXPECT_GE(a->record.ah_refreshes.get(), 1u);
  b = std::make_unique<Host>(fabric, directory, "b0", 99);
  directory.endpoints["b"] = b->endpoint();
  const auto before = pair->received.get();
  run(20 * kSec);
  EXPECT_GT(pair->received.get(), before + 3);
  EXPECT_GE(a->record.endpoint_refreshes.get(), 1u);
  EXPECT_EQ(a->record.ah_refresh_recovered.get(), 0u);
  run(25 * kSec);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kOk);
}

TEST_F(Echo, NewAddressesThatCureLossesAreCountedAsSuch) {
  start();
  run(5 * kSec);
  // The neighbour's MAC address changed: what is sent by old handles goes nowhere.
  std::uint64_t lost = 0;
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    fate.drop = sending.from == a_device->gid && a->record.ah_refreshes.get() == 0;
    lost += fate.drop ? 1 : 0;
    return fate;
  };
  run(20 * kSec);
  EXPECT_GE(lost, 13u);
  EXPECT_EQ(a->record.ah_refreshes.get(), 1u);
  EXPECT_EQ(a->record.ah_refresh_recovered.get(), 1u);
  EXPECT_EQ(a->record.endpoint_refreshes.get(), 0u);
}

TEST_F(Echo, WithoutAnEndpointNothingIsSentAndItSaysWhy) {
  start();
  directory.endpoints.clear();
  run(10 * kSec);
  EXPECT_EQ(pair->sent.get(), 0u);
  EXPECT_GE(failures(*pair, Failure::kNoEndpoint), 8u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kUnknown);
}

TEST_F(Echo, ANeighbourThatDoesNotAnswerIsDown) {
  fabric.dead.insert(b_device->gid);
  start();
  run(10 * kSec);
  EXPECT_EQ(pair->sent.get(), 0u);
  EXPECT_GE(failures(*pair, Failure::kUnresolved), 8u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kDown);
}

// The resolver runs on its own thread here and hangs in the creation of an address, as the kernel does for a second.
TEST_F(Echo, ADeadNeighbourDoesNotDelayOtherPeers) {
  fabric.add("c0", "10.0.0.3");
  start();
  run(3 * kSec);
  {
    const std::lock_guard lock(fabric.mutex);
    fabric.dead.insert(*parse_gid("10.0.0.3"));
    fabric.hold_dead = true;
  }
  Endpoint nowhere = b->endpoint();
  nowhere.gid = *parse_gid("10.0.0.3");
  directory.endpoints["c"] = nowhere;
  const auto dead = a->probe("c");
  std::thread resolver([&] { (void)a->resolver.run_once(); });
  while (fabric.creating() == 0) std::this_thread::yield();
  const auto lag = a->record.scheduler_lag.snapshot();
  const auto before = pair->received.get();
  for (int i = 0; i < 20'000; ++i) {
    fabric.advance(kMs);
    (void)a->prober.step();
    (void)b->responder.step();
    while (b->helper.run_once()) {
    }
  }
  EXPECT_EQ(fabric.creating(), 1u);
  EXPECT_GE(pair->received.get(), before + 18);
  EXPECT_EQ(failures(*pair, Failure::kTimeout), 0u);
  EXPECT_LE(a->record.scheduler_lag.snapshot().quantile_ns(1), std::max(lag.quantile_ns(1), 2 * kMs));
  fabric.release_dead();
  resolver.join();
  run(5 * kSec);
  EXPECT_GE(failures(*dead->pairs[0], Failure::kUnresolved), 3u);
}

TEST_F(Echo, ALinkThatGoesDownStopsProbingAndIsNotThePeersFault) {
  start();
  run(5 * kSec);
  fabric.set_link(*a_device, false);
  a->prober.on_event(DeviceEvent::kPortError);
  const auto sent = pair->sent.get();
  run(10 * kSec);
  EXPECT_EQ(pair->sent.get(), sent);
  EXPECT_GE(pair->skipped.get(), 9u);
  EXPECT_EQ(a->record.skipped.get(), pair->skipped.get());
  EXPECT_EQ(peer->counters->state.load(), PeerState::kUnknown);
  fabric.set_link(*a_device, true);
  a->prober.on_event(DeviceEvent::kPortActive);
  run(5 * kSec);
  EXPECT_GT(pair->received.get(), 7u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kOk);
}

TEST_F(Echo, AQueueThatBrokeWhileTheLinkWasDownIsRepairedWhenItIsBack) {
  start();
  run(5 * kSec);
  {
    const std::lock_guard lock(fabric.mutex);
    a_device->link = false;  // the event comes later
  }
  run(3 * kSec);
  a->prober.on_event(DeviceEvent::kPortError);
  run(3 * kSec);
  EXPECT_GE(failures(*pair, Failure::kQpError), 1u);
  EXPECT_EQ(a->record.qp_repairs.get(), 0u);
  fabric.set_link(*a_device, true);
  a->prober.on_event(DeviceEvent::kPortActive);
  const auto before = pair->received.get();
  run(10 * kSec);
  EXPECT_EQ(a->record.qp_repairs.get(), 1u);
  EXPECT_GE(pair->received.get(), before + 7);
}

TEST_F(Echo, ClockStepsOfTheWallDoNotMatterButAnExpiredKeyDoes) {
  start();
  Key soon = key_of(1);
  soon.not_after =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(fabric.realtime() + 3600 * kSec)));
  a->keys({soon});
  b->keys({soon});
  run(5 * kSec);
  fabric.step_realtime(-86'400 * static_cast<std::int64_t>(kSec));
  run(5 * kSec);
  fabric.step_realtime(86'400 * static_cast<std::int64_t>(kSec));
  run(5 * kSec);
  EXPECT_GE(pair->received.get(), 13u);
  EXPECT_EQ(failures(*pair, Failure::kTimeout), 0u);
  EXPECT_LE(pair->rtt.snapshot().quantile_ns(1), 5 * kMs);
  const auto sent = pair->sent.get();
  fabric.step_realtime(7200 * static_cast<std::int64_t>(kSec));
  run(5 * kSec);
  EXPECT_LE(pair->sent.get(), sent + 1);
  EXPECT_TRUE(a->record.no_key.load());
}

TEST_F(Echo, AStalledThreadSendsAtOnceRecordsTheLagAndCountsWhatWasLost) {
  start();
  run(5 * kSec);
  const auto sent = pair->sent.get();
  fabric.advance(5 * kSec);
  a->turn();
  EXPECT_EQ(pair->sent.get(), sent + 1);
  EXPECT_GE(pair->skipped.get(), 3u);
  EXPECT_EQ(a->record.skipped.get(), pair->skipped.get());
  EXPECT_GE(a->record.scheduler_lag.snapshot().quantile_ns(1), 3 * kSec);
}

TEST_F(Echo, LoopbackIsMeasuredAndNotAnsweredByAnybodyElse) {
  start();
  a->plan().loopback_interval = kSec;
  a->publish();
  run(20 * kSec);
  EXPECT_GE(a->record.loopback_rtt.snapshot().count, 18u);
  EXPECT_EQ(a->record.loopback_failures.get(), 0u);
  const std::lock_guard lock(fabric.mutex);
  fabric.fate = [](const Sending& sending) {
    Fate fate;
    fate.drop = sending.loopback();
    return fate;
  };
}

TEST_F(Echo, PeersThatLeaveAreForgottenAndTheirAddressesEnded) {
  start();
  run(5 * kSec);
  EXPECT_EQ(a_device->addresses, 9u);  // one a label, and the one of loopback
  a->plan().peers.clear();
  a->resolver.set_peers({});
  a->publish();
  run(5 * kSec);
  EXPECT_EQ(a_device->addresses, 1u);
}

TEST_F(Echo, ASlowerPathIsToldOnceTheUsualIsKnownAndAHostThatIsLateIsNot) {
  std::uint64_t latency = 20'000;
  Random random(3);
  fabric.fate = [&](const Sending&) {
    Fate fate;
    fate.latency = latency + random.below(2'000);
    return fate;
  };
  // Hardware timestamps, for the threads of a test are played once a millisecond.
  a_device->khz = 1'000'000;
  b_device->khz = 1'000'000;
  start();
  a->plan().interval = 100 * kMs;
  a->publish();
  run(300 * kSec);
  EXPECT_GT(pair->baseline.load(), 30e-6);
  EXPECT_LT(pair->baseline.load(), 60e-6);
  EXPECT_FALSE(pair->anomaly_shift.load());
  EXPECT_EQ(peer->counters->state.load(), PeerState::kOk);
  latency = 40'000;
  run(60 * kSec);
  EXPECT_TRUE(pair->anomaly_shift.load());
  EXPECT_EQ(peer->counters->state.load(), PeerState::kDegraded);
}

TEST_F(Echo, ClosingGivesEverythingBackAndOpeningGoesOn) {
  start();
  run(5 * kSec);
  const auto received = pair->received.get();
  a->close();
  EXPECT_EQ(a_device->open_contexts, 0u);
  EXPECT_EQ(a_device->addresses, 0u);
  EXPECT_EQ(peer->counters->state.load(), PeerState::kUnknown);
  a->open();
  run(5 * kSec);
  EXPECT_GE(pair->received.get(), received + 3);
}

TEST_F(Echo, AtMostEightAreOutstanding) {
  start();
  a->plan().interval = 20 * kMs;
  a->publish();
  b.reset();
  run(kSec);
  // The rest of the 50 in this second was not sent.
  EXPECT_LE(pair->sent.get(), 17u);
  EXPECT_GE(pair->skipped.get(), 20u);
  EXPECT_EQ(a->record.skipped.get(), pair->skipped.get());
}

}  // namespace
}  // namespace roce::probe::fake

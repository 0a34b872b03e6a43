// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "tests/unit/probes/host.h"

namespace roce::probe::fake {
namespace {

constexpr std::uint64_t kMs = 1'000'000, kSec = 1'000'000'000;

// An attacker who may send anything from any address, and a host that answers.
class Answer : public testing::Test {
 protected:
  Answer() {
    fabric.add("b0", "10.0.0.2");
    host = std::make_unique<Host>(fabric, directory, "b0", 8);
    fabric.fate = [this](const Sending& sending) {
      if (sending.from == *parse_gid("10.0.0.2")) {
        ++replies;
        last.assign(sending.payload.begin(), sending.payload.end());
        last_class = sending.traffic_class;
      }
      return Fate{};
    };
    signer = std::move(*Authenticator::create(std::vector<Key>{key_of(1)}));
  }
  Packet request() {
    Packet p;
    p.key_id = 1;
    p.epoch = 5;
    p.responder_epoch = 8;
    p.stream = 1;
    p.order = ++order;
    p.sequence = order;
    p.qkey = 77;
    return p;
  }
  std::vector<std::uint8_t> signed_bytes(const Packet& p, const Gid& sender) {
    std::vector<std::uint8_t> bytes(p.length);
    write_packet(p, bytes);
    (void)signer->sign(bytes, sender, to, fabric.realtime());
    return bytes;
  }
  void send(std::span<const std::uint8_t> bytes, const Gid& sender, std::uint8_t traffic_class = 2) {
    fabric.inject(sender, to, host->responder_queue->qpn(), 2222, traffic_class, bytes);
  }
  void turn(std::uint64_t ns = kMs) {
    fabric.advance(ns);
    (void)host->responder.step();
    while (host->helper.run_once()) {
    }
    (void)host->responder.step();
  }
  DeviceRecord& record() { return host->record; }

  Fabric fabric;
  Directory directory;
  std::unique_ptr<Host> host;
  std::unique_ptr<Authenticator> signer;
  const Gid from = *parse_gid("10.0.0.1"), to = *parse_gid("10.0.0.2");
  std::uint64_t order = 0, replies = 0;
  std::vector<std::uint8_t> last;
  std::uint8_t last_class = 0;
};

TEST_F(Answer, AGoodRequestIsAnsweredByOneReplyOfItsLength) {
  Packet p = request();
  p.length = 200;
  p.traffic_class = 26 << 2 | 2;
  send(signed_bytes(p, from), from, 26 << 2 | 3);
  turn();
  ASSERT_EQ(replies, 1u);
  EXPECT_EQ(last.size(), 200u);
  Packet reply;
  ASSERT_EQ(read_packet(last, reply), PacketFault::kNone);
  EXPECT_EQ(reply.kind, PacketKind::kReply);
  EXPECT_EQ(reply.sequence, p.sequence);
  EXPECT_EQ(reply.responder_epoch, 8u);
  EXPECT_EQ(reply.received_traffic_class, 26 << 2 | 3);
  EXPECT_EQ(last_class, 26 << 2 | 2);  // ECT(0), not the mark of the request
  EXPECT_TRUE(signer->verify(last, to, from, fabric.realtime()));
}

TEST_F(Answer, WhatIsNoRequestIsCountedAndNotAnswered) {
  const auto good = signed_bytes(request(), from);
  std::vector<std::vector<std::uint8_t>> bad;
  bad.emplace_back();
  bad.emplace_back(1, std::uint8_t{0});
  bad.emplace_back(good.begin(), good.end() - 1);
  bad.push_back(good);
  bad.back().push_back(0);
  bad.emplace_back(128, std::uint8_t{0xff});
  Packet p = request();
  p.kind = PacketKind::kReply;  // a reply sent back to a responder
  bad.push_back(signed_bytes(p, from));
  p.kind = PacketKind::kLoopback;
  bad.push_back(signed_bytes(p, from));
  for (const auto& bytes : bad) send(bytes, from);
  turn();
  EXPECT_EQ(replies, 0u);
  EXPECT_EQ(record().rejected_malformed.get(), bad.size());
}

TEST_F(Answer, OnlyAllowedSources) {
  host->responder_plan().allowed = {{*parse_gid("10.0.0.0"), 127}, {*parse_gid("fd00::"), 8}};  // 10.0.0.0 and .1
  host->responder_plan().peers = {*parse_gid("10.9.9.9")};
  host->publish_responder();
  for (const std::string who : {"10.0.0.1", "10.0.0.0", "fd12::1", "10.9.9.9"})
    send(signed_bytes(request(), *parse_gid(who)), *parse_gid(who));
  turn();
  EXPECT_EQ(replies, 4u);
  for (const std::string who : {"10.0.0.3", "10.0.1.1", "fc00::1", "10.9.9.8", "::"})
    send(signed_bytes(request(), *parse_gid(who)), *parse_gid(who));
  turn();
  EXPECT_EQ(replies, 4u);
  EXPECT_EQ(record().rejected_unknown.get(), 5u);
}

TEST_F(Answer, AnEmptyPlanAnswersNobody) {
  host->responder_plan().allowed.clear();
  host->publish_responder();
  send(signed_bytes(request(), from), from);
  turn();
  EXPECT_EQ(replies, 0u);
  EXPECT_EQ(record().rejected_unknown.get(), 1u);
}

TEST_F(Answer, ForgedOnesAreCountedAndNotAnswered) {
  auto bytes = signed_bytes(request(), from);
  bytes[120] ^= 1;
  send(bytes, from);
  send(signed_bytes(request(), from), *parse_gid("10.0.0.9"));  // signed for another source
  Packet p = request();
  p.key_id = 2;  // an unknown key
  send(signed_bytes(p, from), from);
  signer = std::move(*Authenticator::create(std::vector<Key>{key_of(1, 'z')}));  // another secret
  send(signed_bytes(request(), from), from);
  turn();
  EXPECT_EQ(replies, 0u);
  EXPECT_EQ(record().rejected_mac.get(), 4u);
  EXPECT_EQ(host->device().addresses, 0u);  // nothing was resolved for them
}

TEST_F(Answer, WithoutAKeyNobodyIsAnswered) {
  host->keys({});
  send(signed_bytes(request(), from), from);
  turn();
  EXPECT_EQ(replies, 0u);
  EXPECT_EQ(record().rejected_mac.get(), 1u);
}

TEST_F(Answer, ReplaysAreCountedAndNotAnswered) {
  const auto bytes = signed_bytes(request(), from);
  for (int i = 0; i < 5; ++i) send(bytes, from);
  turn();
  EXPECT_EQ(replies, 1u);
  EXPECT_EQ(record().rejected_replay.get(), 4u);
  // A hundred later ones, then the first again: too old to know, so refused.
  for (int i = 0; i < 100; ++i) {
    send(signed_bytes(request(), from), from);
    turn(50 * kMs);
  }
  EXPECT_EQ(replies, 101u);
  send(bytes, from);
  turn();
  EXPECT_EQ(replies, 101u);
  // What was recorded before this responder started.
  Packet p = request();
  p.responder_epoch = 7;
  send(signed_bytes(p, from), from);
  turn();
  EXPECT_EQ(replies, 101u);
  EXPECT_EQ(record().rejected_replay.get(), 6u);
  // A prober that restarts begins its count again under another epoch.
  p = request();
  p.epoch = 6;
  p.order = 1;
  send(signed_bytes(p, from), from);
  turn();
  EXPECT_EQ(replies, 102u);
}

TEST_F(Answer, AFloodOfOneSourceIsCutToItsRateAndOthersAreAnswered) {
  const Gid other = *parse_gid("10.0.0.7");
  std::uint64_t sent = 0;
  for (int tick = 0; tick < 1000; ++tick) {  // 10 s
    for (int i = 0; i < 20; ++i, ++sent) send(signed_bytes(request(), from), from);
    if (tick % 100 == 0) send(signed_bytes(request(), other), other);
    turn(10 * kMs);
  }
  EXPECT_LE(replies, 50u + 500u + 11u);
  EXPECT_GE(replies, 500u);
  EXPECT_EQ(record().rejected_rate.get(), sent + 10 - replies);
}

TEST_F(Answer, AFloodOfManySourcesIsCutToTheTotalRateAndNothingGrows) {
  host->responder_plan().total_rate = 200;
  host->publish_responder();
  std::uint64_t sent = 0;
  for (int tick = 0; tick < 500; ++tick) {  // 5 s
    for (int i = 0; i < 40; ++i, ++sent) {
      Gid who = from;
      who.raw[13] = static_cast<std::uint8_t>(i);
      who.raw[14] = static_cast<std::uint8_t>(tick);
      who.raw[15] = static_cast<std::uint8_t>(tick >> 8);
      Packet p = request();
      p.stream = static_cast<std::uint32_t>(sent);
      send(signed_bytes(p, who), who);
    }
    turn(10 * kMs);
  }
  EXPECT_LE(replies, 200u + 1000u + 1u);
  EXPECT_GE(record().rejected_rate.get() + replies, sent);
  // Those that were dropped live two seconds longer, for a reply may be on its way.
  EXPECT_LE(host->device().addresses, Responder::kAddresses + 2 * 200 + 40);
}

TEST_F(Answer, ManySourcesThatComeSlowlyLeaveABoundedNumberOfAddresses) {
  for (int i = 0; i < 5000; ++i) {
    Gid who = from;
    who.raw[14] = static_cast<std::uint8_t>(i >> 8);
    who.raw[15] = static_cast<std::uint8_t>(i);
    if (who == to) continue;
    Packet p = request();
    p.stream = static_cast<std::uint32_t>(i);
    send(signed_bytes(p, who), who);
    turn(100 * kMs);
  }
  EXPECT_GE(replies, 4900u);
  turn(5 * kSec);
  EXPECT_LE(host->device().addresses, Responder::kAddresses + 32);
}

TEST_F(Answer, AnAddressThatDoesNotResolveDelaysNobodyElse) {
  const Gid gone = *parse_gid("10.0.0.66");
  fabric.dead.insert(gone);
  send(signed_bytes(request(), gone), gone);
  send(signed_bytes(request(), from), from);
  turn();
  EXPECT_EQ(replies, 1u);
  // It is not tried for each request of it.
  for (int i = 0; i < 20; ++i) {
    send(signed_bytes(request(), gone), gone);
    turn();
  }
  EXPECT_EQ(replies, 1u);
  fabric.dead.clear();
  turn(6 * kSec);
  send(signed_bytes(request(), gone), gone);
  turn();
  EXPECT_EQ(replies, 2u);
}

TEST_F(Answer, AWrongQueueKeyNeverArrives) {
  fabric.inject(from, to, host->responder_queue->qpn(), 2223, 2, signed_bytes(request(), from));
  turn();
  EXPECT_EQ(replies, 0u);
  EXPECT_EQ(record().requests.get() + record().rejected_mac.get() + record().rejected_malformed.get(), 0u);
}

TEST_F(Answer, ABrokenQueueIsRepairedUnderTheSameNumber) {
  const auto qpn = host->responder_queue->qpn();
  bool once = true;
  fabric.fate = [&](const Sending&) {
    Fate fate;
    ++replies;
    if (std::exchange(once, false)) fate.send_status = 2;
    return fate;
  };
  send(signed_bytes(request(), from), from);
  turn();
  turn();
  turn();
  EXPECT_EQ(record().responder_repairs.get(), 1u);
  EXPECT_EQ(host->responder_queue->qpn(), qpn);
  for (int i = 0; i < 1000; ++i) {  // more than there are slots: none was lost
    send(signed_bytes(request(), from), from);
    turn(30 * kMs);
  }
  EXPECT_EQ(replies, 1001u);
}

TEST_F(Answer, ARotatedKeyIsTakenWithoutAPause) {
  host->keys({key_of(2, 'n'), key_of(1)});
  send(signed_bytes(request(), from), from);
  turn();
  signer = std::move(*Authenticator::create(std::vector<Key>{key_of(2, 'n')}));
  Packet p = request();
  p.key_id = 2;
  send(signed_bytes(p, from), from);
  turn();
  EXPECT_EQ(replies, 2u);
  host->keys({key_of(2, 'n')});
  signer = std::move(*Authenticator::create(std::vector<Key>{key_of(1)}));
  send(signed_bytes(request(), from), from);
  turn();
  EXPECT_EQ(replies, 2u);
}

// What may come to the port of the responder from whoever reaches the fabric, and the answer that
// packaging/docs/probes.md gives to it.
TEST_F(Answer, EachHostilePacketIsCountedUnderItsReasonAndNotAnswered) {
  using Bytes = std::vector<std::uint8_t>;
  enum Outcome { kMalformed, kUnknown, kRate, kMac, kReplay, kAnswered };
  const Gid stranger = *parse_gid("192.0.2.1"), peer = *parse_gid("10.0.0.7");
  constexpr std::size_t kSlot = 256;
  const auto raw = [](std::string_view text, std::size_t length) {
    Bytes out(text.begin(), text.end());
    out.resize(length, std::uint8_t{0});
    return out;
  };
  // A packet that was right before a byte of it was set to another value; what signs is free of that.
  const auto changed = [this](std::size_t at, std::uint8_t value) {
    Bytes out = signed_bytes(request(), from);
    out[at] = value;
    return out;
  };
  // The same by one who has the key.
  const auto forged = [this](std::size_t at, std::uint8_t value) {
    Bytes out(kPacketBytes);
    write_packet(request(), out);
    out[at] = value;
    (void)signer->sign(out, from, to, fabric.realtime());
    return out;
  };
  const auto with = [this](auto change) {
    Packet p = request();
    change(p);
    return signed_bytes(p, from);
  };
  const auto sized = [this](std::size_t length) {
    Bytes out = signed_bytes(request(), from);
    out.resize(length, std::uint8_t{0});
    return out;
  };
  const auto by = [this](const Key& key, const Gid& sender, const Gid& receiver) {
    Packet p = request();
    p.key_id = key.id;
    Bytes out(p.length);
    write_packet(p, out);
    (void)(*Authenticator::create(std::vector<Key>{key}))->sign(out, sender, receiver, fabric.realtime());
    return out;
  };
  struct Input {
    const char* what;
    std::function<Bytes()> bytes;
    Outcome outcome;
    Gid sender;
  };
  const std::vector<Input> inputs{
      {"nothing", [&] { return Bytes(); }, kMalformed, from},
      {"one byte", [&] { return Bytes(1); }, kMalformed, from},
      {"one byte too few", [&] { return sized(kPacketBytes - 1); }, kMalformed, from},
      {"one byte too many", [&] { return sized(kPacketBytes + 1); }, kMalformed, from},
      {"as long as a slot, and shorter by its own word", [&] { return sized(kSlot); }, kMalformed, from},
      {"more than a slot has", [&] { return sized(kSlot + 1); }, kMalformed, from},
      {"a signed packet as long as a slot, and more behind it",
       [&] {
         Bytes out = with([](Packet& p) { p.length = kSlot; });
         out.resize(4096);
         return out;
       },
       kMalformed, from},
      {"a length of 0", [&] { return forged(9, 0); }, kMalformed, from},
      {"a length of 65535", [&] { return changed(8, 0xff); }, kMalformed, from},
      {"a longer reply asked for than was sent", [&] { return forged(8, 0x10); }, kMalformed, from},
      {"zeros", [&] { return Bytes(kPacketBytes); }, kMalformed, from},
      {"ones", [&] { return Bytes(kPacketBytes, 0xff); }, kMalformed, from},
      {"HTTP", [&] { return raw("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", kPacketBytes); }, kMalformed, from},
      {"a management datagram", [&] { return raw("\x01\x01\x01\x01", 256); }, kMalformed, from},
      {"a line of a log", [&] { return raw("\r\nlevel=error msg=forged \x1b[31m", kPacketBytes); }, kMalformed, from},
      {"another magic", [&] { return forged(0, 0x53); }, kMalformed, from},
      {"the magic the other way round", [&] { return raw("bPoR\x01\x01", kPacketBytes); }, kMalformed, from},
      {"version 0", [&] { return forged(4, 0); }, kMalformed, from},
      {"version 2", [&] { return forged(4, 2); }, kMalformed, from},
      {"kind 0", [&] { return forged(5, 0); }, kMalformed, from},
      {"a reply", [&] { return forged(5, 2); }, kMalformed, from},
      {"a loopback probe", [&] { return forged(5, 3); }, kMalformed, from},
      {"kind 4", [&] { return forged(5, 4); }, kMalformed, from},
      {"kind 255", [&] { return forged(5, 255); }, kMalformed, from},
      {"a flag that there is not", [&] { return forged(6, 0x10); }, kMalformed, from},
      {"all flags", [&] { return forged(6, 0xff); }, kMalformed, from},
      {"something where zeros belong", [&] { return forged(75, 1); }, kMalformed, from},
      {"a flow label of 21 bits", [&] { return with([](Packet& p) { p.flow_label = 0x100000; }); }, kMalformed, from},
      {"a flow label of 32 bits", [&] { return with([](Packet& p) { p.flow_label = ~0U; }); }, kMalformed, from},
      {"service level 16", [&] { return forged(11, 16); }, kMalformed, from},
      {"service level 255", [&] { return forged(11, 255); }, kMalformed, from},
      {"a stranger with the key", [&] { return by(key_of(1), stranger, to); }, kUnknown, stranger},
      {"a stranger without", [&] { return Bytes(signed_bytes(request(), from)); }, kUnknown, stranger},
      {"from the unspecified address", [&] { return by(key_of(1), Gid{}, to); }, kUnknown, Gid{}},
      {"from a multicast address", [&] { return by(key_of(1), *parse_gid("ff0e::1"), to); }, kUnknown,
       *parse_gid("ff0e::1")},
      {"from a link-local address", [&] { return by(key_of(1), *parse_gid("fe80::1"), to); }, kUnknown,
       *parse_gid("fe80::1")},
      {"from 127.0.0.1", [&] { return by(key_of(1), *parse_gid("127.0.0.1"), to); }, kUnknown, *parse_gid("127.0.0.1")},
      {"no code",
       [&] {
         Bytes out(kPacketBytes);
         write_packet(request(), out);
         return out;
       },
       kMac, from},
      {"the first bit of the code",
       [&] {
         Bytes out = signed_bytes(request(), from);
         out[kMacOffset] ^= 0x80;
         return out;
       },
       kMac, from},
      {"the last bit of the code",
       [&] {
         Bytes out = signed_bytes(request(), from);
         out.back() ^= 1;
         return out;
       },
       kMac, from},
      {"the code of another packet",
       [&] {
         Bytes out = signed_bytes(request(), from);
         const Bytes other = signed_bytes(request(), from);
         std::copy(other.end() - kMacBytes, other.end(), out.end() - kMacBytes);
         return out;
       },
       kMac, from},
      {"another sequence than was signed", [&] { return changed(23, 0xee); }, kMac, from},
      {"another order than was signed", [&] { return changed(32, 0xee); }, kMac, from},
      {"another stream than was signed", [&] { return changed(28, 0xee); }, kMac, from},
      {"another epoch than was signed", [&] { return changed(12, 0xee); }, kMac, from},
      {"another class of service than was signed", [&] { return changed(10, 0xe0); }, kMac, from},
      {"another queue key for the reply than was signed", [&] { return changed(80, 0xee); }, kMac, from},
      {"another flow label than was signed", [&] { return changed(67, 0xee); }, kMac, from},
      {"another epoch of the responder than was signed", [&] { return changed(27, 7); }, kMac, from},
      {"signed for another sender", [&] { return by(key_of(1), peer, to); }, kMac, from},
      {"a peer's packet, sent on by another", [&] { return signed_bytes(request(), from); }, kMac, peer},
      {"signed for another receiver", [&] { return by(key_of(1), from, peer); }, kMac, from},
      {"an unknown key", [&] { return by(key_of(2), from, to); }, kMac, from},
      {"key 0", [&] { return by(key_of(0), from, to); }, kMac, from},
      {"key 255", [&] { return by(key_of(255), from, to); }, kMac, from},
      {"the key's number with another secret", [&] { return by(key_of(1, 'z'), from, to); }, kMac, from},
      {"a pattern with another sum", [&] { return forged(6, kFlagPattern); }, kMac, from},
      {"recorded before this program started", [&] { return with([](Packet& p) { p.responder_epoch = 7; }); }, kReplay,
       from},
      {"no epoch of this program", [&] { return with([](Packet& p) { p.responder_epoch = 0; }); }, kReplay, from},
      {"from the future of this program", [&] { return with([](Packet& p) { p.responder_epoch = ~0U; }); }, kReplay,
       from},
      {"an order that was there", [&] { return with([](Packet& p) { p.order = 1; }); }, kReplay, from},
      {"order 0", [&] { return with([](Packet& p) { p.order = 0; }); }, kReplay, from},
      {"the longest that a slot takes", [&] { return with([](Packet& p) { p.length = kSlot; }); }, kAnswered, from},
      {"with all fields at their top",
       [&] {
         return with([](Packet& p) {
           p.sequence = p.delay = p.report_sequence = p.report_delay = ~std::uint64_t{0};
           p.flow_label = 0xfffff;
           p.sl = 15;
           p.traffic_class = p.label = p.hop_limit = p.status = p.load = 0xff;
           p.qkey = ~0U;
         });
       },
       kAnswered, from},
  };
  EXPECT_GE(inputs.size(), 40u);

  send(signed_bytes(request(), from), from);  // order 1, of which a replay is told
  turn();
  ASSERT_EQ(replies, 1u);
  const auto counts = [&] {
    return std::array{record().rejected_malformed.get(), record().rejected_unknown.get(), record().rejected_rate.get(),
                      record().rejected_mac.get(),       record().rejected_replay.get(),  replies};
  };
  for (const Input& input : inputs) {
    SCOPED_TRACE(input.what);
    auto expected = counts();
    const auto addresses = host->device().addresses;
    const Bytes bytes = input.bytes();
    send(bytes, input.sender);
    turn(kSec);  // within the rate of a source
    ++expected[input.outcome];
    EXPECT_EQ(counts(), expected);
    if (input.outcome == kAnswered)
      EXPECT_EQ(last.size(), bytes.size());
    else
      EXPECT_EQ(host->device().addresses, addresses);  // nothing was resolved for it
    // And the next good one is answered.
    ++expected[kAnswered];
    send(signed_bytes(request(), from), from);
    turn(kSec);
    EXPECT_EQ(counts(), expected);
  }
}

}  // namespace
}  // namespace roce::probe::fake

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "probes/engine.h"
#include "probes/schedule/schedule.h"
#include "probes/wire/authenticator.h"
#include "probes/wire/packet.h"
#include "probes/wire/replay_window.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSec = 1'000'000'000;

Packet sample() {
  Packet p;
  p.kind = PacketKind::kReply;
  p.flags = kFlagReport | kFlagPattern;
  p.key_id = 3;
  p.length = 200;
  p.traffic_class = 0x6a;
  p.sl = 3;
  p.epoch = 0x01020304;
  p.sequence = 0x1112131415161718;
  p.responder_epoch = 0x21222324;
  p.stream = 0x31323334;
  p.order = 0x4142434445464748;
  p.delay = 0x5152535455565758;
  p.report_sequence = 0x6162636465666768;
  p.report_delay = 0x7172737475767778;
  p.flow_label = 0xabcde;
  p.label = 5;
  p.hop_limit = 64;
  p.received_traffic_class = 0x6b;
  p.received_hop_limit = 61;
  p.status = 1;
  p.load = 2;
  p.qkey = 0x0a0b0c0d;
  return p;
}

TEST(Packet, FieldsAreWhereTheFormatSaysInBigEndian) {
  std::array<std::uint8_t, 256> bytes{};
  write_packet(sample(), bytes);
  const std::vector<std::uint8_t> begin = {'R', 'o', 'P', 'b', 1, 2, 9, 3, 0, 200, 0x6a, 3, 1, 2, 3, 4, 0x11, 0x12};
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), bytes.begin()));
  EXPECT_EQ(bytes[32], 0x41);
  EXPECT_EQ(bytes[64], 0);
  EXPECT_EQ(bytes[65], 0x0a);
  EXPECT_EQ(bytes[80], 0x0a);
  EXPECT_EQ(bytes[200], 0);  // nothing behind its length
}

TEST(Packet, WhatWasWrittenIsRead) {
  std::array<std::uint8_t, 256> bytes{};
  const Packet in = sample();
  write_packet(in, bytes);
  Packet out;
  ASSERT_EQ(read_packet(std::span(bytes).first(200), out), PacketFault::kNone);
  EXPECT_EQ(out.kind, in.kind);
  EXPECT_EQ(out.flags, in.flags);
  EXPECT_EQ(out.sequence, in.sequence);
  EXPECT_EQ(out.order, in.order);
  EXPECT_EQ(out.delay, in.delay);
  EXPECT_EQ(out.report_sequence, in.report_sequence);
  EXPECT_EQ(out.report_delay, in.report_delay);
  EXPECT_EQ(out.flow_label, in.flow_label);
  EXPECT_EQ(out.qkey, in.qkey);
  EXPECT_EQ(out.stream, in.stream);
  EXPECT_EQ(out.responder_epoch, in.responder_epoch);
  EXPECT_EQ(out.received_hop_limit, in.received_hop_limit);
}

TEST(Packet, AnythingElseIsRefused) {
  std::array<std::uint8_t, 256> good{};
  write_packet(sample(), good);
  Packet out;
  EXPECT_EQ(read_packet(std::span(good).first(199), out), PacketFault::kLength);
  EXPECT_EQ(read_packet(std::span(good).first(201), out), PacketFault::kLength);
  EXPECT_EQ(read_packet(std::span(good).first(127), out), PacketFault::kLength);
  EXPECT_EQ(read_packet({}, out), PacketFault::kLength);
  for (std::size_t at = 0; at < 5; ++at) {
    auto bad = good;
    bad[at] ^= 1;
    EXPECT_EQ(read_packet(std::span(bad).first(200), out), PacketFault::kMagic) << at;
  }
  for (const auto& [at, value] : std::vector<std::pair<std::size_t, std::uint8_t>>{
           {5, 0}, {5, 4}, {6, 0x10}, {11, 16}, {64, 1}, {65, 0x10}, {74, 1}}) {
    auto bad = good;
    bad[at] = value;
    EXPECT_EQ(read_packet(std::span(bad).first(200), out), PacketFault::kKind) << at;
  }
}

TEST(Packet, EachByteOfThePatternIsCovered) {
  std::array<std::uint8_t, 200> bytes{};
  write_packet(sample(), bytes);
  Packet out;
  ASSERT_EQ(read_packet(bytes, out), PacketFault::kNone);
  ASSERT_TRUE(pattern_intact(out, bytes));
  for (std::size_t at = 84; at < 200; ++at) {
    if (at >= 112 && at < 128) continue;  // the code
    auto bad = bytes;
    bad[at] ^= 0x80;
    EXPECT_FALSE(pattern_intact(out, bad)) << at;
  }
}

TEST(Crc32c, KnownValues) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(digits.data()), digits.size()}), 0xe3069283u);
  const std::array<std::uint8_t, 32> zeros{};
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::span(zeros).subspan(10), crc32c(std::span(zeros).first(10))), 0x8a9136aau);
}

TEST(Header, Ipv4InTheLastTwentyBytes) {
  std::array<std::uint8_t, 40> grh{};
  const std::array<std::uint8_t, 20> ip = {0x45, 0x6b, 0,  0xa0, 0, 0, 0x40, 0,  62, 17,
                                           0,    0,    10, 77,   0, 1, 10,   77, 0,  2};
  std::copy(ip.begin(), ip.end(), grh.begin() + 20);
  const auto header = read_header(grh);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->traffic_class, 0x6b);
  EXPECT_EQ(header->hop_limit, 62);
  EXPECT_EQ(to_text(Gid{header->source}), "0000:0000:0000:0000:0000:ffff:0a4d:0001");
  EXPECT_EQ(to_text(Gid{header->destination}), "0000:0000:0000:0000:0000:ffff:0a4d:0002");
  // What is in front of it may be anything; what looks like IPv6 there is not, while the check sum fits.
  grh[0] = 0x60;
  EXPECT_FALSE(read_header(grh)->source == header->source);
  std::uint32_t sum = 0;
  for (std::size_t i = 20; i < 40; i += 2) sum += static_cast<std::uint32_t>(grh[i] << 8 | grh[i + 1]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  grh[30] = static_cast<std::uint8_t>(~sum >> 8);
  grh[31] = static_cast<std::uint8_t>(~sum);
  ASSERT_TRUE(read_header(grh));
  EXPECT_EQ(read_header(grh)->source, header->source);
  grh[20] = 0x46;  // options, which no such packet has
  grh[0] = 0;
  EXPECT_FALSE(read_header(grh));
}

TEST(Header, Ipv6InAllForty) {
  std::array<std::uint8_t, 40> grh{};
  grh[0] = 0x66;
  grh[1] = 0xb0;
  grh[6] = 17;
  grh[7] = 60;
  const Gid from = *parse_gid("fd00::1"), to = *parse_gid("fd00::2");
  std::copy(from.raw.begin(), from.raw.end(), grh.begin() + 8);
  std::copy(to.raw.begin(), to.raw.end(), grh.begin() + 24);
  const auto header = read_header(grh);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->traffic_class, 0x6b);
  EXPECT_EQ(header->hop_limit, 60);
  EXPECT_EQ(header->source, from.raw);
  EXPECT_EQ(header->destination, to.raw);
  EXPECT_FALSE(read_header(std::span(grh).first(39)));
  EXPECT_FALSE(read_header(std::array<std::uint8_t, 40>{}));
}

TEST(Gids, Texts) {
  EXPECT_EQ(to_text(*parse_gid("10.77.0.1")), "0000:0000:0000:0000:0000:ffff:0a4d:0001");
  EXPECT_EQ(*parse_gid("::ffff:10.77.0.1"), *parse_gid("10.77.0.1"));
  EXPECT_EQ(*parse_gid(to_text(*parse_gid("fe80::1"))), *parse_gid("fe80::1"));
  for (const std::string bad : {"", "10.77.0", "x", "fe80::1::2", "fe80::1%eth0", "1:2:3:4:5:6:7:8:9"})
    EXPECT_FALSE(parse_gid(bad)) << bad;
  EXPECT_FALSE(parse_gid(std::string(1000, '1')));
  EXPECT_FALSE(parse_gid(std::string("10.0.0.1\0x", 10)));
}

Key key_of(std::uint8_t id, char fill, std::chrono::system_clock::time_point until) {
  Key key;
  key.id = id;
  key.secret.assign(32, static_cast<std::uint8_t>(fill));
  key.not_after = until;
  return key;
}

class Mac : public testing::Test {
 protected:
  static std::chrono::system_clock::time_point at(std::uint64_t seconds) {
    return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
  }
  std::array<std::uint8_t, 200> packet(std::uint8_t key) {
    Packet p = sample();
    p.key_id = key;
    std::array<std::uint8_t, 200> bytes{};
    write_packet(p, bytes);
    return bytes;
  }
  const Gid a = *parse_gid("10.0.0.1"), b = *parse_gid("10.0.0.2");
};

TEST_F(Mac, CoversEachByteAndBothAddresses) {
  const std::vector<Key> keys = {key_of(1, 'a', at(2000))};
  const auto mac = std::move(*Authenticator::create(keys));
  auto bytes = packet(1);
  ASSERT_TRUE(mac->sign(bytes, a, b, 1000 * kSec));
  EXPECT_TRUE(mac->verify(bytes, a, b, 1000 * kSec));
  EXPECT_FALSE(mac->verify(bytes, b, a, 1000 * kSec));
  EXPECT_FALSE(mac->verify(bytes, a, a, 1000 * kSec));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const std::uint8_t flip : {std::uint8_t{0x01}, std::uint8_t{0x80}}) {
      auto bad = bytes;
      bad[i] = static_cast<std::uint8_t>(bad[i] ^ flip);
      EXPECT_FALSE(mac->verify(bad, a, b, 1000 * kSec)) << i;
    }
  EXPECT_FALSE(mac->verify(std::span(bytes).first(127), a, b, 1000 * kSec));
}

// RFC 4231, test case 2, says that HMAC-SHA-256 is what it should be; here the same of a packet, from an independent
// implementation (Python's hmac).
TEST_F(Mac, IsHmacSha256CutToSixteenBytes) {
  Key key = key_of(7, 'x', at(2000));
  for (std::size_t i = 0; i < key.secret.size(); ++i) key.secret[i] = static_cast<std::uint8_t>(i);
  const auto mac = std::move(*Authenticator::create({&key, 1}));
  Packet p;
  p.key_id = 7;
  std::array<std::uint8_t, 128> bytes{};
  write_packet(p, bytes);
  ASSERT_TRUE(mac->sign(bytes, a, b, kSec));
  const std::array<std::uint8_t, 16> expected = {0x69, 0x2e, 0xdd, 0x69, 0xa5, 0xf3, 0xf4, 0x81,
                                                 0x92, 0xd0, 0xcb, 0x65, 0x76, 0x80, 0x62, 0x36};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), bytes.begin() + 112));
}

TEST_F(Mac, TheFirstKeyInForceSignsAndBothAreTaken) {
  const std::vector<Key> keys = {key_of(1, 'a', at(1500)), key_of(2, 'b', at(3000)), key_of(3, 'c', at(9000))};
  const auto mac = std::move(*Authenticator::create(keys));
  EXPECT_EQ(mac->signing_key(1000 * kSec), 1);
  EXPECT_EQ(mac->signing_key(1500 * kSec), 1);
  EXPECT_EQ(mac->signing_key(1501 * kSec), 2);
  EXPECT_EQ(mac->signing_key(3001 * kSec), -1);  // a third one is never in force
  auto old = packet(1), fresh = packet(2), third = packet(3);
  ASSERT_TRUE(mac->sign(old, a, b, 1000 * kSec));
  ASSERT_TRUE(mac->sign(fresh, a, b, 1000 * kSec));
  EXPECT_FALSE(mac->sign(third, a, b, 1000 * kSec));
  EXPECT_TRUE(mac->verify(old, a, b, 1000 * kSec));
  EXPECT_TRUE(mac->verify(fresh, a, b, 1000 * kSec));
  // Expired: neither signs nor is taken.
  EXPECT_FALSE(mac->verify(old, a, b, 1501 * kSec));
  EXPECT_FALSE(mac->sign(old, a, b, 1501 * kSec));
  EXPECT_TRUE(mac->verify(fresh, a, b, 1501 * kSec));
}

TEST_F(Mac, AnotherSecretUnderTheSameIdIsRefused) {
  const std::vector<Key> mine = {key_of(1, 'a', at(2000))}, theirs = {key_of(1, 'b', at(2000))};
  const auto left = std::move(*Authenticator::create(mine)), right = std::move(*Authenticator::create(theirs));
  auto bytes = packet(1);
  ASSERT_TRUE(left->sign(bytes, a, b, kSec));
  EXPECT_FALSE(right->verify(bytes, a, b, kSec));
}

TEST_F(Mac, AShortSecretIsRefusedWithItsLength) {
  Key key = key_of(9, 'a', at(2000));
  key.secret.resize(15);
  const auto made = Authenticator::create({&key, 1});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().object, "key 9: secret of 15 bytes, at least 16 are needed");
}

TEST(ReplayWindow, EachOfTheLastSixtyFourOnce) {
  ReplayWindow window;
  EXPECT_TRUE(window.accept(1000));
  EXPECT_FALSE(window.accept(1000));
  for (std::uint64_t n = 937; n < 1000; ++n) EXPECT_TRUE(window.accept(n)) << n;
  for (std::uint64_t n = 937; n <= 1000; ++n) EXPECT_FALSE(window.accept(n)) << n;
  EXPECT_FALSE(window.accept(936));
  EXPECT_TRUE(window.accept(1001));
  EXPECT_TRUE(window.accept(1064));
  EXPECT_TRUE(window.accept(1063));
  EXPECT_FALSE(window.accept(1001));
  EXPECT_TRUE(window.accept(1'000'000));
  EXPECT_FALSE(window.accept(1064));
  EXPECT_TRUE(window.accept(999'937));
  EXPECT_FALSE(window.accept(999'936));
}

TEST(Schedule, IsAbsoluteAndJitteredByAQuarter) {
  JitteredSchedule schedule(42);
  const std::uint64_t begin = 5 * kSec, period = kSec;
  schedule.start(begin, period);
  EXPECT_GE(schedule.due(), begin);
  std::uint64_t first = 0, previous = schedule.due();
  std::set<std::uint64_t> offsets;
  std::uint64_t low = ~0ULL, high = 0;
  for (int n = 1; n <= 1000; ++n) {
    EXPECT_EQ(schedule.advance(schedule.due()), 0u);
    const std::uint64_t due = schedule.due();
    EXPECT_GE(due - previous, period / 2);
    EXPECT_LE(due - previous, period * 3 / 2);
    previous = due;
    const std::uint64_t offset = due - static_cast<std::uint64_t>(n) * period;
    if (first == 0) first = offset;
    low = std::min(low, offset);
    high = std::max(high, offset);
    offsets.insert(offset);
  }
  // A thousand probes later it is still within half a period of where it began: nothing adds up.
  EXPECT_LE(high - low, period / 2);
  EXPECT_GE(high - low, period * 45 / 100);
  EXPECT_GT(offsets.size(), 990u);
}

TEST(Schedule, LostIntervalsAreTold) {
  JitteredSchedule schedule(1);
  schedule.start(0, kSec);
  const std::uint64_t due = schedule.due();
  EXPECT_EQ(schedule.advance(due + kSec / 10), 0u);
  const std::uint64_t lost = schedule.advance(due + 10 * kSec);
  EXPECT_GE(lost, 7u);
  EXPECT_LE(lost, 10u);
  EXPECT_GT(schedule.due() + kSec, due + 10 * kSec);
}

TEST(Bucket, TakesTheRateAndNoMore) {
  std::uint64_t now = 0;
  TokenBucket bucket(50, 50, now);
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += bucket.take(now) ? 1 : 0;
  EXPECT_EQ(taken, 50);
  for (; now < 10 * kSec; now += 1'000'000) taken += bucket.take(now) ? 1 : 0;
  EXPECT_GE(taken, 50 + 495);
  EXPECT_LE(taken, 50 + 500);
}

TEST(ThrottleOf, HalvesAfterTenBadSecondsAndComesBack) {
  Throttle throttle;
  std::uint64_t now = 0;
  const auto play = [&](std::uint64_t seconds, std::uint64_t lag) {
    for (std::uint64_t t = 0; t < seconds * 10; ++t, now += kSec / 10) (void)throttle.observe(now, lag);
  };
  play(9, 20'000'000);
  EXPECT_EQ(throttle.share(), 1.0);
  play(2, 20'000'000);
  EXPECT_EQ(throttle.share(), 0.5);
  play(100, 20'000'000);
  EXPECT_EQ(throttle.share(), 0.125);  // never less
  play(59, 1000);
  EXPECT_EQ(throttle.share(), 0.125);
  play(3, 1000);
  EXPECT_EQ(throttle.share(), 0.25);
  play(200, 1000);
  EXPECT_EQ(throttle.share(), 1.0);
  // A single good wake-up starts the count again.
  for (int i = 0; i < 50; ++i) {
    play(9, 20'000'000);
    play(1, 1000);
  }
  EXPECT_EQ(throttle.share(), 1.0);
}

TEST(Budget, StretchesTheIntervalAndIsCapped) {
  EXPECT_EQ(stretched_interval(kSec, 16, 16), kSec);
  EXPECT_EQ(stretched_interval(kSec, 16, 8), kSec);
  EXPECT_EQ(stretched_interval(kSec, 16, 64), 4 * kSec);
  EXPECT_EQ(stretched_interval(kSec, 1e9, 2000), 10 * kSec);  // 200 a second at most
  EXPECT_EQ(stretched_interval(1, 1e9, 1), 5'000'000u);
  EXPECT_EQ(stretched_interval(kSec, 0, 1), 10 * kSec);
  EXPECT_EQ(stretched_interval(kSec, -1, 1), 10 * kSec);
  EXPECT_EQ(stretched_interval(kSec, std::numeric_limits<double>::quiet_NaN(), 1), 10 * kSec);
}

}  // namespace
}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_messages.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <limits>
#include <memory>
#include <random>
#include <set>

#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using namespace rdma_abi;
using made::Attributes;
using made::ByteVector;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::IsEmpty;

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

Attributes counter(std::string_view name, std::uint64_t value) {
  return Attributes().text(kStatHwcounterName, name).padding().u64(kStatHwcounterValue, value);
}

Attributes counters(std::initializer_list<std::pair<std::string_view, std::uint64_t>> all, bool flag = false) {
  Attributes table;
  for (const auto& [name, value] : all) table.nest(kStatHwcounterEntry, counter(name, value), flag);
  return table;
}

MATCHER_P2(Counter, name, value, "") { return arg.name == name && arg.value == std::uint64_t{value}; }

template <class T>
ErrorKind kind(const Result<T>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? ErrorKind::kIo : result.error().kind;
}

TEST(RdmaMessages, NumbersAreThoseOfTheKernel) {
  EXPECT_EQ(message_type(Command::kStatGet), 0x1411);
  EXPECT_EQ(message_type(Command::kGet), 0x1401);
}

TEST(RdmaDeviceMessage, AllFields) {
  const auto device = parse_rdma_device(Attributes()
                                            .u32(kDevIndex, 7)
                                            .text(kDevName, "mlx5_0")
                                            .u32(kPortIndex, 2)
                                            .padding()
                                            .u64(4, 0x1234)
                                            .text(kFwVersion, "28.40.1000")
                                            .u64(kNodeGuid, 0x020000fffe000028)
                                            .u64(kSysImageGuid, kMax64)
                                            .u8(14, 1)
                                            .text(kDevProtocol, "roce")
                                            .bytes());
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_EQ(device->index, 7U);
  EXPECT_EQ(device->name, "mlx5_0");
  EXPECT_EQ(device->port_count, 2U);
  EXPECT_EQ(device->firmware, "28.40.1000");
  EXPECT_EQ(device->node_guid, 0x020000fffe000028U);
  EXPECT_EQ(device->sys_image_guid, kMax64);
  EXPECT_EQ(device->protocol, "roce");
}

TEST(RdmaDeviceMessage, OrderDoesNotMatterAndUnknownAttributesArePassedOver) {
  const auto device = parse_rdma_device(
      Attributes().text(2000, "later kernel").text(kDevName, "rxe0").u32(3000, 1).u32(kDevIndex, 0).bytes());
  ASSERT_TRUE(device);
  EXPECT_EQ(device->index, 0U);
  EXPECT_EQ(device->name, "rxe0");
  EXPECT_EQ(device->protocol, "");
}

TEST(RdmaDeviceMessage, NeedsIndexAndName) {
  EXPECT_EQ(kind(parse_rdma_device(Attributes().u32(kDevIndex, 1).bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(kind(parse_rdma_device(Attributes().text(kDevName, "a").bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(kind(parse_rdma_device(Attributes().u32(kDevIndex, 1).text(kDevName, "").bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(kind(parse_rdma_device({})), ErrorKind::kMalformed);
}

TEST(RdmaDeviceMessage, TextWithoutNulEndsWithTheAttribute) {
  const auto device = parse_rdma_device(Attributes().u32(kDevIndex, 1).raw(kDevName, "abcd", 3).bytes());
  ASSERT_TRUE(device);
  EXPECT_EQ(device->name, "abc");
}

TEST(RdmaPortMessage, StateAndNetdev) {
  const auto port = parse_rdma_port(Attributes()
                                        .u32(kDevIndex, 7)
                                        .text(kDevName, "mlx5_0")
                                        .u32(kPortIndex, 3)
                                        .u8(kPortState, 4)
                                        .u8(kPortPhysState, 5)
                                        .u32(kNdevIndex, 12)
                                        .text(kNdevName, "eth0")
                                        .bytes());
  ASSERT_TRUE(port);
  EXPECT_EQ(port->port, 3U);
  EXPECT_EQ(port->state, 4U);
  EXPECT_EQ(port->physical_state, 5U);
  EXPECT_EQ(port->netdev, "eth0");
  EXPECT_EQ(port->netdev_index, 12U);
}

TEST(RdmaPortMessage, StateIsAbsentRatherThanZero) {
  const auto port = parse_rdma_port(Attributes().u32(kPortIndex, 1).bytes());
  ASSERT_TRUE(port);
  EXPECT_EQ(port->state, std::nullopt);
  EXPECT_EQ(port->physical_state, std::nullopt);
  EXPECT_EQ(port->netdev, "");
  EXPECT_EQ(kind(parse_rdma_port(Attributes().u8(kPortState, 4).bytes())), ErrorKind::kMalformed);
}

TEST(RdmaCounters, ExactValuesInTheKernelsOrder) {
  for (const bool flag : {false, true}) {
    const auto table = counters({{"np_cnp_sent", kMax64}, {"a", 0}, {"rx_write_requests", (1ULL << 53) + 1}}, flag);
    const auto all = parse_rdma_counters(
        Attributes().u32(kDevIndex, 7).u32(kPortIndex, 1).nest(kStatHwcounters, table, flag).bytes());
    ASSERT_TRUE(all);
    EXPECT_THAT(*all, ElementsAre(Counter("np_cnp_sent", kMax64), Counter("a", 0U),
                                  Counter("rx_write_requests", (1ULL << 53) + 1)));
  }
}

TEST(RdmaCounters, ValueBeforeName) {
  const Attributes entry = Attributes().u64(kStatHwcounterValue, 9).text(kStatHwcounterName, "x");
  const auto all =
      parse_rdma_counters(Attributes().nest(kStatHwcounters, Attributes().nest(kStatHwcounterEntry, entry)).bytes());
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(Counter("x", 9U)));
}

TEST(RdmaCounters, OfADuplicateTheFirstStands) {
  const auto all =
      parse_rdma_counters(Attributes().nest(kStatHwcounters, counters({{"a", 1}, {"b", 2}, {"a", 3}})).bytes());
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(Counter("a", 1U), Counter("b", 2U)));
}

TEST(RdmaCounters, EmptyTableIsNoCounterAndNoTableIsMalformed) {
  const auto none = parse_rdma_counters(Attributes().nest(kStatHwcounters, Attributes()).bytes());
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_EQ(kind(parse_rdma_counters(Attributes().u32(kDevIndex, 7).bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(kind(parse_rdma_counters({})), ErrorKind::kMalformed);
}

TEST(RdmaCounters, EntryWithoutValueOrNameIsMalformed) {
  for (const Attributes& entry :
       {Attributes().text(kStatHwcounterName, "x"), Attributes().u64(kStatHwcounterValue, 1), Attributes(),
        Attributes().text(kStatHwcounterName, "x").raw(kStatHwcounterValue, "abc", 3),
        Attributes().text(kStatHwcounterName, "x").raw(kStatHwcounterValue, "", 0)}) {
    EXPECT_EQ(kind(parse_rdma_counters(
                  Attributes().nest(kStatHwcounters, Attributes().nest(kStatHwcounterEntry, entry)).bytes())),
              ErrorKind::kMalformed);
  }
}

TEST(RdmaCounterStatus, OnlyOptionalOnesCarryTheirState) {
  const auto entry = [](const char* name, std::uint32_t index) {
    return Attributes().text(kStatHwcounterName, name).u32(kStatHwcounterIndex, index);
  };
  const auto all = parse_rdma_counter_status(
      Attributes()
          .nest(kStatHwcounters, Attributes()
                                     .nest(kStatHwcounterEntry, entry("always", 0))
                                     .nest(kStatHwcounterEntry, entry("on", 1).u8(kStatHwcounterDynamic, 1))
                                     .nest(kStatHwcounterEntry, entry("off", 2).u8(kStatHwcounterDynamic, 0), true))
          .bytes());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3U);
  EXPECT_FALSE((*all)[0].optional);
  EXPECT_TRUE((*all)[0].enabled);
  EXPECT_TRUE((*all)[1].optional);
  EXPECT_TRUE((*all)[1].enabled);
  EXPECT_TRUE((*all)[2].optional);
  EXPECT_FALSE((*all)[2].enabled);
  EXPECT_EQ((*all)[2].index, 2U);
  EXPECT_EQ((*all)[2].name, "off");
}

TEST(RdmaResources, CountsAndLimits) {
  const auto entry = [](const char* name, std::uint64_t count) {
    return Attributes().text(kResSummaryEntryName, name).padding().u64(kResSummaryEntryCurr, count);
  };
  const auto all = parse_rdma_resources(
      Attributes()
          .u32(kDevIndex, 1)
          .nest(kResSummary, Attributes()
                                 .nest(kResSummaryEntry, entry("pd", 3))
                                 .nest(kResSummaryEntry, entry("qp", 12).padding().u64(kResSummaryEntryMax, 131072))
                                 .nest(kResSummaryEntry, entry("cm_id", 0).u64(kResSummaryEntryMax, 0)))
          .bytes());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3U);
  EXPECT_EQ((*all)[0].name, "pd");
  EXPECT_EQ((*all)[0].current, 3U);
  EXPECT_EQ((*all)[0].limit, std::nullopt);
  EXPECT_EQ((*all)[1].limit, 131072U);
  EXPECT_EQ((*all)[2].current, 0U);
  EXPECT_EQ((*all)[2].limit, std::nullopt);
}

TEST(RdmaQpCounterSets, SetsWithTheirQps) {
  const Attributes qps = Attributes()
                             .nest(kResQpEntry, Attributes().u32(kResLqpn, 178))
                             .nest(kResQpEntry, Attributes().u32(kResLqpn, 179));
  const Attributes first = Attributes()
                               .u32(kPortIndex, 1)
                               .u32(kStatCounterId, 4)
                               .u8(kResType, 2)
                               .u32(kResPid, 4711)
                               .nest(kResQp, qps)
                               .nest(kStatHwcounters, counters({{"rx_write_requests", 5}}));
  const Attributes second = Attributes().u32(kPortIndex, 2).u32(kStatCounterId, 0);
  const auto all = parse_rdma_qp_counter_sets(
      Attributes()
          .u32(kDevIndex, 1)
          .nest(kStatCounter, Attributes().nest(kStatCounterEntry, first).nest(kStatCounterEntry, second))
          .bytes());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].port, 1U);
  EXPECT_EQ((*all)[0].id, 4U);
  EXPECT_EQ((*all)[0].qp_type, 2U);
  EXPECT_EQ((*all)[0].pid, 4711U);
  EXPECT_THAT((*all)[0].qpns, ElementsAre(178U, 179U));
  EXPECT_THAT((*all)[0].counters, ElementsAre(Counter("rx_write_requests", 5U)));
  EXPECT_EQ((*all)[1].port, 2U);
  EXPECT_EQ((*all)[1].pid, std::nullopt);
  EXPECT_THAT((*all)[1].qpns, IsEmpty());
}

TEST(RdmaQpCounterSets, MessageWithoutTableHoldsNone) {
  const auto none = parse_rdma_qp_counter_sets(Attributes().u32(kDevIndex, 1).bytes());
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, IsEmpty());
  const Attributes no_id = Attributes().u32(kPortIndex, 1);
  EXPECT_EQ(kind(parse_rdma_qp_counter_sets(
                Attributes().nest(kStatCounter, Attributes().nest(kStatCounterEntry, no_id)).bytes())),
            ErrorKind::kMalformed);
}

TEST(RdmaNetnsMode, Values) {
  EXPECT_EQ(parse_rdma_netns_mode(Attributes().u8(kSysNetnsMode, 1).u8(93, 1).bytes()).value(), NetnsMode::kShared);
  EXPECT_EQ(parse_rdma_netns_mode(Attributes().u8(kSysNetnsMode, 0).bytes()).value(), NetnsMode::kExclusive);
  EXPECT_EQ(kind(parse_rdma_netns_mode(Attributes().u8(kSysNetnsMode, 2).bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(kind(parse_rdma_netns_mode({})), ErrorKind::kUnsupported);
}

TEST(NetlinkAttributes, NumberTooWideForItsFieldIsMalformed) {
  EXPECT_EQ(kind(parse_rdma_port(Attributes().u64(kPortIndex, 1ULL << 32).bytes())), ErrorKind::kMalformed);
  EXPECT_EQ(parse_rdma_port(Attributes().u64(kPortIndex, 9).bytes())->port, 9U);
  EXPECT_EQ(parse_rdma_port(Attributes().u8(kPortIndex, 9).bytes())->port, 9U);
}

TEST(NetlinkAttributes, LastOneMayLackItsPadding) {
  ByteVector bytes = Attributes().u32(kDevIndex, 1).text(kDevName, "ab").bytes();
  bytes.pop_back();  // "ab" with its NUL takes three bytes of four
  EXPECT_EQ(parse_rdma_device(bytes)->name, "ab");
}

// A device, a port, counters, a summary and sets in one message, so that each cut hits one of them.
Attributes everything() {
  const Attributes qp = Attributes().nest(kResQpEntry, Attributes().u32(kResLqpn, 178));
  const Attributes set = Attributes()
                             .u32(kPortIndex, 1)
                             .u32(kStatCounterId, 4)
                             .nest(kResQp, qp)
                             .nest(kStatHwcounters, counters({{"x", 1}}));
  return Attributes()
      .u32(kDevIndex, 1)
      .text(kDevName, "mlx5_0")
      .u32(kPortIndex, 1)
      .nest(kStatHwcounters, counters({{"abc", 1}, {"def", 2}}))
      .nest(kResSummary, Attributes().nest(kResSummaryEntry,
                                           Attributes().text(kResSummaryEntryName, "qp").u64(kResSummaryEntryCurr, 1)))
      .nest(kStatCounter, Attributes().nest(kStatCounterEntry, set))
      .u8(kSysNetnsMode, 1);
}

// Calls all parsers on an exact-size copy, so that a read past the end is one past an allocation.
int parsers_that_accept(const ByteVector& bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const Bytes view(copy.get(), bytes.size());
  return parse_rdma_device(view).has_value() + parse_rdma_port(view).has_value() +
         parse_rdma_counters(view).has_value() + parse_rdma_counter_status(view).has_value() +
         parse_rdma_resources(view).has_value() + parse_rdma_qp_counter_sets(view).has_value() +
         parse_rdma_netns_mode(view).has_value();
}

TEST(NetlinkAttributes, CutAnywhereInsideAnAttributeIsMalformed) {
  const ByteVector whole = everything().bytes();
  EXPECT_EQ(parsers_that_accept(whole), 7);
  // Boundaries between top-level attributes, where a cut leaves a well-formed sequence.
  std::set<std::size_t> boundaries = {0, whole.size()};
  for (std::size_t at = 0; at < whole.size();) {
    std::uint16_t length = 0;
    std::memcpy(&length, whole.data() + at, sizeof length);
    for (std::size_t end = at + length; end <= at + ((length + 3U) & ~3U); ++end) boundaries.insert(end);
    at += (length + 3U) & ~3U;
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const int accepted =
        parsers_that_accept(ByteVector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    if (boundaries.contains(size)) continue;
    EXPECT_EQ(accepted, 0) << "cut at " << size;
  }
}

TEST(NetlinkAttributes, LengthBelowTheHeaderIsMalformed) {
  for (const std::uint16_t length : std::initializer_list<std::uint16_t>{0, 1, 3}) {
    ByteVector bytes = Attributes().u32(kPortIndex, 1).u8(kPortState, 4).bytes();
    std::memcpy(bytes.data() + 8, &length, sizeof length);
    EXPECT_EQ(kind(parse_rdma_port(bytes)), ErrorKind::kMalformed) << length;
  }
}

TEST(NetlinkAttributes, DamageNeverReadsOutside) {
  const ByteVector whole = everything().bytes();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    ByteVector bytes = whole;
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    refused += parsers_that_accept(bytes) < 7;
  }
  EXPECT_GT(refused, 200);
}

ByteVector sockaddr_bytes(const sockaddr* address, std::size_t size) {
  ByteVector bytes(128);
  std::memcpy(bytes.data(), address, size);
  return bytes;
}

TEST(RdmaObjects, QpsWithTheirOwners) {
  const auto qps = parse_rdma_qps(
      Attributes()
          .u32(kDevIndex, 1)
          .nest(kResQp,
                Attributes()
                    .nest(kResQpEntry, Attributes()
                                           .u32(kPortIndex, 1)
                                           .u32(kResLqpn, 17)
                                           .text(kResKernName, "rdma_cm")
                                           .u8(kResType, 2)
                                           .u8(kResState, 3))
                    .nest(kResQpEntry,
                          Attributes().u32(kResLqpn, 18).u32(kResPid, 77).u8(kResType, 0xff).u8(kResState, 6), true))
          .bytes());
  ASSERT_TRUE(qps);
  ASSERT_EQ(qps->size(), 2U);
  EXPECT_EQ((*qps)[0].port, 1U);
  EXPECT_EQ((*qps)[0].number, 17U);
  EXPECT_TRUE((*qps)[0].owner.kernel());
  EXPECT_EQ((*qps)[0].owner.name, "rdma_cm");
  EXPECT_EQ((*qps)[1].port, 0U);
  EXPECT_EQ((*qps)[1].owner.pid, 77U);
  EXPECT_EQ(rdma_qp_type_name((*qps)[1].type), "DRIVER");
  EXPECT_EQ(rdma_qp_state_name((*qps)[1].state), "ERR");
  EXPECT_EQ(rdma_qp_state_name(7), "UNKNOWN");
}

TEST(RdmaObjects, AQpWithoutItsStateIsMalformedAndNoTableIsNoQp) {
  const auto qps = parse_rdma_qps(
      Attributes().nest(kResQp, Attributes().nest(kResQpEntry, Attributes().u32(kResLqpn, 1).u8(kResType, 2))).bytes());
  ASSERT_FALSE(qps);
  EXPECT_EQ(qps.error().kind, ErrorKind::kMalformed);
  EXPECT_TRUE(parse_rdma_qps(Attributes().u32(kDevIndex, 1).bytes()).value().empty());
}

TEST(RdmaObjects, ConnectionsWithBothKindsOfAddress) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(4420);
  inet_pton(AF_INET, "192.0.2.9", &four.sin_addr);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(20049);
  inet_pton(AF_INET6, "fd00::9", &six.sin6_addr);
  const ByteVector source = sockaddr_bytes(reinterpret_cast<const sockaddr*>(&four), sizeof four);
  const ByteVector destination = sockaddr_bytes(reinterpret_cast<const sockaddr*>(&six), sizeof six);
  const auto ids = parse_rdma_cm_ids(
      Attributes()
          .nest(kResCmId, Attributes().nest(kResCmIdEntry, Attributes()
                                                               .u32(kPortIndex, 1)
                                                               .u32(kResLqpn, 17)
                                                               .u8(kResState, 5)
                                                               .raw(kResSrcAddr, source.data(), source.size())
                                                               .raw(kResDstAddr, destination.data(), destination.size())
                                                               .u32(kResCmIdn, 3)
                                                               .text(kResKernName, "nvme_rdma")))
          .bytes());
  ASSERT_TRUE(ids);
  ASSERT_EQ(ids->size(), 1U);
  EXPECT_EQ((*ids)[0].id, 3U);
  EXPECT_EQ((*ids)[0].qpn, 17U);
  EXPECT_EQ((*ids)[0].source.ip, "192.0.2.9");
  EXPECT_EQ((*ids)[0].source.port, 4420);
  EXPECT_EQ((*ids)[0].destination.ip, "fd00::9");
  EXPECT_EQ((*ids)[0].destination.port, 20049);
  EXPECT_EQ(rdma_cm_state_name((*ids)[0].state), "CONNECT");
}

TEST(RdmaObjects, AddressesThatAreCutOrOfAnotherFamilyAreEmpty) {
  const std::uint16_t families[] = {AF_INET, AF_INET6, 27};
  for (const std::uint16_t family : families) {
    const auto ids = parse_rdma_cm_ids(
        Attributes()
            .nest(kResCmId,
                  Attributes().nest(kResCmIdEntry, Attributes().u8(kResState, 8).raw(kResSrcAddr, &family, 2)))
            .bytes());
    ASSERT_TRUE(ids);
    EXPECT_EQ((*ids)[0].source.ip, "");
  }
}

TEST(RdmaObjects, CqsMrsAndContexts) {
  const auto cqs = parse_rdma_cqs(
      Attributes().nest(kResCq, Attributes().nest(kResCqEntry, Attributes().u32(kResCqn, 4).u32(kResPid, 5))).bytes());
  ASSERT_TRUE(cqs);
  EXPECT_EQ(cqs->at(0).id, 4U);
  EXPECT_EQ(cqs->at(0).owner.pid, 5U);
  const auto mrs = parse_rdma_mrs(
      Attributes()
          .nest(kResMr, Attributes().nest(kResMrEntry,
                                          Attributes().u64(kResMrLen, ~std::uint64_t{0}).padding().u32(kResMrn, 9)))
          .bytes());
  ASSERT_TRUE(mrs);
  EXPECT_EQ(mrs->at(0).length, ~std::uint64_t{0});
  EXPECT_FALSE(mrs->at(0).owner.pid);
  EXPECT_FALSE(mrs->at(0).owner.kernel());
  // The kernel's own contexts are empty entries; one of a process that is not visible has its number alone.
  const auto contexts =
      parse_rdma_contexts(Attributes()
                              .nest(kResCtx, Attributes()
                                                 .nest(kResCtxEntry, Attributes())
                                                 .nest(kResCtxEntry, Attributes().u32(kResCtxn, 2))
                                                 .nest(kResCtxEntry, Attributes().u32(kResCtxn, 3).u32(kResPid, 8)))
                              .bytes());
  ASSERT_TRUE(contexts);
  ASSERT_EQ(contexts->size(), 2U);
  EXPECT_FALSE((*contexts)[0].owner.pid);
  EXPECT_EQ((*contexts)[1].owner.pid, 8U);
}

TEST(RdmaObjects, CountersOfRegionsThatHaveAny) {
  const Attributes counter = Attributes().text(kStatHwcounterName, "page_faults").u64(kStatHwcounterValue, 12);
  const auto regions = parse_rdma_mr_statistics(
      Attributes()
          .nest(kResMr,
                Attributes()
                    .nest(kResMrEntry, Attributes().u32(kResMrn, 1))
                    .nest(kResMrEntry, Attributes()
                                           .u32(kResMrn, 2)
                                           .nest(kStatHwcounters, Attributes().nest(kStatHwcounterEntry, counter))))
          .bytes());
  ASSERT_TRUE(regions);
  ASSERT_EQ(regions->size(), 1U);
  EXPECT_EQ((*regions)[0].id, 2U);
  EXPECT_EQ((*regions)[0].counters[0].value, 12U);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/ethtool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>

#include <deque>
#include <map>

#include "exporter/kernel/ethtool_live.h"
#include "exporter/kernel/ethtool_messages.h"
#include "exporter/kernel/ethtool_recorded.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using namespace ethtool_abi;
using made::Attributes;
using made::ByteVector;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::optional<std::uint64_t> value_of(const std::vector<NamedValue>& values, std::string_view name) {
  for (const NamedValue& value : values)
    if (value.name == name) return value.value;
  return std::nullopt;
}

// ---- texts ----

TEST(EthtoolText, ALineIsCutAtItsLastColon) {
  const auto all = parse_ethtool_statistics_text(
      "NIC statistics:\n     [0]: rx_bytes: 111\n     rxq1: rx_pkts: 4\n     rx crc (phy): 6\n");
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, SizeIs(3));
  EXPECT_EQ(value_of(*all, "[0]: rx_bytes"), 111U);
  EXPECT_EQ(value_of(*all, "rxq1: rx_pkts"), 4U);
  EXPECT_EQ(value_of(*all, "rx crc (phy)"), 6U);
}

TEST(EthtoolText, WhatIsNoStatisticIsPassedOver) {
  const auto all = parse_ethtool_statistics_text(
      "NIC statistics:\r\n  a: 18446744073709551615\r\n  b: 18446744073709551616\n  c: -1\n  d: x\n: 5\nno colon\n  a: "
      "7\n  e:8");
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, SizeIs(3));  // "a" twice
  EXPECT_EQ(value_of(*all, "a"), 18446744073709551615U);
  EXPECT_EQ(value_of(*all, "e"), 8U);
}

TEST(EthtoolText, NoStatisticAtAllIsUnsupportedOnlyWhereTheToolSaysSo) {
  for (const char* text : {"no stats available\n", "no stats available"})
    EXPECT_EQ(parse_ethtool_statistics_text(text).error().kind, ErrorKind::kUnsupported) << text;
  for (const char* text : {"", "NIC statistics:\n", "netlink error: Operation not permitted\n",
                           "Cannot get stats strings information: Operation not permitted\n"})
    EXPECT_EQ(parse_ethtool_statistics_text(text).error().kind, ErrorKind::kMalformed) << text;
}

TEST(EthtoolText, ReasonsAreABoundedSet) {
  EXPECT_EQ(link_reason(std::uint32_t{4}), "no_cable");
  EXPECT_EQ(link_reason(std::uint32_t{10}), "module");
  EXPECT_EQ(link_reason(std::uint32_t{11}), "other");
  EXPECT_EQ(link_reason("No cable"), "no_cable");
  EXPECT_EQ(link_reason("Logical mismatch"), "link_logical_mismatch");
  EXPECT_EQ(link_reason("A word of \"tomorrow\"\n"), "other");
  EXPECT_EQ(link_detail(2, 5), "rs_fec_is_not_locked");
  EXPECT_EQ(link_detail(2, 6), "other");
  EXPECT_EQ(link_detail(4, 1), "other");
  EXPECT_EQ(link_detail(4, 0), "other");
  EXPECT_EQ(link_detail(4000000000U, 4000000000U), "other");
  EXPECT_EQ(link_detail("RS FEC is not locked"), "rs_fec_is_not_locked");
  EXPECT_EQ(link_detail(""), "other");
  EXPECT_EQ(fec_mode("Off"), "none");
  EXPECT_EQ(fec_mode("BaseR"), "baser");
  EXPECT_EQ(fec_mode("BASER"), "baser");
  EXPECT_EQ(fec_mode("Something"), "other");
}

TEST(EthtoolJson, LinkWithReason) {
  const auto link = parse_ethtool_link_json(
      R"([{"ifname":"eth1","speed":100000,"link-detected":false,"link-state":["Cable issue","Unsupported cable"],
          "sqi":3,"sqi-max":7,"link-down-events":12}])");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->detected, false);
  EXPECT_EQ(link->reason, "cable_issue");
  EXPECT_EQ(link->detail, "unsupported_cable");
  EXPECT_EQ(link->quality, 3U);
  EXPECT_EQ(link->quality_max, 7U);
  EXPECT_EQ(link->down_events, 12U);
}

TEST(EthtoolJson, WhatIsNotToldHasNoValue) {
  const auto link = parse_ethtool_link_json(R"({"link-detected":true,"sqi":"x","link-down-events":-1})");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->detected, true);
  EXPECT_EQ(link->reason, "");
  EXPECT_FALSE(link->quality || link->quality_max || link->down_events);
  const auto pause = parse_ethtool_pause_json(R"([{"ifname":"eth1","autonegotiate":false,"rx":true,"tx":false}])");
  ASSERT_TRUE(pause);
  EXPECT_EQ(pause->autonegotiate, false);
  EXPECT_EQ(pause->receive, true);
  EXPECT_EQ(pause->transmit, false);
  EXPECT_FALSE(pause->receive_frames || pause->transmit_frames);
}

TEST(EthtoolJson, PauseFecAndStandardStatistics) {
  const auto pause = parse_ethtool_pause_json(
      R"([{"rx":"on","tx":"off","statistics":{"tx_pause_frames":5,"rx_pause_frames":18446744073709551615}}])");
  ASSERT_TRUE(pause);
  EXPECT_EQ(pause->receive, true);
  EXPECT_EQ(pause->transmit_frames, 5U);
  EXPECT_EQ(pause->receive_frames, 18446744073709551615U);
  const auto fec = parse_ethtool_fec_json(
      R"([{"config":["Auto","RS"],"active":["RS"],"statistics":{"corrected_blocks":{"total":31,"lanes":[30,1]},
          "uncorrectable_blocks":2}}])");
  ASSERT_TRUE(fec);
  EXPECT_THAT(fec->configured, ElementsAre("auto", "rs"));
  EXPECT_THAT(fec->active, ElementsAre("rs"));
  EXPECT_EQ(fec->corrected_blocks, 31U);
  EXPECT_EQ(fec->uncorrectable_blocks, 2U);
  EXPECT_FALSE(fec->corrected_bits);
  const auto standard = parse_ethtool_standard_statistics_json(
      R"([{"ifname":"eth1","eth-phy":{"SymbolErrorDuringCarrier":9},
          "rmon":{"etherStatsOversizePkts":4,"rx-pktsNtoM":[{"low":0,"high":64,"val":1}]}}])");
  ASSERT_TRUE(standard);
  EXPECT_THAT(*standard, SizeIs(2));
  EXPECT_EQ(value_of(*standard, "eth-phy/SymbolErrorDuringCarrier"), 9U);
}

TEST(EthtoolJson, GarbageIsMalformed) {
  const std::string deep(100000, '[');
  for (const std::string& text : {std::string(), std::string("[]"), std::string("7"), std::string("{"), deep}) {
    EXPECT_EQ(parse_ethtool_link_json(text).error().kind, ErrorKind::kMalformed);
    EXPECT_EQ(parse_ethtool_pause_json(text).error().kind, ErrorKind::kMalformed);
    EXPECT_EQ(parse_ethtool_fec_json(text).error().kind, ErrorKind::kMalformed);
    EXPECT_EQ(parse_ethtool_standard_statistics_json(text).error().kind, ErrorKind::kMalformed);
  }
}

// ---- messages ----

TEST(EthtoolMessage, Link) {
  const auto link = parse_ethtool_link(Attributes()
                                           .nest(kHeader, Attributes().text(kHeaderDevName, "eth1"))
                                           .u8(kLink, 0)
                                           .u8(kExtState, 0)
                                           .u8(kExtSubstate, 6)
                                           .u32(kExtDownCnt, 3)
                                           .bytes());
  ASSERT_TRUE(link);
  EXPECT_EQ(link->detected, false);
  EXPECT_EQ(link->reason, "autoneg");
  EXPECT_EQ(link->detail, "no_hcd");
  EXPECT_EQ(link->down_events, 3U);
  EXPECT_FALSE(link->quality);
}

TEST(EthtoolMessage, PauseWithAndWithoutStatistics) {
  const auto with = parse_ethtool_pause(Attributes()
                                            .u8(kPauseRx, 1)
                                            .u8(kPauseTx, 0)
                                            .nest(kPauseStats, Attributes().u64(kPauseStatTx, 7).u64(kPauseStatRx, 8))
                                            .bytes());
  ASSERT_TRUE(with);
  EXPECT_EQ(with->receive, true);
  EXPECT_EQ(with->transmit, false);
  EXPECT_FALSE(with->autonegotiate);
  EXPECT_EQ(with->transmit_frames, 7U);
  EXPECT_EQ(with->receive_frames, 8U);
  const auto without = parse_ethtool_pause(Attributes().u8(kPauseRx, 1).bytes());
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->receive_frames || without->transmit_frames);
}

TEST(EthtoolMessage, FecHasTotalsBeforeLanes) {
  const std::uint64_t corrected[] = {30, 10, 20};
  const std::uint32_t words[] = {0, 1U << (kModeFecRs - 32)};
  const auto fec = parse_ethtool_fec(
      Attributes()
          .nest(kFecModes,
                Attributes().raw(kBitsetNoMask, nullptr, 0).u32(kBitsetSize, 64).raw(kBitsetValue, words, sizeof words))
          .u8(kFecAuto, 1)
          .u32(kFecActive, kModeFecBaser)
          .nest(kFecStats,
                Attributes().raw(kFecStatCorrected, corrected, sizeof corrected).u64(kFecStatUncorrectable, 2))
          .bytes());
  ASSERT_TRUE(fec);
  EXPECT_THAT(fec->configured, ElementsAre("rs", "auto"));
  EXPECT_THAT(fec->active, ElementsAre("baser"));
  EXPECT_EQ(fec->corrected_blocks, 30U);
  EXPECT_EQ(fec->uncorrectable_blocks, 2U);
  EXPECT_FALSE(fec->corrected_bits);
}

TEST(EthtoolMessage, FecModesByName) {
  const Attributes bits =
      Attributes()
          .nest(kBit, Attributes().u32(kBitIndex, kModeFecNone).text(kBitName, "None").raw(kBitValue, nullptr, 0))
          .nest(kBit, Attributes().u32(kBitIndex, kModeFecLlrs).text(kBitName, "LLRS"));
  const auto masked = parse_ethtool_fec(Attributes().nest(kFecModes, Attributes().nest(kBitsetBits, bits)).bytes());
  ASSERT_TRUE(masked);
  EXPECT_THAT(masked->configured, ElementsAre("none"));
  const auto all = parse_ethtool_fec(
      Attributes().nest(kFecModes, Attributes().nest(kBitsetBits, bits).raw(kBitsetNoMask, nullptr, 0)).bytes());
  ASSERT_TRUE(all);
  EXPECT_THAT(all->configured, ElementsAre("none", "llrs"));
}

TEST(EthtoolMessage, TheTypeOfAStandardStatisticIsItsNumber) {
  const auto all = parse_ethtool_standard_statistics(
      Attributes()
          .nest(kStatsGroup, Attributes().u32(kGroupId, kEthPhy).nest(kGroupStat, Attributes().u64(0, 9)))
          .nest(kStatsGroup, Attributes()
                                 .u32(kGroupId, kEthMac)
                                 .nest(kGroupStat, Attributes().u64(4, 5))
                                 .nest(kGroupStat, Attributes().u64(22, 6)))
          .nest(kStatsGroup, Attributes().u32(kGroupId, kRmon).nest(kGroupStat, Attributes().padding().u64(1, 7)))
          .nest(kStatsGroup, Attributes().u32(kGroupId, 99).nest(kGroupStat, Attributes().u64(0, 1)))
          .bytes());
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, SizeIs(3));  // not the numbers of later kernels
  EXPECT_EQ(value_of(*all, "eth-phy/SymbolErrorDuringCarrier"), 9U);
  EXPECT_EQ(value_of(*all, "eth-mac/FrameCheckSequenceErrors"), 5U);
  EXPECT_EQ(value_of(*all, "rmon/etherStatsOversizePkts"), 7U);
}

TEST(EthtoolMessage, LengthsThatDoNotAddUpAreMalformed) {
  ByteVector link = Attributes().u8(kLink, 1).u32(kSqi, 1).bytes();
  link.pop_back();
  link.pop_back();
  EXPECT_EQ(parse_ethtool_link(link).error().kind, ErrorKind::kMalformed);
  ByteVector inner = Attributes().u64(0, 1).bytes();
  inner.resize(inner.size() - 3);
  const ByteVector stats =
      Attributes().nest(kStatsGroup, Attributes().raw(kGroupStat, inner.data(), inner.size())).bytes();
  EXPECT_EQ(parse_ethtool_standard_statistics(stats).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(parse_ethtool_pause(Attributes().raw(kPauseStats, "abcdef", 6).bytes()).error().kind,
            ErrorKind::kMalformed);
  EXPECT_EQ(parse_ethtool_fec(Attributes().raw(kFecStats, "abcdef", 6).bytes()).error().kind, ErrorKind::kMalformed);
}

// ---- recordings ----

TEST(EthtoolRecording, EachFileOfADevice) {
  const TempTree tree;
  tree.write("netdev/eth1/ethtool_S.txt", "NIC statistics:\n     a: 1\n");
  tree.write("netdev/eth1/driver", "mlx5_core\n");
  tree.write("netdev/eth1/pause.json", "[{\"rx\": true}]");
  const auto source = open_ethtool_recording(tree.path("")).value();
  EXPECT_EQ(value_of(source->statistics("eth1").value(), "a"), 1U);
  EXPECT_EQ(source->driver("eth1").value(), "mlx5_core");
  EXPECT_EQ(source->pause("eth1").value().receive, true);
  EXPECT_EQ(source->fec("eth1").error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(source->link("eth2", true).error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(source->standard_statistics("eth1").error().kind, ErrorKind::kNotRecorded);
  tree.write("netdev/eth1/ethtool_S.txt", "NIC statistics:\n     a: 2\n");
  EXPECT_EQ(value_of(source->statistics("eth1").value(), "a"), 2U);
  tree.write("netdev/eth1/fec.json", "{");
  EXPECT_EQ(source->fec("eth1").error().kind, ErrorKind::kMalformed);
}

TEST(EthtoolRecording, ALoneFileBelongsToTheOnlyDevice) {
  const TempTree tree;
  tree.write("ethtool_S.txt", "NIC statistics:\n     a: 1\n");
  const auto source = open_ethtool_recording(tree.path("")).value();
  EXPECT_EQ(value_of(source->statistics("").value(), "a"), 1U);
  tree.write("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2\n  eth1: 3 4\n  eth2: 5 6\n");
  EXPECT_EQ(source->statistics("eth1").error().kind, ErrorKind::kNotRecorded);
  tree.write("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2\n  eth1: 3 4\n");
  EXPECT_EQ(value_of(source->statistics("eth1").value(), "a"), 1U);
  tree.write("sys/class/net/lo/mtu", "65536\n");
  tree.write("sys/class/net/eth1/mtu", "9000\n");
  EXPECT_EQ(value_of(source->statistics("eth1").value(), "a"), 1U);
  tree.write("sys/class/net/eth2/mtu", "9000\n");
  EXPECT_EQ(source->statistics("eth1").error().kind, ErrorKind::kNotRecorded);  // whose is it?
}

// ---- the kernel's ioctl ----

// A device whose list of statistics the test changes while it is read.
class FakeDriver {
 public:
  struct List {
    std::vector<std::string> names;
    std::vector<std::uint64_t> values;
  };
  int operator()(const std::string& netdev, void* data) {
    std::uint32_t command = 0;
    std::memcpy(&command, data, sizeof command);
    calls.push_back(command);
    if (netdev != "eth1") return ENODEV;
    if (before_call) before_call(command);
    if (err != 0) return err;
    auto* bytes = static_cast<std::byte*>(data);
    switch (command) {
      case ETHTOOL_GSSET_INFO: {
        ethtool_sset_info info{};
        std::memcpy(&info, data, sizeof info);
        EXPECT_EQ(info.sset_mask, 1U << ETH_SS_STATS);
        const auto count = static_cast<std::uint32_t>(list.names.size());
        std::memcpy(bytes + sizeof info, &count, sizeof count);
        return 0;
      }
      case ETHTOOL_GSTRINGS: {
        ethtool_gstrings strings{};
        std::memcpy(&strings, data, sizeof strings);
        EXPECT_EQ(strings.string_set, ETH_SS_STATS);
        if (strings.len != list.names.size()) return refuse(data, &strings, sizeof strings, strings.len);
        for (std::size_t i = 0; i < list.names.size(); ++i)
          list.names[i].copy(reinterpret_cast<char*>(bytes) + sizeof strings + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
        return 0;
      }
      case ETHTOOL_GSTATS: {
        ethtool_stats stats{};
        std::memcpy(&stats, data, sizeof stats);
        if (stats.n_stats != list.values.size()) return refuse(data, &stats, sizeof stats, stats.n_stats);
        std::memcpy(bytes + sizeof stats, list.values.data(), list.values.size() * sizeof(std::uint64_t));
        return 0;
      }
      case ETHTOOL_GDRVINFO: {
        auto* info = static_cast<ethtool_drvinfo*>(data);
        std::memcpy(info->driver, "mlx5_core", 10);
        return 0;
      }
      default:
        return EOPNOTSUPP;
    }
  }

  List list;
  int err = 0;
  bool old_kernel = false;  // writes the whole list, so that a small buffer ends in a fault
  std::function<void(std::uint32_t)> before_call;
  std::vector<std::uint32_t> calls;

 private:
  int refuse(void* data, const void* header, std::size_t size, std::uint32_t& length) const {
    if (old_kernel) return EFAULT;
    length = 0;
    std::memcpy(data, header, size);
    return 0;
  }
};

std::unique_ptr<EthtoolSource> open_fake(FakeDriver& driver, std::shared_ptr<CallTracker> tracker = {}) {
  return open_ethtool(
      std::move(tracker), [&driver](const std::string& netdev, void* data) { return driver(netdev, data); },
      []() -> Result<std::unique_ptr<NetlinkChannel>> { return fail_errno(EPROTONOSUPPORT, "no netlink"); });
}

TEST(EthtoolIoctl, NamesAndValuesBelongTogether) {
  FakeDriver driver;
  driver.list = {{"rx_prio3_pause", std::string(32, 'x'), "twice", "twice"}, {7, 8, 9, 10}};
  const auto source = open_fake(driver);
  const auto all = source->statistics("eth1");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_THAT(*all, SizeIs(4));
  EXPECT_EQ(value_of(*all, "rx_prio3_pause"), 7U);
  EXPECT_EQ(value_of(*all, std::string(32, 'x')), 8U);  // 32 bytes without a NUL
  EXPECT_EQ(value_of(*all, "twice"), 9U);
  driver.list.values[0] = 1234;
  EXPECT_EQ(value_of(source->statistics("eth1").value(), "rx_prio3_pause"), 1234U);
  EXPECT_EQ(source->driver("eth1").value(), "mlx5_core");
}

// PFC moves from one priority to another between the names and the values: as many names, other ones.
TEST(EthtoolIoctl, AListThatChangesWhileItIsReadIsReadAgain) {
  FakeDriver driver;
  driver.list = {{"rx_prio3_pause", "b"}, {3, 30}};
  bool changed = false;
  driver.before_call = [&](std::uint32_t command) {
    if (command != ETHTOOL_GSTATS || changed) return;
    changed = true;
    driver.list = {{"rx_prio4_pause", "b"}, {4, 40}};
  };
  const auto all = open_fake(driver)->statistics("eth1");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_FALSE(value_of(*all, "rx_prio3_pause"));
  EXPECT_EQ(value_of(*all, "rx_prio4_pause"), 4U);
}

TEST(EthtoolIoctl, AListThatGrowsIsReadAgainOnOldAndNewKernels) {
  for (const bool old_kernel : {false, true}) {
    for (const std::uint32_t moment : {std::uint32_t{ETHTOOL_GSTRINGS}, std::uint32_t{ETHTOOL_GSTATS}}) {
      FakeDriver driver;
      driver.old_kernel = old_kernel;
      driver.list = {{"a"}, {1}};
      bool changed = false;
      driver.before_call = [&](std::uint32_t command) {
        if (command != moment || changed) return;
        changed = true;
        driver.list = {{"a", "b"}, {2, 3}};
      };
      const auto all = open_fake(driver)->statistics("eth1");
      ASSERT_TRUE(all) << all.error().message();
      EXPECT_EQ(value_of(*all, "a"), 2U);
      EXPECT_EQ(value_of(*all, "b"), 3U);
    }
  }
}

TEST(EthtoolIoctl, AListThatNeverStaysIsBusy) {
  FakeDriver driver;
  driver.list = {{"a"}, {1}};
  int n = 0;
  driver.before_call = [&](std::uint32_t command) {
    if (command == ETHTOOL_GSTATS) driver.list.names = {"a" + std::to_string(++n)};
  };
  EXPECT_EQ(open_fake(driver)->statistics("eth1").error().kind, ErrorKind::kBusy);
  EXPECT_LE(n, 8);
}

TEST(EthtoolIoctl, ErrorsHaveTheirKind) {
  FakeDriver driver;
  EXPECT_EQ(open_fake(driver)->statistics("eth1").error().kind, ErrorKind::kUnsupported);  // a list without entries
  driver.list = {{"a"}, {1}};
  EXPECT_EQ(open_fake(driver)->statistics("eth9").error().kind, ErrorKind::kAbsent);
  for (const auto& [err, kind] : {std::pair(EOPNOTSUPP, ErrorKind::kUnsupported), std::pair(EPERM, ErrorKind::kDenied),
                                  std::pair(EIO, ErrorKind::kIo)}) {
    driver.err = err;
    EXPECT_EQ(open_fake(driver)->statistics("eth1").error().kind, kind) << err;
    EXPECT_EQ(open_fake(driver)->driver("eth1").error().kind, kind) << err;
  }
}

TEST(EthtoolIoctl, ACallThatHangsHasAName) {
  FakeDriver driver;
  driver.list = {{"a"}, {1}};
  const auto tracker = std::make_shared<CallTracker>();
  std::vector<std::string> seen;
  driver.before_call = [&](std::uint32_t) {
    for (const auto& call : tracker->in_flight({})) seen.push_back(call.call + " " + call.object);
  };
  ASSERT_TRUE(open_fake(driver, tracker)->statistics("eth1"));
  EXPECT_THAT(seen, ElementsAre("ethtool_sset_info eth1", "ethtool_strings eth1", "ethtool_stats eth1",
                                "ethtool_strings eth1"));
  EXPECT_THAT(tracker->in_flight({}), IsEmpty());
}

// ---- generic netlink ----

constexpr std::uint16_t kFamilyId = 0x17;

struct Question {
  std::uint16_t type = 0;
  std::uint16_t flags = 0;
  std::uint8_t command = 0;
  std::string netdev;
  std::uint32_t ethtool_flags = 0;
};

// A kernel with some families that answers as the handler says.
class FakeGenericKernel {
 public:
  using Handler = std::function<std::pair<int, ByteVector>(const Question&)>;  // errno, or attributes

  std::unique_ptr<EthtoolSource> open() {
    return open_ethtool(
        {}, [](const std::string&, void*) { return EOPNOTSUPP; },
        [this]() -> Result<std::unique_ptr<NetlinkChannel>> {
          ++sockets;
          return std::make_unique<Channel>(*this);
        });
  }

  std::vector<std::string> families{"nlctrl", "ethtool"};
  Handler handler;
  std::vector<Question> questions;
  int lists = 0;
  int sockets = 0;

 private:
  static ByteVector with_generic(std::uint8_t command, const ByteVector& attributes) {
    ByteVector bytes(GENL_HDRLEN);
    bytes[0] = std::byte{command};
    bytes.insert(bytes.end(), attributes.begin(), attributes.end());
    return bytes;
  }

  class Channel final : public NetlinkChannel {
   public:
    explicit Channel(FakeGenericKernel& kernel) : kernel_(kernel) {}
    Result<void> send(std::span<const std::byte> bytes) override {
      nlmsghdr header{};
      std::memcpy(&header, bytes.data(), sizeof header);
      EXPECT_EQ(header.nlmsg_len, bytes.size());
      const auto put = [&](std::uint16_t type, const ByteVector& payload, std::uint16_t flags = 0) {
        replies_.push_back(made::message(type, payload, flags, header.nlmsg_seq));
      };
      Question question{
          header.nlmsg_type, header.nlmsg_flags, std::to_integer<std::uint8_t>(bytes[sizeof header]), {}, 0};
      if (header.nlmsg_type == GENL_ID_CTRL) {
        EXPECT_EQ(header.nlmsg_flags & NLM_F_DUMP, NLM_F_DUMP);  // a question by name would load a module
        ++kernel_.lists;
        std::uint16_t id = kFamilyId - 1;
        for (const std::string& family : kernel_.families) {
          const std::uint16_t own = id++;
          put(GENL_ID_CTRL,
              with_generic(CTRL_CMD_NEWFAMILY,
                           Attributes().raw(CTRL_ATTR_FAMILY_ID, &own, 2).text(CTRL_ATTR_FAMILY_NAME, family).bytes()),
              NLM_F_MULTI);
        }
        put(NLMSG_DONE, ByteVector(4), NLM_F_MULTI);
        return {};
      }
      AttributeReader reader(bytes.subspan(sizeof header + GENL_HDRLEN));
      for (NetlinkAttribute a; reader.next(a);) {
        if (a.type != kHeader && a.type != kStatsHeader) continue;
        AttributeReader inner(a.payload);
        for (NetlinkAttribute b; inner.next(b);) {
          if (b.type == kHeaderDevName) question.netdev = b.text();
          if (b.type == kHeaderFlags) question.ethtool_flags = static_cast<std::uint32_t>(b.number().value_or(0));
        }
      }
      EXPECT_FALSE(reader.malformed());
      kernel_.questions.push_back(question);
      const auto [err, attributes] = kernel_.handler(question);
      if (err != 0) {
        nlmsgerr error{};
        error.error = -err;
        ByteVector payload(sizeof error);
        std::memcpy(payload.data(), &error, sizeof error);
        put(NLMSG_ERROR, payload);
      } else {
        put(kFamilyId, with_generic(question.command, attributes));
      }
      return {};
    }
    Result<std::size_t> receive(std::span<std::byte> buffer) override {
      if (replies_.empty()) return fail_errno(EAGAIN, "fake");
      const ByteVector reply = std::move(replies_.front());
      replies_.pop_front();
      std::copy(reply.begin(), reply.end(), buffer.begin());
      return reply.size();
    }

   private:
    FakeGenericKernel& kernel_;
    std::deque<ByteVector> replies_;
  };
};

TEST(EthtoolNetlink, AsksOneDeviceWithStatistics) {
  FakeGenericKernel kernel;
  kernel.handler = [](const Question& q) {
    if (q.command == kLinkstateGet) return std::pair(0, Attributes().u8(kLink, 1).u32(kExtDownCnt, 5).bytes());
    if (q.command == kPauseGet)
      return std::pair(0, Attributes().u8(kPauseRx, 1).nest(kPauseStats, Attributes().u64(kPauseStatRx, 8)).bytes());
    if (q.command == kFecGet) return std::pair(0, Attributes().u32(kFecActive, kModeFecRs).bytes());
    return std::pair(
        0, Attributes()
               .nest(kStatsGroup, Attributes().u32(kGroupId, kEthPhy).nest(kGroupStat, Attributes().u64(0, 9)))
               .bytes());
  };
  const auto source = kernel.open();
  EXPECT_EQ(source->link("eth1", true).value().down_events, 5U);
  EXPECT_EQ(source->pause("eth1").value().receive_frames, 8U);
  EXPECT_THAT(source->fec("eth1").value().active, ElementsAre("rs"));
  EXPECT_EQ(source->standard_statistics("eth1").value().at(0).value, 9U);
  ASSERT_THAT(kernel.questions, SizeIs(4));
  for (const Question& q : kernel.questions) {
    EXPECT_EQ(q.type, kFamilyId);
    EXPECT_EQ(q.flags & NLM_F_DUMP, 0);
    EXPECT_EQ(q.netdev, "eth1");
    EXPECT_EQ(q.ethtool_flags, kFlagStats);
  }
  EXPECT_EQ(kernel.lists, 1);  // the number of the family is known then
}

TEST(EthtoolNetlink, AKernelWithoutStatisticsOfARequestIsAskedWithoutThem) {
  FakeGenericKernel kernel;
  kernel.handler = [](const Question& q) {
    return q.ethtool_flags != 0 ? std::pair(EINVAL, ByteVector()) : std::pair(0, Attributes().u8(kLink, 1).bytes());
  };
  const auto source = kernel.open();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(source->link("eth1", true).value().detected, true);
  EXPECT_THAT(kernel.questions, SizeIs(4));  // the flag once
  FakeGenericKernel newer;
  newer.handler = [](const Question&) { return std::pair(0, Attributes().u8(kLink, 0).bytes()); };
  EXPECT_EQ(newer.open()->link("eth1", false).value().detected, false);
  EXPECT_EQ(newer.questions.at(0).ethtool_flags, 0U);  // nobody wanted statistics
}

TEST(EthtoolNetlink, AFamilyThatIsNotThereIsAbsentAndNotAskedFor) {
  FakeGenericKernel kernel;
  kernel.families = {"nlctrl", "devlink"};
  const auto source = kernel.open();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(source->link("eth1", true).error().kind, ErrorKind::kAbsent);
  EXPECT_THAT(kernel.questions, IsEmpty());
  EXPECT_EQ(kernel.lists, 1);
}

TEST(EthtoolNetlink, ErrorsHaveTheirKind) {
  FakeGenericKernel kernel;
  int err = 0;
  kernel.handler = [&](const Question&) { return std::pair(err, ByteVector()); };
  const auto source = kernel.open();
  for (const auto& [number, kind] :
       {std::pair(EOPNOTSUPP, ErrorKind::kUnsupported), std::pair(ENODEV, ErrorKind::kAbsent),
        std::pair(EPERM, ErrorKind::kDenied), std::pair(EIO, ErrorKind::kIo)}) {
    err = number;
    const auto pause = source->pause("eth1");
    EXPECT_EQ(pause.error().kind, kind) << number;
    EXPECT_THAT(pause.error().message(), HasSubstr("ethtool_pause_get eth1"));
  }
}

}  // namespace
}  // namespace roce

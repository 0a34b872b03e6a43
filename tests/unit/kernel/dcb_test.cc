// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>

#include "exporter/kernel/dcb_messages.h"
#include "exporter/kernel/dcb_netlink.h"
#include "exporter/kernel/dcb_recorded.h"
#include "tests/support/temp_tree.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using namespace dcb_abi;
using made::Attributes;
using made::ByteVector;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// struct ieee_pfc: capability, mask, MACsec bypass, padding, delay, padding, sent, received.
ByteVector pfc_struct(std::uint8_t capable, std::uint8_t enabled, std::uint16_t delay, std::uint64_t first_sent,
                      std::uint64_t first_received) {
  ByteVector bytes(136);
  bytes[0] = std::byte{capable};
  bytes[1] = std::byte{enabled};
  std::memcpy(&bytes[4], &delay, sizeof delay);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t sent = first_sent + i;
    const std::uint64_t received = first_received + i;
    std::memcpy(&bytes[8 + 8 * i], &sent, sizeof sent);
    std::memcpy(&bytes[72 + 8 * i], &received, sizeof received);
  }
  return bytes;
}

ByteVector ets_struct() {
  ByteVector bytes(59);
  bytes[0] = std::byte{1};
  bytes[1] = std::byte{8};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[3 + i] = static_cast<std::byte>(10 + i);  // transmit bandwidth
    bytes[11 + i] = static_cast<std::byte>(90);     // receive bandwidth
    bytes[19 + i] = static_cast<std::byte>(i < 2 ? 2 : i == 7 ? 255 : 0);
    bytes[27 + i] = static_cast<std::byte>(7 - i);
  }
  return bytes;
}

ByteVector buffer_struct() {
  ByteVector bytes(44);
  bytes[3] = std::byte{1};
  const std::uint32_t sizes[] = {130944, 65472, 0, 0, 0, 0, 0, 0, 262016};
  std::memcpy(&bytes[8], sizes, sizeof sizes);
  return bytes;
}

Attributes& put(Attributes& to, std::uint16_t type, const ByteVector& bytes) {
  return to.raw(type, bytes.data(), bytes.size());
}

ByteVector app(std::uint8_t selector, std::uint8_t priority, std::uint16_t protocol) {
  ByteVector bytes(4);
  bytes[0] = std::byte{selector};
  bytes[1] = std::byte{priority};
  std::memcpy(&bytes[2], &protocol, sizeof protocol);
  return bytes;
}

ByteVector answer(const Attributes& ieee, std::optional<std::uint8_t> dcbx = {}) {
  Attributes all;
  all.text(kIfName, "ens1f0np0").nest(kIeee, ieee);
  if (dcbx) all.u8(kDcbx, *dcbx);
  ByteVector bytes(kHeaderSize);
  bytes[1] = std::byte{kCommandIeeeGet};
  bytes.insert(bytes.end(), all.bytes().begin(), all.bytes().end());
  return bytes;
}

TEST(DcbMessages, AllParts) {
  Attributes apps;
  put(apps, kIeeeApp, app(5, 3, 26));
  put(apps, 77, ByteVector(1));
  put(apps, kDcbApp, app(255, 2, 10));
  Attributes trust;
  trust.u8(kIeeeApp, 5).u8(kDcbApp, 255);
  ByteVector rates(64);
  const std::uint64_t kilobits = 40'000'000;
  std::memcpy(&rates[8], &kilobits, sizeof kilobits);
  Attributes ieee;
  put(ieee, kEts, ets_struct());
  put(ieee, kMaxRate, rates);
  put(ieee, kPfc, pfc_struct(8, 0x28, 7, 1000, 2000));
  put(ieee, kBuffer, buffer_struct());
  ieee.nest(kAppTable, apps).nest(200, Attributes()).nest(kAppTrust, trust, true);
  put(ieee, kPeerPfc, pfc_struct(8, 0x08, 0, 0, 0));
  const auto state = parse_dcb_state(answer(ieee, 9));
  ASSERT_TRUE(state) << state.error().message();

  ASSERT_TRUE(state->pfc);
  EXPECT_TRUE(state->pfc->on(3) && state->pfc->on(5));
  EXPECT_EQ(state->pfc->enabled, 0x28);
  EXPECT_EQ(state->pfc->capable, 8);
  EXPECT_EQ(state->pfc->delay, 7);
  EXPECT_EQ((*state->pfc->sent)[3], 1003U);
  EXPECT_EQ((*state->pfc->received)[7], 2007U);
  EXPECT_EQ(state->peer_pfc->enabled, 8);
  EXPECT_TRUE(*state->ets->willing);
  EXPECT_THAT(*state->ets->bandwidth, ElementsAre(10, 11, 12, 13, 14, 15, 16, 17));
  EXPECT_EQ((*state->ets->algorithm)[1], DcbAlgorithm::kEts);
  EXPECT_EQ((*state->ets->algorithm)[2], DcbAlgorithm::kStrict);
  EXPECT_EQ((*state->ets->algorithm)[7], DcbAlgorithm::kVendor);
  EXPECT_THAT(*state->ets->traffic_class, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_EQ((*state->max_rate)[0], 0U);
  EXPECT_EQ((*state->max_rate)[1], 5'000'000'000U);
  EXPECT_EQ((*state->buffers->of_priority)[3], 1);
  EXPECT_EQ((*state->buffers->size)[1], 65472U);
  EXPECT_EQ(state->buffers->total, 262016U);
  EXPECT_THAT(*state->apps, ElementsAre(DcbApp{DcbSelector::kDscp, 3, 26}, DcbApp{DcbSelector::kPcp, 2, 10}));
  EXPECT_THAT(*state->trust, ElementsAre(DcbSelector::kDscp, DcbSelector::kPcp));
  EXPECT_EQ(state->dcbx, kDcbxHost | kDcbxIeee);
}

TEST(DcbMessages, WhatADriverLacksIsEmpty) {
  Attributes ieee;
  ieee.nest(kAppTable, Attributes());
  const auto state = parse_dcb_state(answer(ieee));
  ASSERT_TRUE(state);
  EXPECT_FALSE(state->pfc || state->peer_pfc || state->ets || state->max_rate || state->buffers || state->trust);
  EXPECT_FALSE(state->dcbx);
  EXPECT_THAT(state->apps.value(), IsEmpty());
}

TEST(DcbMessages, LongerStructsOfLaterKernelsAreReadShorterOnesAreNot) {
  for (const auto& [type, bytes] : {std::pair<std::uint16_t, ByteVector>{kPfc, pfc_struct(8, 8, 0, 0, 0)},
                                    {kEts, ets_struct()},
                                    {kBuffer, buffer_struct()},
                                    {kMaxRate, ByteVector(64)}}) {
    ByteVector longer = bytes;
    longer.resize(bytes.size() + 8);
    ByteVector shorter = bytes;
    shorter.pop_back();
    Attributes good;
    Attributes bad;
    EXPECT_TRUE(parse_dcb_state(answer(put(good, type, longer)))) << type;
    const auto state = parse_dcb_state(answer(put(bad, type, shorter)));
    ASSERT_FALSE(state) << type;
    EXPECT_EQ(state.error().kind, ErrorKind::kMalformed);
  }
}

TEST(DcbMessages, AnyBytesGiveAValueOrAnError) {
  std::mt19937 random(7);
  Attributes ieee;
  put(ieee, kEts, ets_struct());
  put(ieee, kPfc, pfc_struct(8, 8, 0, 1, 1));
  const ByteVector good = answer(ieee, 1);
  for (std::size_t size = 0; size <= good.size(); ++size) (void)parse_dcb_state(Bytes(good).first(size));
  for (int i = 0; i < 2000; ++i) {
    ByteVector bytes = good;
    for (int j = 0; j < 3; ++j) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    (void)parse_dcb_state(bytes);
  }
  EXPECT_FALSE(parse_dcb_state({}));
}

// Says what the test wants, once a request.
class Channel final : public NetlinkChannel {
 public:
  using Answer = std::function<ByteVector(std::uint32_t sequence)>;
  Channel(std::deque<Answer>& answers, ByteVector& sent) : answers_(answers), sent_(sent) {}
  Result<void> send(std::span<const std::byte> bytes) override {
    sent_.assign(bytes.begin(), bytes.end());
    std::memcpy(&sequence_, bytes.data() + 8, sizeof sequence_);
    return {};
  }
  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    if (answers_.empty()) return fail_errno(EAGAIN, "test");
    const ByteVector bytes = answers_.front()(sequence_);
    answers_.pop_front();
    std::copy(bytes.begin(), bytes.end(), buffer.begin());
    return bytes.size();
  }

 private:
  std::deque<Answer>& answers_;
  ByteVector& sent_;
  std::uint32_t sequence_ = 0;
};

class DcbNetlink : public testing::Test {
 protected:
  std::unique_ptr<DcbSource> source() {
    return open_dcb_netlink(nullptr, [this]() -> Result<std::unique_ptr<NetlinkChannel>> {
      return std::make_unique<Channel>(answers_, sent_);
    });
  }
  void will_answer(const ByteVector& payload) {
    answers_.push_back([payload](std::uint32_t sequence) { return made::message(kGet, payload, 0, sequence); });
  }
  void will_fail(int code) {
    answers_.push_back([code](std::uint32_t sequence) {
      ByteVector payload(sizeof(nlmsgerr));
      const int negative = -code;
      std::memcpy(payload.data(), &negative, sizeof negative);
      return made::message(NLMSG_ERROR, payload, 0, sequence);
    });
  }
  static ByteVector mask(std::uint8_t enabled) {
    Attributes ieee;
    return answer(put(ieee, kPfc, pfc_struct(8, enabled, 0, 0, 0)));
  }

  std::deque<Channel::Answer> answers_;
  ByteVector sent_;
};

TEST_F(DcbNetlink, OneRequestNamesTheNetworkDevice) {
  will_answer(mask(8));
  const auto state = source()->state("ens1f0np0");
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->pfc->enabled, 8);
  nlmsghdr header{};
  std::memcpy(&header, sent_.data(), sizeof header);
  EXPECT_EQ(header.nlmsg_type, 78);
  EXPECT_EQ(header.nlmsg_flags, NLM_F_REQUEST);
  EXPECT_EQ(header.nlmsg_len, sent_.size());
  EXPECT_EQ(sent_[17], std::byte{21});
  AttributeReader reader(Bytes(sent_).subspan(sizeof header + kHeaderSize));
  NetlinkAttribute name;
  ASSERT_TRUE(reader.next(name));
  EXPECT_EQ(name.type, kIfName);
  EXPECT_EQ(name.text(), "ens1f0np0");
}

TEST_F(DcbNetlink, EachCallAsksAnew) {
  will_answer(mask(8));
  will_answer(mask(0));
  const auto dcb = source();
  EXPECT_EQ(dcb->state("eth0")->pfc->enabled, 8);
  EXPECT_EQ(dcb->state("eth0")->pfc->enabled, 0);
}

TEST_F(DcbNetlink, ErrorsKeepTheirKind) {
  for (const auto& [code, kind] :
       {std::pair{EOPNOTSUPP, ErrorKind::kUnsupported}, {ENODEV, ErrorKind::kAbsent}, {EPERM, ErrorKind::kDenied}}) {
    will_fail(code);
    const auto state = source()->state("eth0");
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().kind, kind) << state.error().message();
    EXPECT_THAT(state.error().message(), HasSubstr("eth0"));
  }
  const auto late = source()->state("eth0");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(source()->state("a-name-that-is-too-long").error().kind, ErrorKind::kAbsent);
  will_answer(ByteVector(2));
  EXPECT_EQ(source()->state("eth0").error().kind, ErrorKind::kMalformed);
}

TEST_F(DcbNetlink, AnswersToOthersArePassedOver) {
  answers_.push_back([](std::uint32_t sequence) { return made::message(kGet, mask(1), 0, sequence + 1); });
  will_answer(mask(2));
  EXPECT_EQ(source()->state("eth0")->pfc->enabled, 2);
}

// What the tool prints, one document a part.
constexpr std::string_view kPfcJson =
    R"({"pfc_cap":8,"macsec_bypass":false,"delay":7,"prio_pfc":[false,false,false,true,false,false,false,false],)"
    R"("requests":[0,0,0,41,0,0,0,0],"indications":[0,0,0,18446744073709551615,0,0,0,0]})";
constexpr std::string_view kEtsJson =
    R"({"willing":true,"ets_cap":8,"cbs":false,"tc_bw":[20,80,0,0,0,0,0,0],"pg_bw":[0,0,0,0,0,0,0,0],)"
    R"("tc_tsa":["ets","ets","strict","strict","strict","???","vendor","cbs"],"prio_tc":[0,0,0,1,0,0,0,0],)"
    R"("reco_tc_bw":[0,0,0,0,0,0,0,0],"reco_tc_tsa":["strict","strict","strict","strict","strict","strict","strict",)"
    R"("strict"],"reco_prio_tc":[0,0,0,0,0,0,0,0]})";
constexpr std::string_view kAppJson =
    R"({"ethtype_prio":[[35093,3]],"default_prio":[0],"dscp_prio":[[26,3],[48,6]],"dgram_port_prio":[[4791,3]],)"
    R"("pcp_prio":[["3de",3]]})";
constexpr std::string_view kBufferJson =
    R"({"prio_buffer":[0,0,0,1,0,0,0,0],"buffer_size":[130944,65472,0,0,0,0,0,0],"total_size":262016})";

void expect_all_of_it(const Result<DcbState>& state) {
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->pfc->enabled, 8);
  EXPECT_EQ((*state->pfc->sent)[3], 41U);
  EXPECT_EQ((*state->pfc->received)[3], 18446744073709551615ULL);
  EXPECT_EQ(state->ets->willing, true);
  EXPECT_EQ((*state->ets->algorithm)[5], DcbAlgorithm::kVendor);
  EXPECT_EQ((*state->ets->algorithm)[7], DcbAlgorithm::kCreditShaper);
  EXPECT_EQ((*state->ets->bandwidth)[1], 80);
  EXPECT_EQ((*state->ets->traffic_class)[3], 1);
  EXPECT_THAT(*state->apps, testing::UnorderedElementsAre(
                                DcbApp{DcbSelector::kEtherType, 3, 0x8915}, DcbApp{DcbSelector::kEtherType, 0, 0},
                                DcbApp{DcbSelector::kDscp, 3, 26}, DcbApp{DcbSelector::kDscp, 6, 48},
                                DcbApp{DcbSelector::kDatagramPort, 3, 4791}));
  EXPECT_EQ((*state->buffers->size)[1], 65472U);
  EXPECT_EQ(state->buffers->total, 262016U);
  EXPECT_EQ(state->dcbx, kDcbxHost | kDcbxIeee);
  EXPECT_THAT(*state->trust, ElementsAre(DcbSelector::kDscp, DcbSelector::kPcp));
}

TEST(DcbRecorded, PartsComeTogetherInAnyWay) {
  const std::string dcbx = R"({"host":true,"ieee":true})";
  const std::string trust = R"({"order":["dscp","pcp"]})";
  std::string lines;
  std::string list;
  for (const std::string_view part :
       {kPfcJson, kEtsJson, kAppJson, kBufferJson, std::string_view(dcbx), std::string_view(trust)}) {
    lines += std::string(part) + "\n";
    list += std::string(list.empty() ? "[" : ",") + std::string(part);
  }
  expect_all_of_it(parse_dcb_json(lines));
  expect_all_of_it(parse_dcb_json(list + "]"));
  expect_all_of_it(parse_dcb_json(R"({"ifname":"eth0","pfc":)" + std::string(kPfcJson) +
                                  ",\"ets\":" + std::string(kEtsJson) + ",\"app\":[" + std::string(kAppJson) +
                                  "],\"buffer\":" + std::string(kBufferJson) + ",\"dcbx\":" + dcbx +
                                  ",\"apptrust\":" + trust + "}"));
  std::string flat;
  for (const std::string_view part :
       {kPfcJson, kEtsJson, kAppJson, kBufferJson, std::string_view(dcbx), std::string_view(trust)})
    flat += (flat.empty() ? "" : ",") + std::string(part.substr(1, part.size() - 2));
  expect_all_of_it(parse_dcb_json("{" + flat + "}"));
}

TEST(DcbRecorded, WordsForBooleansAndDashesInNames) {
  const auto state =
      parse_dcb_json(R"({"prio-pfc":["off","off","off","on","off","off","off","off"],"pfc-cap":4,"willing":"off"})");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->pfc->enabled, 8);
  EXPECT_EQ(state->pfc->capable, 4);
  EXPECT_EQ(state->ets->willing, false);
  EXPECT_FALSE(state->pfc->sent || state->apps || state->dcbx);
}

TEST(DcbRecorded, EmptySectionsWereRead) {
  const auto state = parse_dcb_json(R"({"app":{},"dcbx":{}})");
  ASSERT_TRUE(state);
  EXPECT_THAT(state->apps.value(), IsEmpty());
  EXPECT_EQ(state->dcbx, 0);
}

TEST(DcbRecorded, WhatHasNotItsFormIsMalformed) {
  for (const char* text :
       {"x", "]", "{", "[1", "3", R"({"prio_pfc":[true]})", R"({"prio_pfc":[1,2,0,0,0,0,0,0]})", R"({"total_size":-1})",
        R"({"requests":[0,0,0,0,0,0,0,18446744073709551616]})", R"({"dscp_prio":[[26]]})", R"({"order":[5]})",
        R"({"tc_tsa":"ets"})", R"({"host":"perhaps"})", R"({"prio_tc":[0,0,0,0,0,0,0,256]})"}) {
    const auto state = parse_dcb_json(text);
    ASSERT_FALSE(state) << text;
    EXPECT_EQ(state.error().kind, ErrorKind::kMalformed) << text;
  }
  EXPECT_TRUE(parse_dcb_json(""));
  EXPECT_FALSE(parse_dcb_json(std::string(100000, '[')));
}

TEST(DcbRecorded, TheFileIsReadAtEachCall) {
  const TempTree tree;
  const auto dcb = open_dcb_recording(tree.path(""));
  EXPECT_EQ(dcb->state("eth0").error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(dcb->state("").error().kind, ErrorKind::kNotRecorded);
  EXPECT_EQ(dcb->state("../eth0").error().kind, ErrorKind::kNotRecorded);
  tree.write("netdev/eth0/dcb.json", R"({"pfc":{"delay":1}})");
  EXPECT_EQ(dcb->state("eth0")->pfc->delay, 1);
  tree.write("netdev/eth0/dcb.json", R"({"pfc":{"delay":2}})");
  EXPECT_EQ(dcb->state("eth0")->pfc->delay, 2);
  tree.write("netdev/eth0/dcb.json", "no JSON");
  EXPECT_EQ(dcb->state("eth0").error().kind, ErrorKind::kMalformed);
  EXPECT_THAT(dcb->state("eth0").error().message(), HasSubstr("netdev/eth0/dcb.json"));
}

}  // namespace
}  // namespace roce

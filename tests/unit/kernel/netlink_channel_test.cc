// SPDX-License-Identifier: Apache-2.0
//
// A conversation over netlink, its end and its failures, against made answers.
#include "exporter/kernel/netlink_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/genetlink.h>

#include <algorithm>
#include <deque>

#include "exporter/kernel/generic_netlink.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using made::ByteVector;
using testing::HasSubstr;

constexpr std::uint16_t kType = 40;

// Gives its datagrams one after the other, each with the request's sequence number, then nothing more.
class FakeChannel : public NetlinkChannel {
 public:
  explicit FakeChannel(std::deque<ByteVector> datagrams) : datagrams_(std::move(datagrams)) {}

  Result<void> send(std::span<const std::byte> message) override {
    std::memcpy(&request, message.data(), sizeof request);
    return {};
  }
  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    if (datagrams_.empty()) return fail_errno(EAGAIN, "receive");
    ByteVector bytes = std::move(datagrams_.front());
    datagrams_.pop_front();
    for (std::size_t at = 0; at + sizeof(nlmsghdr) <= bytes.size();) {
      nlmsghdr header{};
      std::memcpy(&header, bytes.data() + at, sizeof header);
      if (header.nlmsg_seq == 0) header.nlmsg_seq = request.nlmsg_seq;
      std::memcpy(bytes.data() + at, &header, sizeof header);
      if (header.nlmsg_len < sizeof header) break;
      at += header.nlmsg_len;
    }
    std::copy(bytes.begin(), bytes.end(), buffer.begin());
    return bytes.size();
  }

  nlmsghdr request{};

 private:
  std::deque<ByteVector> datagrams_;
};

ByteVector code(int value) {
  ByteVector bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
ByteVector text(std::string_view value) {
  ByteVector bytes(value.size());
  std::memcpy(bytes.data(), value.data(), value.size());
  return bytes;
}
ByteVector joined(ByteVector a, const ByteVector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Result<std::vector<std::string>> dump(FakeChannel& channel) {
  std::vector<std::string> all;
  const auto done = netlink_dump(channel, kType, {}, "list", [&](Bytes payload) -> Result<void> {
    all.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  return all;
}

TEST(NetlinkConversation, AListEndsWhenTheKernelSaysSo) {
  FakeChannel channel({joined(made::message(kType, text("one1")), made::message(kType, text("two2"))),
                       made::message(kType, text("not1"), 0, 999), made::message(NLMSG_NOOP, {}),
                       joined(made::message(kType, text("last")), made::message(NLMSG_DONE, code(0)))});
  const auto all = dump(channel);
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_THAT(*all, testing::ElementsAre("one1", "two2", "last"));
  EXPECT_EQ(channel.request.nlmsg_type, kType);
  EXPECT_EQ(channel.request.nlmsg_flags, NLM_F_REQUEST | NLM_F_DUMP);
}

TEST(NetlinkConversation, FailuresKeepTheirKind) {
  struct Failure {
    std::deque<ByteVector> datagrams;
    ErrorKind kind;
  };
  ByteVector cut = made::message(kType, text("four"));
  cut.resize(18);
  for (const Failure& failure :
       {Failure{{}, ErrorKind::kTimeout}, Failure{{made::message(kType, text("one1"))}, ErrorKind::kTimeout},
        Failure{{made::message(NLMSG_ERROR, code(-EPERM))}, ErrorKind::kDenied},
        Failure{{made::message(kType, text("one1")), made::message(NLMSG_DONE, code(-ENODEV))}, ErrorKind::kAbsent},
        Failure{{made::message(kType, text("one1"), NLM_F_DUMP_INTR), made::message(NLMSG_DONE, code(0))},
                ErrorKind::kBusy},
        Failure{{made::message(NLMSG_ERROR, {})}, ErrorKind::kMalformed},
        Failure{{made::message(NLMSG_ERROR, code(-5000))}, ErrorKind::kMalformed},
        Failure{{made::message(NLMSG_OVERRUN, {})}, ErrorKind::kMalformed}, Failure{{cut}, ErrorKind::kMalformed}}) {
    FakeChannel channel(failure.datagrams);
    const auto all = dump(channel);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().kind, failure.kind) << all.error().message();
    EXPECT_THAT(all.error().message(), HasSubstr("list"));
  }
}

TEST(NetlinkConversation, OneMessageIsAnAnswerAndAnAcknowledgementIsNone) {
  FakeChannel channel({made::message(kType, text("this"))});
  const auto answer = netlink_ask(channel, kType, {}, "ask");
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, text("this"));
  EXPECT_EQ(channel.request.nlmsg_flags, NLM_F_REQUEST);
  FakeChannel silent({made::message(NLMSG_ERROR, code(0))});
  EXPECT_EQ(netlink_ask(silent, kType, {}, "ask").error().kind, ErrorKind::kMalformed);
}

// A family's entry: its name and number behind the header of generic netlink.
ByteVector family(std::string_view name, std::uint16_t id) {
  made::Attributes attributes;
  attributes.text(CTRL_ATTR_FAMILY_NAME, name).raw(CTRL_ATTR_FAMILY_ID, &id, sizeof id);
  return made::message(GENL_ID_CTRL, joined(ByteVector(GENL_HDRLEN), attributes.bytes()));
}

TEST(GenericNetlink, AFamilyIsFoundInTheListAndOneThatIsNotThereIsAbsent) {
  std::deque<std::deque<ByteVector>> conversations{
      {family("other", 30), family("devlink", 31), made::message(NLMSG_DONE, code(0)),
       made::message(31, joined(ByteVector(GENL_HDRLEN), text("body")))},
      {family("other", 30), made::message(NLMSG_DONE, code(0))},
      {made::message(NLMSG_ERROR, code(-EPERM))}};
  const auto connect = [&]() -> Result<std::unique_ptr<NetlinkChannel>> {
    auto channel = std::make_unique<FakeChannel>(conversations.front());
    conversations.pop_front();
    return channel;
  };
  GenericNetlink there("devlink", 1, nullptr, connect);
  const auto answer = there.ask(1, {}, "call", "object");
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, text("body"));
  GenericNetlink absent("devlink", 1, nullptr, connect);
  EXPECT_EQ(absent.ask(1, {}, "call", "object").error().kind, ErrorKind::kAbsent);
  GenericNetlink refused("devlink", 1, nullptr, connect);
  EXPECT_EQ(refused.ask(1, {}, "call", "object").error().kind, ErrorKind::kDenied);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/genetlink.h>

#include <deque>

#include "exporter/kernel/devlink_recorded.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using made::Attributes;
using made::ByteVector;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint16_t kFamily = 0x21;

ByteVector with_generic(const ByteVector& attributes) {
  ByteVector bytes(GENL_HDRLEN + attributes.size());
  std::copy(attributes.begin(), attributes.end(), bytes.begin() + GENL_HDRLEN);
  return bytes;
}

Attributes reporter(const char* bus, const char* device, const char* name, std::uint8_t state, std::uint64_t errors,
                    std::uint64_t recoveries) {
  return Attributes().text(1, bus).text(2, device).nest(
      114, Attributes().text(115, name).u8(116, state).padding().u64(117, errors).u64(118, recoveries), true);
}

// The kernel's end: a list of families, then a list of reporters.
struct FakeKernel {
  std::vector<std::string> families{"nlctrl", "devlink"};
  std::vector<Attributes> reporters;
  std::int32_t end = 0;     // errno at the end of the list, negative
  std::uint16_t flags = 0;  // of each message of the list
  int lists = 0;
  int by_name = 0;

  class Channel final : public NetlinkChannel {
   public:
    explicit Channel(FakeKernel& kernel) : kernel_(kernel) {}
    Result<void> send(std::span<const std::byte> bytes) override {
      nlmsghdr header{};
      std::memcpy(&header, bytes.data(), sizeof header);
      const auto put = [&](std::uint16_t type, const ByteVector& payload, std::uint16_t message_flags) {
        replies_.push_back(made::message(type, payload, message_flags, header.nlmsg_seq));
      };
      EXPECT_EQ(header.nlmsg_flags & NLM_F_DUMP, NLM_F_DUMP);
      if (header.nlmsg_type == GENL_ID_CTRL) {
        std::uint16_t id = kFamily - 1;
        if (bytes.size() > sizeof header + GENL_HDRLEN) ++kernel_.by_name;
        for (const std::string& family : kernel_.families) {
          const std::uint16_t own = id++;
          put(GENL_ID_CTRL,
              with_generic(Attributes().raw(CTRL_ATTR_FAMILY_ID, &own, 2).text(CTRL_ATTR_FAMILY_NAME, family).bytes()),
              NLM_F_MULTI);
        }
        put(NLMSG_DONE, ByteVector(4), NLM_F_MULTI);
        return {};
      }
      EXPECT_EQ(header.nlmsg_type, kFamily);
      EXPECT_EQ(std::to_integer<int>(bytes[sizeof header]), 52);
      ++kernel_.lists;
      for (const Attributes& one : kernel_.reporters)
        put(kFamily, with_generic(one.bytes()), static_cast<std::uint16_t>(NLM_F_MULTI | kernel_.flags));
      ByteVector code(4);
      std::memcpy(code.data(), &kernel_.end, sizeof kernel_.end);
      put(NLMSG_DONE, code, NLM_F_MULTI);
      return {};
    }
    Result<std::size_t> receive(std::span<std::byte> buffer) override {
      if (replies_.empty()) return fail_errno(EAGAIN, "fake");
      const ByteVector message = replies_.front();
      replies_.pop_front();
      std::copy(message.begin(), message.end(), buffer.begin());
      return message.size();
    }

   private:
    FakeKernel& kernel_;
    std::deque<ByteVector> replies_;
  };

  std::unique_ptr<DevlinkSource> open() {
    return open_devlink_netlink(
        nullptr, [this]() -> Result<std::unique_ptr<NetlinkChannel>> { return std::make_unique<Channel>(*this); });
  }
};

const DevlinkHandle kDevice{"pci", "0000:3b:00.0"};

TEST(Devlink, GivesTheReportersOfOneDevice) {
  FakeKernel kernel;
  kernel.reporters = {reporter("pci", "0000:3b:00.0", "fw", 0, 3, 2), reporter("pci", "0000:3b:00.1", "fw", 1, 9, 9),
                      reporter("pci", "0000:3b:00.0", "tx", 1, 18446744073709551615ULL, 0)};
  const auto devlink = kernel.open();
  const auto found = devlink->health_reporters(kDevice);
  ASSERT_TRUE(found);
  ASSERT_THAT(*found, SizeIs(2));
  EXPECT_EQ((*found)[0].name, "fw");
  EXPECT_FALSE((*found)[0].in_error);
  EXPECT_EQ((*found)[0].errors, 3U);
  EXPECT_EQ((*found)[0].recoveries, 2U);
  EXPECT_TRUE((*found)[1].in_error);
  EXPECT_EQ((*found)[1].errors, 18446744073709551615ULL);
  EXPECT_EQ(kernel.by_name, 0);  // a question by name would load a module
}

TEST(Devlink, EveryCallAsksAnew) {
  FakeKernel kernel;
  kernel.reporters = {reporter("pci", "0000:3b:00.0", "fw", 0, 3, 2)};
  const auto devlink = kernel.open();
  (void)devlink->health_reporters(kDevice);
  kernel.reporters = {reporter("pci", "0000:3b:00.0", "fw", 1, 4, 2)};
  const auto found = devlink->health_reporters(kDevice);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().errors, 4U);
  EXPECT_TRUE(found->front().in_error);
}

TEST(Devlink, WithoutTheFamilyNothingIsAsked) {
  FakeKernel kernel;
  kernel.families = {"nlctrl", "ethtool"};
  const auto found = kernel.open()->health_reporters(kDevice);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(kernel.lists, 0);
}

TEST(Devlink, ADeviceWithoutReportersIsAnEmptyList) {
  FakeKernel kernel;
  const auto found = kernel.open()->health_reporters(kDevice);
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, IsEmpty());
}

TEST(Devlink, TheErrorAtTheEndOfTheListCounts) {
  FakeKernel kernel;
  kernel.reporters = {reporter("pci", "0000:3b:00.0", "fw", 0, 3, 2)};
  kernel.end = -ENODEV;
  EXPECT_EQ(kernel.open()->health_reporters(kDevice).error().kind, ErrorKind::kAbsent);
  kernel.end = -EPERM;
  EXPECT_EQ(kernel.open()->health_reporters(kDevice).error().kind, ErrorKind::kDenied);
  kernel.end = 0;
  kernel.flags = NLM_F_DUMP_INTR;
  EXPECT_EQ(kernel.open()->health_reporters(kDevice).error().kind, ErrorKind::kBusy);
}

TEST(Devlink, AReporterWithoutNameOrStateIsMalformed) {
  EXPECT_FALSE(parse_health_reporter(Attributes().text(1, "pci").text(2, "x").bytes()));
  EXPECT_FALSE(parse_health_reporter(Attributes().nest(114, Attributes().text(115, "fw"), true).bytes()));
  EXPECT_FALSE(parse_health_reporter(Attributes().nest(114, Attributes().u8(116, 0), true).bytes()));
  ByteVector cut = reporter("pci", "x", "fw", 0, 1, 1).bytes();
  cut.resize(cut.size() - 3);
  EXPECT_FALSE(parse_health_reporter(cut));
  EXPECT_FALSE(parse_health_reporter({}));
}

TEST(Devlink, NoRecordingHoldsIt) {
  EXPECT_EQ(open_devlink_recording()->health_reporters(kDevice).error().kind, ErrorKind::kNotRecorded);
  for (const char* text :
       {"", "[]", "{}", R"({"health":[]})", R"({"health":{"pci":[]}})", R"({"health":{"pci/a/b":[]}})",
        R"({"health":{"pci/a":{}}})", R"({"health":{"pci/a":[{"reporter":"fw"}]}})"})
    EXPECT_EQ(parse_devlink_health_json(text).error().kind, ErrorKind::kMalformed) << text;
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_netlink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "exporter/kernel/rdma_messages.h"
#include "tests/unit/kernel/netlink_builder.h"

namespace roce {
namespace {

using namespace rdma_abi;
using made::Attributes;
using made::ByteVector;
using made::message;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Sent {
  Command command{};
  std::uint16_t flags = 0;
  std::uint32_t sequence = 0;
  std::map<std::uint16_t, std::uint64_t> arguments;
  bool dump() const { return (flags & NLM_F_DUMP) == NLM_F_DUMP; }
};

Sent decode(std::span<const std::byte> bytes) {
  nlmsghdr header{};
  EXPECT_GE(bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header.nlmsg_len, bytes.size());
  EXPECT_EQ(header.nlmsg_type >> 10, 5);
  Sent sent{static_cast<Command>(header.nlmsg_type & 0x3ff), header.nlmsg_flags, header.nlmsg_seq, {}};
  AttributeReader reader(bytes.subspan(sizeof header));
  for (NetlinkAttribute a; reader.next(a);) sent.arguments[a.type] = a.number().value_or(~std::uint64_t{0});
  EXPECT_FALSE(reader.malformed());
  return sent;
}

// What the kernel does next in a conversation: a datagram or an errno.
struct Reply {
  ByteVector datagram;
  int err = 0;
};

ByteVector acknowledgement(int code = 0, std::string_view why = {}) {
  ByteVector payload(sizeof(nlmsgerr));
  std::memcpy(payload.data(), &code, sizeof code);
  std::uint16_t flags = 0;
  if (!why.empty()) {
    const ByteVector text = Attributes().text(NLMSGERR_ATTR_MSG, why).bytes();
    payload.insert(payload.end(), text.begin(), text.end());
    flags = NLM_F_CAPPED | NLM_F_ACK_TLVS;
  }
  return message(NLMSG_ERROR, payload, flags);
}
ByteVector done(int code = 0) {
  ByteVector payload(sizeof code);
  std::memcpy(payload.data(), &code, sizeof code);
  return message(NLMSG_DONE, payload, NLM_F_MULTI);
}
ByteVector operator+(ByteVector a, const ByteVector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A kernel that answers as the handler says. Messages with sequence 0 get that of the request.
class FakeKernel {
 public:
  using Handler = std::function<std::vector<Reply>(const Sent&)>;

  FakeKernel() : sysfs_(std::filesystem::temp_directory_path() / ("roce-nl-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(sysfs_ / "class/infiniband");
    std::filesystem::create_directories(sysfs_ / "module/ib_core");
  }
  ~FakeKernel() { std::filesystem::remove_all(sysfs_); }
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;

  std::unique_ptr<RdmaSource> open(Handler handler, std::shared_ptr<CallTracker> tracker = {}) {
    handler_ = std::move(handler);
    return open_rdma_netlink(sysfs_.string(), std::move(tracker), [this]() -> Result<std::unique_ptr<NetlinkChannel>> {
      ++opened_;
      return std::make_unique<Channel>(*this);
    });
  }
  const std::filesystem::path& sysfs() const { return sysfs_; }
  int opened() const { return opened_; }
  std::vector<Sent> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  class Channel final : public NetlinkChannel {
   public:
    explicit Channel(FakeKernel& kernel) : kernel_(kernel) {}
    Result<void> send(std::span<const std::byte> bytes) override {
      const Sent sent = decode(bytes);
      {
        const std::lock_guard lock(kernel_.mutex_);
        kernel_.requests_.push_back(sent);
      }
      for (Reply& reply : kernel_.handler_(sent)) {
        for (std::size_t at = 0; at + sizeof(nlmsghdr) <= reply.datagram.size();) {
          nlmsghdr header{};
          std::memcpy(&header, reply.datagram.data() + at, sizeof header);
          if (header.nlmsg_seq == 0) header.nlmsg_seq = sent.sequence;
          std::memcpy(reply.datagram.data() + at, &header, sizeof header);
          at += std::max<std::size_t>((header.nlmsg_len + 3) & ~3U, sizeof header);
        }
        replies_.push_back(std::move(reply));
      }
      return {};
    }
    Result<std::size_t> receive(std::span<std::byte> buffer) override {
      EXPECT_GE(buffer.size(), 32768U);
      if (replies_.empty()) return fail_errno(EAGAIN, "fake");
      const Reply reply = std::move(replies_.front());
      replies_.pop_front();
      if (reply.err != 0) return fail_errno(reply.err, "fake");
      std::copy(reply.datagram.begin(), reply.datagram.end(), buffer.begin());
      return reply.datagram.size();
    }

   private:
    FakeKernel& kernel_;
    std::deque<Reply> replies_;
  };

  std::filesystem::path sysfs_;
  Handler handler_;
  std::atomic<int> opened_{0};
  mutable std::mutex mutex_;
  std::vector<Sent> requests_;
};

ByteVector device_message(std::uint32_t index, std::string_view name, std::uint16_t flags = NLM_F_MULTI) {
  return message(message_type(Command::kGet),
                 Attributes().u32(kDevIndex, index).text(kDevName, name).u32(kPortIndex, 1).bytes(), flags);
}
ByteVector counters_message(std::uint64_t value) {
  const Attributes entry = Attributes().text(kStatHwcounterName, "np_cnp_sent").u64(kStatHwcounterValue, value);
  return message(
      message_type(Command::kStatGet),
      Attributes().u32(kDevIndex, 3).nest(kStatHwcounters, Attributes().nest(kStatHwcounterEntry, entry)).bytes());
}
ByteVector set_message(std::initializer_list<std::uint32_t> ids) {
  Attributes table;
  for (const auto id : ids) table.nest(kStatCounterEntry, Attributes().u32(kPortIndex, 1).u32(kStatCounterId, id));
  return message(message_type(Command::kStatGet), Attributes().u32(kDevIndex, 3).nest(kStatCounter, table).bytes(),
                 NLM_F_MULTI);
}

RdmaDevice device(std::uint32_t index = 3) {
  RdmaDevice d;
  d.index = index;
  d.name = "mlx5_3";
  return d;
}

TEST(RdmaNetlink, OpensNoSocketWhileTheCoreIsNotLoaded) {
  for (const char* missing : {"class/infiniband", "module/ib_core"}) {
    FakeKernel kernel;
    std::filesystem::remove(kernel.sysfs() / missing);
    const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{}; });
    EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->ports(device()).error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->port_counters(device(), 1).error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->counter_status(device(), 1).error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->resources(device()).error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->qp_counter_sets(device()).error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(rdma->netns_mode().error().kind, ErrorKind::kAbsent);
    EXPECT_EQ(kernel.opened(), 0);
  }
}

TEST(RdmaNetlink, ListsDevicesOverSeveralDatagrams) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) {
    return std::vector<Reply>{
        {device_message(0, "mlx5_0") + device_message(1, "mlx5_1"), 0}, {device_message(7, "rxe0"), 0}, {done(), 0}};
  });
  const auto devices = rdma->devices();
  ASSERT_TRUE(devices) << devices.error().message();
  ASSERT_EQ(devices->size(), 3U);
  EXPECT_EQ((*devices)[2].name, "rxe0");
  EXPECT_EQ((*devices)[2].index, 7U);
  ASSERT_EQ(kernel.requests().size(), 1U);
  EXPECT_EQ(kernel.requests()[0].command, Command::kGet);
  EXPECT_TRUE(kernel.requests()[0].dump());
}

TEST(RdmaNetlink, HostWithoutDevicesIsAnEmptyList) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{done(), 0}}; });
  EXPECT_THAT(rdma->devices().value(), IsEmpty());
}

TEST(RdmaNetlink, PortAnswersUnderTheNameOfGetAreTaken) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    EXPECT_EQ(sent.command, Command::kPortGet);
    EXPECT_EQ(sent.arguments.at(kDevIndex), 3U);
    const ByteVector payload = Attributes().u32(kPortIndex, 1).u8(kPortState, 4).bytes();
    return std::vector<Reply>{{message(message_type(Command::kGet), payload, NLM_F_MULTI), 0}, {done(), 0}};
  });
  const auto ports = rdma->ports(device());
  ASSERT_TRUE(ports);
  ASSERT_EQ(ports->size(), 1U);
  EXPECT_EQ((*ports)[0].state, 4U);
}

TEST(RdmaNetlink, OneRequestGivesAllCountersOfAPort) {
  FakeKernel kernel;
  const auto rdma = kernel.open(
      [](const Sent&) { return std::vector<Reply>{{counters_message(~std::uint64_t{0}), 0}, {acknowledgement(), 0}}; });
  const auto counters = rdma->port_counters(device(), 2);
  ASSERT_TRUE(counters);
  ASSERT_EQ(counters->size(), 1U);
  EXPECT_EQ((*counters)[0].value, ~std::uint64_t{0});
  ASSERT_EQ(kernel.requests().size(), 1U);
  const Sent sent = kernel.requests()[0];
  EXPECT_EQ(sent.command, Command::kStatGet);
  EXPECT_FALSE(sent.dump());
  // Nothing but these: a resource or a mode would ask for something else.
  EXPECT_EQ(sent.arguments, (std::map<std::uint16_t, std::uint64_t>{{kDevIndex, 3}, {kPortIndex, 2}}));
}

TEST(RdmaNetlink, AnswersToOtherRequestsArePassedOver) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    const std::uint32_t other = sent.sequence + 1;
    return std::vector<Reply>{{message(NLMSG_ERROR, ByteVector(20), 0, other), 0},
                              {message(NLMSG_NOOP, {}), 0},
                              {counters_message(5) + message(NLMSG_DONE, {}, 0, other), 0},
                              {acknowledgement(), 0}};
  });
  const auto counters = rdma->port_counters(device(), 1);
  ASSERT_TRUE(counters);
  EXPECT_EQ((*counters)[0].value, 5U);
}

TEST(RdmaNetlink, ReplyThatDoesNotFitIsToldByItsErrno) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{acknowledgement(-EMSGSIZE), 0}}; });
  const auto counters = rdma->port_counters(device(), 1);
  ASSERT_FALSE(counters);
  EXPECT_EQ(counters.error().err, EMSGSIZE);
  EXPECT_EQ(kernel.requests().size(), 1U);
}

TEST(RdmaNetlink, TellsTheKernelsExplanation) {
  FakeKernel kernel;
  const auto rdma = kernel.open(
      [](const Sent&) { return std::vector<Reply>{{acknowledgement(-EPERM, "not in this namespace"), 0}}; });
  const auto counters = rdma->port_counters(device(), 1);
  ASSERT_FALSE(counters);
  EXPECT_EQ(counters.error().kind, ErrorKind::kDenied);
  EXPECT_THAT(counters.error().message(), HasSubstr("not in this namespace"));
  EXPECT_THAT(counters.error().message(), HasSubstr("rdma_stat_get mlx5_3/1"));
}

TEST(RdmaNetlink, ExplanationBehindTheRequestThatIsCarriedAlong) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) {
    nlmsgerr error{};
    error.error = -EPERM;
    error.msg.nlmsg_len = sizeof(nlmsghdr) + 6;  // six bytes of request, eight with padding
    ByteVector payload(sizeof error + 8);
    std::memcpy(payload.data(), &error, sizeof error);
    payload = payload + Attributes().text(NLMSGERR_ATTR_MSG, "why").bytes();
    return std::vector<Reply>{{message(NLMSG_ERROR, payload, NLM_F_ACK_TLVS), 0}};
  });
  EXPECT_THAT(rdma->netns_mode().error().message(), HasSubstr("(why)"));
}

TEST(RdmaNetlink, InvalidIsUnsupportedWhileTheDeviceIsThere) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    if (sent.command == Command::kGet)
      return std::vector<Reply>{{device_message(3, "x", 0), 0}, {acknowledgement(), 0}};
    return std::vector<Reply>{{acknowledgement(-EINVAL), 0}};
  });
  EXPECT_EQ(rdma->port_counters(device(), 1).error().kind, ErrorKind::kUnsupported);
}

TEST(RdmaNetlink, InvalidIsAbsentWhenTheDeviceHasGone) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{acknowledgement(-EINVAL), 0}}; });
  EXPECT_EQ(rdma->port_counters(device(), 1).error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(rdma->resources(device()).error().kind, ErrorKind::kAbsent);
}

TEST(RdmaNetlink, InterruptedDumpStartsAgain) {
  FakeKernel kernel;
  int round = 0;
  const auto rdma = kernel.open([&](const Sent&) {
    if (++round == 1)
      return std::vector<Reply>{{device_message(0, "old", NLM_F_MULTI | NLM_F_DUMP_INTR), 0}, {done(), 0}};
    return std::vector<Reply>{{device_message(1, "new"), 0}, {done(), 0}};
  });
  const auto devices = rdma->devices();
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ((*devices)[0].name, "new");
}

TEST(RdmaNetlink, DumpThatIsAlwaysInterruptedIsGivenUp) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) {
    return std::vector<Reply>{{device_message(0, "a", NLM_F_MULTI | NLM_F_DUMP_INTR), 0}, {done(), 0}};
  });
  EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kBusy);
  EXPECT_EQ(kernel.requests().size(), 3U);
}

TEST(RdmaNetlink, LostDatagramsAreAskedForAgain) {
  FakeKernel kernel;
  int round = 0;
  const auto rdma = kernel.open([&](const Sent&) {
    if (++round == 1) return std::vector<Reply>{{device_message(0, "a"), 0}, {{}, ENOBUFS}};
    return std::vector<Reply>{{device_message(0, "a"), 0}, {device_message(1, "b"), 0}, {done(), 0}};
  });
  EXPECT_EQ(rdma->devices().value().size(), 2U);
  EXPECT_EQ(kernel.opened(), 2);
}

TEST(RdmaNetlink, DatagramsThatAreAlwaysLostAreGivenUp) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{{}, ENOBUFS}}; });
  EXPECT_EQ(rdma->devices().error().err, ENOBUFS);
  EXPECT_EQ(kernel.opened(), 3);
}

TEST(RdmaNetlink, EndOfADumpCanHoldAnError) {
  FakeKernel kernel;
  const auto rdma =
      kernel.open([](const Sent&) { return std::vector<Reply>{{set_message({1}), 0}, {done(-ENOSYS), 0}}; });
  const auto sets = rdma->qp_counter_sets(device());
  ASSERT_FALSE(sets);
  EXPECT_EQ(sets.error().err, ENOSYS);
}

TEST(RdmaNetlink, CounterSetsAreAskedForAsQpResource) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) {
    return std::vector<Reply>{{set_message({}), 0}, {set_message({4, 5}), 0}, {set_message({5, 6}), 0}, {done(), 0}};
  });
  const auto sets = rdma->qp_counter_sets(device());
  ASSERT_TRUE(sets);
  ASSERT_EQ(sets->size(), 3U);
  EXPECT_EQ((*sets)[2].id, 6U);
  const Sent sent = kernel.requests()[0];
  EXPECT_TRUE(sent.dump());
  EXPECT_EQ(sent.arguments, (std::map<std::uint16_t, std::uint64_t>{{kDevIndex, 3}, {kStatRes, kResQp}}));
}

TEST(RdmaNetlink, DumpWithoutEndIsEnded) {
  for (const ByteVector& forever : {set_message({}), set_message({4}), ByteVector{}}) {
    FakeKernel kernel;
    const auto rdma = kernel.open([&](const Sent&) { return std::vector<Reply>(100000, Reply{forever, 0}); });
    const auto sets = rdma->qp_counter_sets(device());
    ASSERT_FALSE(sets);
    EXPECT_EQ(sets.error().err, EMSGSIZE);
    EXPECT_EQ(kernel.requests().size(), 1U);
  }
}

TEST(RdmaNetlink, NoAnswerIsATimeout) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{}; });
  EXPECT_EQ(rdma->devices().error().kind, ErrorKind::kTimeout);
}

TEST(RdmaNetlink, AcknowledgementWithoutAnswerIsMalformed) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{acknowledgement(), 0}}; });
  EXPECT_EQ(rdma->port_counters(device(), 1).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(rdma->netns_mode().error().kind, ErrorKind::kMalformed);
}

TEST(RdmaNetlink, DamagedMessagesAreMalformed) {
  ByteVector too_long = counters_message(1);
  too_long[0] = std::byte{0xff};
  ByteVector too_short = counters_message(1);
  too_short[0] = std::byte{3};
  too_short[1] = std::byte{0};
  const ByteVector no_code = message(NLMSG_ERROR, {});
  const ByteVector not_an_errno = acknowledgement(-5000);
  for (const ByteVector& bytes : {too_long, too_short, no_code, not_an_errno, ByteVector(7)}) {
    FakeKernel kernel;
    const auto rdma = kernel.open([&](const Sent&) { return std::vector<Reply>{{bytes, 0}, {acknowledgement(), 0}}; });
    EXPECT_EQ(rdma->port_counters(device(), 1).error().kind, ErrorKind::kMalformed);
  }
}

// A request that hangs is named while it hangs, and holds up nobody else.
TEST(RdmaNetlink, HangingRequestIsVisibleAndHoldsUpItsCallerAlone) {
  FakeKernel kernel;
  const auto tracker = std::make_shared<CallTracker>();
  std::mutex mutex;
  std::condition_variable changed;
  bool hanging = false;
  bool release = false;
  const auto rdma = kernel.open(
      [&](const Sent& sent) {
        if (sent.arguments.at(kDevIndex) == 1) {
          std::unique_lock lock(mutex);
          hanging = true;
          changed.notify_all();
          changed.wait(lock, [&] { return release; });
        }
        return std::vector<Reply>{{counters_message(sent.arguments.at(kDevIndex)), 0}, {acknowledgement(), 0}};
      },
      tracker);
  std::thread stuck([&] { EXPECT_EQ(rdma->port_counters(device(1), 1).value()[0].value, 1U); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return hanging; });
  }
  EXPECT_EQ(rdma->port_counters(device(2), 1).value()[0].value, 2U);
  const auto calls = tracker->in_flight(std::chrono::seconds(0));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].call, "rdma_stat_get");
  EXPECT_EQ(calls[0].object, "mlx5_3");
  {
    const std::lock_guard lock(mutex);
    release = true;
    changed.notify_all();
  }
  stuck.join();
  EXPECT_THAT(tracker->in_flight(std::chrono::seconds(0)), IsEmpty());
}

TEST(RdmaNetlink, SequenceNumbersDiffer) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{done(), 0}}; });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rdma->devices());
  const auto requests = kernel.requests();
  EXPECT_NE(requests[0].sequence, requests[1].sequence);
  EXPECT_NE(requests[1].sequence, requests[2].sequence);
}

// The whole way through the socket library to the running kernel, whatever this host has: a list or an honest reason,
// and never a module that was not there before.
TEST(RdmaNetlinkLive, RunningKernelAnswersWithoutLoadingAnything) {
  const auto modules = [] {
    std::ifstream file("/proc/modules");
    std::string names;
    for (std::string line; std::getline(file, line);) names += line.substr(0, line.find(' ')) + "\n";
    return names;
  };
  const std::string before = modules();
  const bool loaded = access("/sys/class/infiniband", F_OK) == 0 && access("/sys/module/ib_core", F_OK) == 0;
  const auto rdma = open_rdma_netlink("/sys");
  const auto devices = rdma->devices();
  if (loaded) {
    ASSERT_TRUE(devices) << devices.error().message();
    EXPECT_TRUE(rdma->netns_mode()) << rdma->netns_mode().error().message();
    for (const RdmaDevice& found : *devices) {
      EXPECT_TRUE(std::filesystem::exists("/sys/class/infiniband/" + found.name)) << found.name;
      EXPECT_TRUE(rdma->ports(found));
    }
  } else {
    ASSERT_FALSE(devices);
    EXPECT_EQ(devices.error().kind, ErrorKind::kAbsent);
  }
  EXPECT_EQ(modules(), before);
}

ByteVector qp_message(std::initializer_list<std::uint32_t> numbers) {
  Attributes table;
  for (const auto number : numbers)
    table.nest(kResQpEntry, Attributes().u32(kPortIndex, 1).u32(kResLqpn, number).u8(kResType, 2).u8(kResState, 3));
  return message(message_type(Command::kResQpGet), Attributes().u32(kDevIndex, 3).nest(kResQp, table).bytes(),
                 NLM_F_MULTI);
}

TEST(RdmaNetlink, ListsQpsOverSeveralDatagramsEachOnce) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    EXPECT_EQ(sent.command, Command::kResQpGet);
    EXPECT_TRUE(sent.dump());
    EXPECT_EQ(sent.arguments.at(kDevIndex), 3U);
    EXPECT_EQ(sent.arguments.size(), 1U);
    return std::vector<Reply>{{qp_message({17, 18}), 0}, {qp_message({18, 19}), 0}, {done(), 0}};
  });
  const auto qps = rdma->qps(device());
  ASSERT_TRUE(qps) << qps.error().message();
  EXPECT_FALSE(qps->broken);
  ASSERT_EQ(qps->objects.size(), 3U);
  EXPECT_EQ(qps->objects[2].number, 19U);
}

TEST(RdmaNetlink, AListThatTheKernelBreaksOffIsMarked) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    if (sent.command == Command::kGet)
      return std::vector<Reply>{{device_message(3, "mlx5_3", 0), 0}, {acknowledgement(), 0}};
    return std::vector<Reply>{{qp_message({17}), 0}, {done(-ENOSYS), 0}};
  });
  const auto qps = rdma->qps(device());
  ASSERT_TRUE(qps);
  ASSERT_TRUE(qps->broken);
  EXPECT_EQ(qps->broken->err, ENOSYS);
  EXPECT_EQ(qps->objects.size(), 1U);
}

TEST(RdmaNetlink, AListThatBreaksOffAtOnceIsAnError) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{done(-ENOSYS), 0}}; });
  const auto qps = rdma->qps(device());
  ASSERT_FALSE(qps);
  EXPECT_EQ(qps.error().err, ENOSYS);
}

TEST(RdmaNetlink, MemoryRegionCountersAreAskedForAsAResourceOfStatistics) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent& sent) {
    EXPECT_EQ(sent.command, Command::kStatGet);
    EXPECT_TRUE(sent.dump());
    EXPECT_EQ(sent.arguments.at(kStatRes), std::uint64_t{kResMr});
    return std::vector<Reply>{{done(), 0}};
  });
  const auto regions = rdma->mr_statistics(device());
  ASSERT_TRUE(regions);
  EXPECT_TRUE(regions->objects.empty());
}

TEST(RdmaNetlink, EachListHasItsOwnCommand) {
  FakeKernel kernel;
  const auto rdma = kernel.open([](const Sent&) { return std::vector<Reply>{{done(), 0}}; });
  EXPECT_TRUE(rdma->cm_ids(device()));
  EXPECT_TRUE(rdma->cqs(device()));
  EXPECT_TRUE(rdma->mrs(device()));
  EXPECT_TRUE(rdma->contexts(device()));
  const auto sent = kernel.requests();
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(sent[0].command, Command::kResCmIdGet);
  EXPECT_EQ(sent[1].command, Command::kResCqGet);
  EXPECT_EQ(sent[2].command, Command::kResMrGet);
  EXPECT_EQ(sent[3].command, Command::kResCtxGet);
}

}  // namespace
}  // namespace roce

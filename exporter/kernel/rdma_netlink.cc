// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_netlink.h"

#include <linux/netlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include "exporter/kernel/rdma_messages.h"

namespace roce {
namespace {

using rdma_abi::Attribute;
using rdma_abi::Command;
using Clock = std::chrono::steady_clock;

// The kernel makes dump messages as large as the largest buffer that was offered, up to this.
constexpr std::size_t kBufferSize = 32768;
constexpr int kAttempts = 3;
constexpr std::size_t kMaxDatagrams = 65536;
// The per-QP counter dump can go on without end when an entry does not fit the kernel's buffer.
constexpr std::size_t kMaxIdleDatagrams = 64;
constexpr auto kDumpLimit = std::chrono::seconds(10);

struct FreeMessage {
  void operator()(nl_msg* message) const { nlmsg_free(message); }
};

struct Argument {
  Attribute attribute;
  std::uint32_t value;
};

struct Request {
  Command command;
  bool dump = false;
  std::string_view call;  // name for the tracker
  std::string device;     // empty for the host
  std::vector<Argument> arguments;

  std::string title() const {
    std::string text(call);
    if (!device.empty()) text += " " + device;
    for (const Argument& argument : arguments) {
      if (argument.attribute == Attribute::kPortIndex) text += "/" + std::to_string(argument.value);
    }
    return text;
  }
};

// What a request's messages are given to. `take` tells whether the message held anything new.
struct Sink {
  std::function<void()> restart;
  std::function<Result<bool>(Bytes)> take;
};

enum class Progress { kMore, kDone, kInterrupted };

class NetlinkRdma final : public RdmaSource {
 public:
  NetlinkRdma(const std::string& sysfs_root, std::shared_ptr<CallTracker> tracker, NetlinkConnect connect)
      : class_path_(sysfs_root + "/class/infiniband"),
        core_path_(sysfs_root + "/module/ib_core"),
        tracker_(std::move(tracker)),
        connect_(connect ? std::move(connect)
                         : [] { return open_netlink_channel(rdma_abi::kNetlinkRdma, "rdma netlink"); }) {}

  Result<std::vector<RdmaDevice>> devices() override {
    std::vector<RdmaDevice> all;
    std::set<std::uint32_t> seen;
    const Sink sink{[&] {
                      all.clear();
                      seen.clear();
                    },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(auto device, parse_rdma_device(payload));
                      if (!seen.insert(device.index).second) return false;
                      all.push_back(std::move(device));
                      return true;
                    }};
    ROCE_TRY_VOID(ask({Command::kGet, true, "rdma_get", {}, {}}, sink));
    return all;
  }

  Result<std::vector<RdmaPort>> ports(const RdmaDevice& device) override {
    std::vector<RdmaPort> all;
    std::set<std::uint32_t> seen;
    const Sink sink{[&] {
                      all.clear();
                      seen.clear();
                    },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(auto port, parse_rdma_port(payload));
                      if (!seen.insert(port.port).second) return false;
                      all.push_back(std::move(port));
                      return true;
                    }};
    ROCE_TRY_VOID(ask_device(device, {Command::kPortGet, true, "rdma_port_get", device.name, {}}, sink));
    return all;
  }

  Result<RdmaPort> port(const RdmaDevice& device, std::uint32_t number) override {
    return ask_one(device, number, Command::kPortGet, "rdma_port_get", &parse_rdma_port);
  }

  Result<std::vector<NamedValue>> port_counters(const RdmaDevice& device, std::uint32_t port) override {
    return ask_one(device, port, Command::kStatGet, "rdma_stat_get", &parse_rdma_counters);
  }

  Result<std::vector<CounterStatus>> counter_status(const RdmaDevice& device, std::uint32_t port) override {
    return ask_one(device, port, Command::kStatGetStatus, "rdma_stat_get_status", &parse_rdma_counter_status);
  }

  Result<std::vector<ResourceCount>> resources(const RdmaDevice& device) override {
    return ask_one(device, 0, Command::kResGet, "rdma_res_get", &parse_rdma_resources);
  }

  Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice& device) override {
    std::vector<QpCounterSet> all;
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    const Sink sink{[&] {
                      all.clear();
                      seen.clear();
                    },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(auto sets, parse_rdma_qp_counter_sets(payload));
                      bool news = false;
                      for (auto& set : sets) {
                        if (!seen.insert({set.port, set.id}).second) continue;
                        all.push_back(std::move(set));
                        news = true;
                      }
                      return news;
                    }};
    ROCE_TRY_VOID(ask_device(
        device, {Command::kStatGet, true, "rdma_stat_get_qp", device.name, {{Attribute::kStatRes, Attribute::kResQp}}},
        sink));
    return all;
  }

  Result<RdmaListing<RdmaQp>> qps(const RdmaDevice& device) override {
    // QP 0 and 1 are there once a port.
    return list<RdmaQp>(device, {Command::kResQpGet, true, "rdma_res_qp_get", device.name, {}}, &parse_rdma_qps,
                        [](const RdmaQp& qp) { return std::pair(qp.port, qp.number); });
  }
  Result<RdmaListing<RdmaCmId>> cm_ids(const RdmaDevice& device) override {
    return list<RdmaCmId>(device, {Command::kResCmIdGet, true, "rdma_res_cm_id_get", device.name, {}},
                          &parse_rdma_cm_ids, &id_of<RdmaCmId>);
  }
  Result<RdmaListing<RdmaCq>> cqs(const RdmaDevice& device) override {
    return list<RdmaCq>(device, {Command::kResCqGet, true, "rdma_res_cq_get", device.name, {}}, &parse_rdma_cqs,
                        &id_of<RdmaCq>);
  }
  Result<RdmaListing<RdmaMr>> mrs(const RdmaDevice& device) override {
    return list<RdmaMr>(device, {Command::kResMrGet, true, "rdma_res_mr_get", device.name, {}}, &parse_rdma_mrs,
                        &id_of<RdmaMr>);
  }
  Result<RdmaListing<RdmaVerbsContext>> contexts(const RdmaDevice& device) override {
    return list<RdmaVerbsContext>(device, {Command::kResCtxGet, true, "rdma_res_ctx_get", device.name, {}},
                                  &parse_rdma_contexts, &id_of<RdmaVerbsContext>);
  }
  Result<RdmaListing<RdmaMrStatistic>> mr_statistics(const RdmaDevice& device) override {
    return list<RdmaMrStatistic>(
        device, {Command::kStatGet, true, "rdma_stat_get_mr", device.name, {{Attribute::kStatRes, Attribute::kResMr}}},
        &parse_rdma_mr_statistics, &id_of<RdmaMrStatistic>);
  }

  Result<NetnsMode> netns_mode() override {
    std::optional<NetnsMode> mode;
    const Sink sink{[&] { mode.reset(); },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(mode, parse_rdma_netns_mode(payload));
                      return true;
                    }};
    ROCE_TRY_VOID(ask({Command::kSysGet, false, "rdma_sys_get", {}, {}}, sink));
    if (!mode) return fail(ErrorKind::kMalformed, "rdma_sys_get: no answer");
    return *mode;
  }

 private:
  using ObjectId = std::pair<std::uint32_t, std::uint32_t>;  // 0, 0: none
  template <class T>
  static ObjectId id_of(const T& object) {
    return {0, object.id};
  }

  // All objects of one kind. What came before the kernel gave up is kept and marked.
  template <class T>
  Result<RdmaListing<T>> list(const RdmaDevice& device, Request request, Result<std::vector<T>> (*parse)(Bytes),
                              ObjectId (*id)(const T&)) {
    RdmaListing<T> listing;
    std::set<ObjectId> seen;
    const Sink sink{[&] {
                      listing.objects.clear();
                      seen.clear();
                    },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(auto objects, parse(payload));
                      bool news = false;
                      for (T& object : objects) {
                        const ObjectId key = id(object);
                        if (key != ObjectId() && !seen.insert(key).second) continue;
                        listing.objects.push_back(std::move(object));
                        news = true;
                      }
                      return news;
                    }};
    if (auto asked = ask_device(device, std::move(request), sink); !asked) {
      if (listing.objects.empty()) return tl::unexpected<Error>(std::move(asked).error());
      listing.broken = std::move(asked).error();
    }
    return listing;
  }

  // A request that one message answers.
  template <class T>
  Result<T> ask_one(const RdmaDevice& device, std::uint32_t port, Command command, std::string_view call,
                    Result<T> (*parse)(Bytes)) {
    std::optional<T> value;
    Request request{command, false, call, device.name, {}};
    if (port != 0) request.arguments.push_back({Attribute::kPortIndex, port});
    const Sink sink{[&] { value.reset(); },
                    [&](Bytes payload) -> Result<bool> {
                      ROCE_TRY(value, parse(payload));
                      return true;
                    }};
    ROCE_TRY_VOID(ask_device(device, std::move(request), sink));
    if (!value) return fail(ErrorKind::kMalformed, std::string(call) + " " + device.name + ": no answer");
    return std::move(*value);
  }

  // EINVAL stands for "no such device" as well as for "cannot": tell them apart.
  Result<void> ask_device(const RdmaDevice& device, Request request, const Sink& sink) {
    request.arguments.insert(request.arguments.begin(), {Attribute::kDevIndex, device.index});
    auto result = ask(request, sink);
    if (result || (result.error().err != EINVAL && result.error().err != ENODEV)) return result;
    const Sink nothing{[] {}, [](Bytes) -> Result<bool> { return true; }};
    const auto there =
        ask({Command::kGet, false, "rdma_get", device.name, {{Attribute::kDevIndex, device.index}}}, nothing);
    if (!there && (there.error().err == EINVAL || there.error().err == ENODEV))
      return fail(ErrorKind::kAbsent, request.title(), ENODEV);
    return result;
  }

  Result<void> ask(const Request& request, const Sink& sink) {
    if (access(class_path_.c_str(), F_OK) != 0 || access(core_path_.c_str(), F_OK) != 0)
      return fail(ErrorKind::kAbsent, class_path_);
    Result<Progress> last = Progress::kInterrupted;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      sink.restart();
      last = attempt_once(request, sink);
      if (last ? *last == Progress::kDone : last.error().err != ENOBUFS) break;
    }
    if (!last) return tl::unexpected<Error>(std::move(last).error());
    if (*last != Progress::kDone) return fail(ErrorKind::kBusy, request.title() + ": the list changes", EINTR);
    return {};
  }

  Result<Progress> attempt_once(const Request& request, const Sink& sink) {
    const std::unique_ptr<nl_msg, FreeMessage> message(nlmsg_alloc_simple(
        rdma_abi::message_type(request.command), NLM_F_REQUEST | (request.dump ? NLM_F_DUMP : NLM_F_ACK)));
    if (!message) return fail_errno(ENOMEM, request.title());
    for (const Argument& argument : request.arguments) {
      if (nla_put_u32(message.get(), argument.attribute, argument.value) < 0)
        return fail_errno(ENOMEM, request.title());
    }
    nlmsghdr* const header = nlmsg_hdr(message.get());
    const std::uint32_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed);
    header->nlmsg_seq = sequence;

    ROCE_TRY(auto channel, connect_());
    const CallTracker::Scope scope(tracker_.get(), request.call, request.device);
    ROCE_TRY_VOID(channel->send(std::as_bytes(std::span(reinterpret_cast<const char*>(header), header->nlmsg_len))));

    const auto limit = Clock::now() + kDumpLimit;
    std::array<std::byte, kBufferSize> buffer;
    Conversation state;
    for (;;) {
      auto size = channel->receive(buffer);
      if (!size) {
        if (size.error().err == EAGAIN) return fail(ErrorKind::kTimeout, request.title(), ETIMEDOUT);
        size.error().object = request.title();
        return tl::unexpected<Error>(std::move(size).error());
      }
      ROCE_TRY(const Progress progress, datagram(Bytes(buffer).first(*size), sequence, request, sink, state));
      if (progress != Progress::kMore) return progress;
      if (state.datagrams > kMaxDatagrams || state.idle > kMaxIdleDatagrams)
        return fail_errno(EMSGSIZE, request.title() + ": the dump does not end");
      if (Clock::now() > limit) return fail(ErrorKind::kTimeout, request.title(), ETIMEDOUT);
    }
  }

  struct Conversation {
    std::size_t datagrams = 0;
    std::size_t idle = 0;  // datagrams since the last that held anything new
    bool interrupted = false;
  };

  static Result<Progress> datagram(Bytes bytes, std::uint32_t sequence, const Request& request, const Sink& sink,
                                   Conversation& state) {
    ++state.datagrams;
    ++state.idle;
    while (!bytes.empty()) {
      nlmsghdr header{};
      if (bytes.size() < sizeof header) return fail(ErrorKind::kMalformed, request.title());
      std::memcpy(&header, bytes.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > bytes.size())
        return fail(ErrorKind::kMalformed, request.title());
      const Bytes payload = bytes.subspan(sizeof header, header.nlmsg_len - sizeof header);
      bytes = bytes.subspan(std::min((std::size_t{header.nlmsg_len} + 3) & ~std::size_t{3}, bytes.size()));
      if (header.nlmsg_seq != sequence) continue;
      if ((header.nlmsg_flags & NLM_F_DUMP_INTR) != 0) state.interrupted = true;

      if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE) {
        // A negative errno, or 0 as acknowledgement. The end of a dump that failed midway holds one too.
        std::int32_t code = 0;
        if (payload.size() >= sizeof code) {
          std::memcpy(&code, payload.data(), sizeof code);
        } else if (header.nlmsg_type == NLMSG_ERROR) {
          return fail(ErrorKind::kMalformed, request.title());
        }
        if (code < 0 && code >= -4095) {
          std::string title = request.title();
          if (const std::string why = netlink_explanation(header, payload); !why.empty()) title += " (" + why + ")";
          return fail_errno(-code, std::move(title));
        }
        if (code < 0) return fail(ErrorKind::kMalformed, request.title());
        return state.interrupted ? Progress::kInterrupted : Progress::kDone;
      }
      if (header.nlmsg_type < NLMSG_MIN_TYPE) {
        if (header.nlmsg_type == NLMSG_OVERRUN) return fail_errno(ENOBUFS, request.title());
        continue;  // NLMSG_NOOP
      }
      // The answer's operation is not compared: PORT_GET is answered as GET.
      auto news = sink.take(payload);
      if (!news) {
        news.error().object += " in " + request.title();
        return tl::unexpected<Error>(std::move(news).error());
      }
      if (*news) state.idle = 0;
    }
    return Progress::kMore;
  }

  const std::string class_path_;
  const std::string core_path_;
  const std::shared_ptr<CallTracker> tracker_;
  const NetlinkConnect connect_;
  std::atomic<std::uint32_t> sequence_{1};
};

}  // namespace

std::unique_ptr<RdmaSource> open_rdma_netlink(const std::string& sysfs_root, std::shared_ptr<CallTracker> tracker,
                                              NetlinkConnect connect) {
  return std::make_unique<NetlinkRdma>(sysfs_root, std::move(tracker), std::move(connect));
}

}  // namespace roce

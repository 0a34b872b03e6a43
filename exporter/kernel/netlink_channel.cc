// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/netlink_channel.h"

#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace roce {
namespace {

constexpr timeval kReceiveTimeout{2, 0};
constexpr std::size_t kBufferSize = 32768;
// Bounds of an answer that does not end: datagrams, and time.
constexpr std::size_t kMaxDatagrams = 65536;
constexpr auto kLimit = std::chrono::seconds(10);

struct FreeSocket {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
int errno_or(int fallback) { return errno != 0 ? errno : fallback; }

class KernelChannel final : public NetlinkChannel {
 public:
  static Result<std::unique_ptr<NetlinkChannel>> open(int protocol, std::string name) {
    std::unique_ptr<nl_sock, FreeSocket> socket(nl_socket_alloc());
    if (!socket) return fail_errno(ENOMEM, name + " socket");
    errno = 0;
    if (nl_connect(socket.get(), protocol) < 0) return fail_errno(errno_or(EIO), name + " socket");
    const int fd = nl_socket_get_fd(socket.get());
    const int on = 1;
    // Without these two an error lacks its text or carries the request along: no reason to fail.
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kReceiveTimeout, sizeof kReceiveTimeout) != 0)
      return fail_errno(errno, name + " socket");
    return std::make_unique<KernelChannel>(std::move(socket), std::move(name));
  }

  KernelChannel(std::unique_ptr<nl_sock, FreeSocket> socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}

  Result<void> send(std::span<const std::byte> message) override {
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    for (;;) {
      if (sendto(nl_socket_get_fd(socket_.get()), message.data(), message.size(), 0,
                 reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) >= 0)
        return {};
      if (errno != EINTR) return fail_errno(errno, name_ + " send");
    }
  }

  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    for (;;) {
      sockaddr_nl sender{};
      iovec part{buffer.data(), buffer.size()};
      msghdr header{};
      header.msg_name = &sender;
      header.msg_namelen = sizeof sender;
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      const ssize_t size = recvmsg(nl_socket_get_fd(socket_.get()), &header, 0);
      if (size < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, name_ + " receive");
      }
      if (sender.nl_pid != 0) continue;  // another process wrote to this socket
      if ((header.msg_flags & MSG_TRUNC) != 0) return fail_errno(EMSGSIZE, name_ + " receive");
      return static_cast<std::size_t>(size);
    }
  }

 private:
  std::unique_ptr<nl_sock, FreeSocket> socket_;
  const std::string name_;
};

std::uint32_t next_sequence() {
  static std::atomic<std::uint32_t> sequence{1};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

// What the message that ends an answer says: a negative errno, or 0. The end of a list that failed midway holds one
// too.
Result<void> end_of_answer(const nlmsghdr& header, Bytes content, const std::string& title) {
  std::int32_t code = 0;
  if (content.size() >= sizeof code)
    std::memcpy(&code, content.data(), sizeof code);
  else if (header.nlmsg_type == NLMSG_ERROR)
    return fail(ErrorKind::kMalformed, title);
  if (code >= 0) return {};
  if (code < -4095) return fail(ErrorKind::kMalformed, title);
  const std::string why = netlink_explanation(header, content);
  return fail_errno(-code, why.empty() ? title : title + " (" + why + ")");
}

}  // namespace

Result<std::unique_ptr<NetlinkChannel>> open_netlink_channel(int protocol, std::string name) {
  return KernelChannel::open(protocol, std::move(name));
}

std::string netlink_explanation(const nlmsghdr& header, Bytes payload) {
  if ((header.nlmsg_flags & NLM_F_ACK_TLVS) == 0) return {};
  std::size_t offset = sizeof(std::int32_t);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    if (payload.size() < sizeof error) return {};
    std::memcpy(&error, payload.data(), sizeof error);
    offset = sizeof error;
    if ((header.nlmsg_flags & NLM_F_CAPPED) == 0) {
      // The request's payload comes first.
      if (error.msg.nlmsg_len < sizeof(nlmsghdr)) return {};
      offset += (std::size_t{error.msg.nlmsg_len} - sizeof(nlmsghdr) + 3) & ~std::size_t{3};
    }
  }
  if (offset > payload.size()) return {};
  AttributeReader reader(payload.subspan(offset));
  NetlinkAttribute attribute;
  while (reader.next(attribute)) {
    if (attribute.type == NLMSGERR_ATTR_MSG) return std::string(attribute.text());
  }
  return {};
}

Result<void> netlink_converse(NetlinkChannel& channel, std::uint16_t type, std::uint16_t flags, Bytes payload,
                              const std::string& title, const std::function<Result<bool>(Bytes)>& take) {
  nlmsghdr request{};
  request.nlmsg_len = static_cast<std::uint32_t>(sizeof request + payload.size());
  request.nlmsg_type = type;
  request.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  request.nlmsg_seq = next_sequence();
  std::vector<std::byte> message(request.nlmsg_len);
  std::memcpy(message.data(), &request, sizeof request);
  std::copy(payload.begin(), payload.end(), message.begin() + sizeof request);
  ROCE_TRY_VOID(channel.send(message));

  const auto limit = std::chrono::steady_clock::now() + kLimit;
  bool interrupted = false;
  std::array<std::byte, kBufferSize> buffer;  // NOLINT: filled by receive
  for (std::size_t i = 0; i < kMaxDatagrams; ++i) {
    const auto size = channel.receive(buffer);
    if (!size) {
      if (size.error().err == EAGAIN) return fail(ErrorKind::kTimeout, title, ETIMEDOUT);
      return fail(size.error().kind, title, size.error().err);
    }
    Bytes rest = Bytes(buffer).first(*size);
    while (!rest.empty()) {
      nlmsghdr header{};
      if (rest.size() < sizeof header) return fail(ErrorKind::kMalformed, title);
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) return fail(ErrorKind::kMalformed, title);
      const Bytes content = rest.subspan(sizeof header, header.nlmsg_len - sizeof header);
      rest = rest.subspan(std::min((std::size_t{header.nlmsg_len} + 3) & ~std::size_t{3}, rest.size()));
      if (header.nlmsg_seq != request.nlmsg_seq || header.nlmsg_type == NLMSG_NOOP) continue;
      interrupted = interrupted || (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
      if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE) {
        ROCE_TRY_VOID(end_of_answer(header, content, title));
        if (interrupted) return fail(ErrorKind::kBusy, title + ": the list changes", EINTR);
        return {};
      }
      if (header.nlmsg_type < NLMSG_MIN_TYPE) return fail(ErrorKind::kMalformed, title);
      ROCE_TRY(const bool enough, take(content));
      if (enough) return {};
    }
    if (std::chrono::steady_clock::now() > limit) break;
  }
  return fail(ErrorKind::kTimeout, title + ": the answer does not end", ETIMEDOUT);
}

Result<std::vector<std::byte>> netlink_ask(NetlinkChannel& channel, std::uint16_t type, Bytes payload,
                                           const std::string& title) {
  std::optional<std::vector<std::byte>> answer;
  ROCE_TRY_VOID(netlink_converse(channel, type, 0, payload, title, [&](Bytes content) -> Result<bool> {
    answer.emplace(content.begin(), content.end());
    return true;
  }));
  if (!answer) return fail(ErrorKind::kMalformed, title + ": no answer");
  return std::move(*answer);
}

Result<void> netlink_dump(NetlinkChannel& channel, std::uint16_t type, Bytes payload, const std::string& title,
                          const std::function<Result<void>(Bytes)>& take) {
  return netlink_converse(channel, type, NLM_F_DUMP, payload, title, [&](Bytes content) -> Result<bool> {
    ROCE_TRY_VOID(take(content));
    return false;
  });
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/netlink_dump.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace roce {
namespace {

constexpr std::size_t kBufferSize = 32768;
constexpr std::size_t kMaxDatagrams = 65536;
constexpr auto kLimit = std::chrono::seconds(10);

std::uint32_t next_sequence() {
  static std::atomic<std::uint32_t> sequence{0x64756d70};
  return sequence.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Result<void> netlink_dump(NetlinkChannel& channel, std::uint16_t type, Bytes payload, const std::string& title,
                          const std::function<Result<void>(Bytes)>& take) {
  nlmsghdr request{};
  request.nlmsg_len = static_cast<std::uint32_t>(sizeof request + payload.size());
  request.nlmsg_type = type;
  request.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
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
        // A negative errno. The end of a list that failed midway holds one too.
        std::int32_t code = 0;
        if (content.size() >= sizeof code)
          std::memcpy(&code, content.data(), sizeof code);
        else if (header.nlmsg_type == NLMSG_ERROR)
          return fail(ErrorKind::kMalformed, title);
        if (code < 0 && code >= -4095) {
          const std::string why = netlink_explanation(header, content);
          return fail_errno(-code, why.empty() ? title : title + " (" + why + ")");
        }
        if (code < 0) return fail(ErrorKind::kMalformed, title);
        if (interrupted) return fail(ErrorKind::kBusy, title + ": the list changes", EINTR);
        return {};
      }
      if (header.nlmsg_type < NLMSG_MIN_TYPE) return fail(ErrorKind::kMalformed, title);
      ROCE_TRY_VOID(take(content));
    }
    if (std::chrono::steady_clock::now() > limit) break;
  }
  return fail(ErrorKind::kTimeout, title + ": the list does not end", ETIMEDOUT);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "exporter/kernel/route.h"

namespace roce {
namespace {

constexpr timeval kReceiveTimeout{2, 0};
constexpr std::size_t kReplySize = 8192;

class Socket {
 public:
  Socket() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Request {
  nlmsghdr header;
  rtmsg message;
  std::array<std::uint8_t, 64> attributes;
};

class NetlinkRoutes : public RouteSource {
 public:
  explicit NetlinkRoutes(std::shared_ptr<CallTracker> calls) : calls_(std::move(calls)) {}

  Result<std::string> route(const IpAddress& target) override { return ask(target, false); }
  // The entry that matches an address of this host is the one of the table of local addresses, with its device.
  Result<std::string> owner(const IpAddress& own) override { return ask(own, true); }

 private:
  Result<std::string> ask(const IpAddress& address, bool local) {
    const CallTracker::Scope scope(calls_.get(), "route_get", "");
    const Socket socket;
    if (socket.get() < 0) return fail_errno(errno, "route netlink socket");
    if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kReceiveTimeout, sizeof kReceiveTimeout) != 0)
      return fail_errno(errno, "route netlink socket");

    Request request{};
    const std::size_t size = address.v6 ? 16 : 4;
    const auto attribute_size = static_cast<unsigned short>(RTA_LENGTH(size));
    request.header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(sizeof(rtmsg)) + RTA_ALIGN(attribute_size));
    request.header.nlmsg_type = RTM_GETROUTE;
    request.header.nlmsg_flags = NLM_F_REQUEST;
    request.header.nlmsg_seq = 1;
    request.message.rtm_family = address.v6 ? AF_INET6 : AF_INET;
    request.message.rtm_dst_len = static_cast<unsigned char>(size * 8);
    request.message.rtm_flags = local ? RTM_F_FIB_MATCH : RTM_F_LOOKUP_TABLE;
    const rtattr destination{attribute_size, RTA_DST};
    std::memcpy(request.attributes.data(), &destination, sizeof destination);
    std::memcpy(request.attributes.data() + RTA_LENGTH(0), address.bytes.data(), size);
    if (send(socket.get(), &request, request.header.nlmsg_len, 0) < 0) return fail_errno(errno, "route netlink send");

    alignas(nlmsghdr) std::array<char, kReplySize> buffer;  // NOLINT: filled by recv
    ssize_t received = 0;
    do {
      received = recv(socket.get(), buffer.data(), buffer.size(), 0);
    } while (received < 0 && errno == EINTR);
    if (received < 0) return fail_errno(errno, "route netlink receive");
    return device_of(std::string_view(buffer.data(), static_cast<std::size_t>(received)), local);
  }

  static Result<std::string> device_of(std::string_view reply, bool local) {
    const Error malformed{ErrorKind::kMalformed, 0, "route netlink reply"};
    nlmsghdr header{};
    if (reply.size() < sizeof header) return tl::unexpected(malformed);
    std::memcpy(&header, reply.data(), sizeof header);
    if (header.nlmsg_len > reply.size() || header.nlmsg_len < sizeof header) return tl::unexpected(malformed);
    std::string_view payload = reply.substr(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
    if (header.nlmsg_type == NLMSG_ERROR) {
      std::int32_t code = 0;
      if (payload.size() < sizeof code) return tl::unexpected(malformed);
      std::memcpy(&code, payload.data(), sizeof code);
      if (code == -ENETUNREACH || code == -EHOSTUNREACH || code == -EACCES)
        return fail(ErrorKind::kAbsent, "route", -code);
      return fail_errno(-code, "route");
    }
    rtmsg message{};
    if (header.nlmsg_type != RTM_NEWROUTE || payload.size() < sizeof message) return tl::unexpected(malformed);
    std::memcpy(&message, payload.data(), sizeof message);
    // An address that is not this host's own matches some other entry.
    if (local && message.rtm_type != RTN_LOCAL) return fail(ErrorKind::kAbsent, "route");
    payload.remove_prefix(NLMSG_ALIGN(sizeof message));
    while (payload.size() >= sizeof(rtattr)) {
      rtattr attribute{};
      std::memcpy(&attribute, payload.data(), sizeof attribute);
      if (attribute.rta_len < sizeof attribute || attribute.rta_len > payload.size()) break;
      if (attribute.rta_type == RTA_OIF && attribute.rta_len >= RTA_LENGTH(sizeof(std::uint32_t))) {
        std::uint32_t index = 0;
        std::memcpy(&index, payload.data() + RTA_LENGTH(0), sizeof index);
        std::array<char, IF_NAMESIZE> name{};
        if (if_indextoname(index, name.data()) == nullptr) return fail_errno(errno, "route");
        return std::string(name.data());
      }
      const std::size_t step = RTA_ALIGN(attribute.rta_len);
      payload.remove_prefix(step < payload.size() ? step : payload.size());
    }
    return fail(ErrorKind::kAbsent, "route");
  }

  std::shared_ptr<CallTracker> calls_;
};

}  // namespace

std::shared_ptr<RouteSource> open_route_netlink(std::shared_ptr<CallTracker> calls) {
  return std::make_shared<NetlinkRoutes>(std::move(calls));
}

}  // namespace roce

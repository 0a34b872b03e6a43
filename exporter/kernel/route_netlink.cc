// SPDX-License-Identifier: Apache-2.0
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "exporter/kernel/generic_netlink.h"
#include "exporter/kernel/netlink_channel.h"
#include "exporter/kernel/route.h"

namespace roce {
namespace {

class NetlinkRoutes : public RouteSource {
 public:
  explicit NetlinkRoutes(std::shared_ptr<CallTracker> calls) : calls_(std::move(calls)) {}

  Result<std::string> route(const IpAddress& target) override { return ask(target, false); }
  // The entry that matches an address of this host is the one of the table of local addresses, with its device.
  Result<std::string> owner(const IpAddress& own) override { return ask(own, true); }

 private:
  Result<std::string> ask(const IpAddress& address, bool local) {
    const CallTracker::Scope scope(calls_.get(), "route_get", "");
    ROCE_TRY(const auto channel, open_netlink_channel(NETLINK_ROUTE, "route netlink"));
    const std::size_t size = address.v6 ? 16 : 4;
    rtmsg message{};
    message.rtm_family = address.v6 ? AF_INET6 : AF_INET;
    message.rtm_dst_len = static_cast<unsigned char>(size * 8);
    message.rtm_flags = local ? RTM_F_FIB_MATCH : RTM_F_LOOKUP_TABLE;
    AttributeWriter attributes;
    attributes.raw(RTA_DST, std::as_bytes(std::span(address.bytes)).first(size));
    const Bytes head = std::as_bytes(std::span(&message, 1));
    std::vector<std::byte> request(head.begin(), head.end());
    request.insert(request.end(), attributes.bytes().begin(), attributes.bytes().end());
    const auto reply = netlink_ask(*channel, RTM_GETROUTE, request, "route");
    if (reply) return device_of(*reply, local);
    const int err = reply.error().err;
    if (err == ENETUNREACH || err == EHOSTUNREACH || err == EACCES) return fail(ErrorKind::kAbsent, "route", err);
    return tl::unexpected(reply.error());
  }

  static Result<std::string> device_of(Bytes reply, bool local) {
    rtmsg message{};
    if (reply.size() < sizeof message) return fail(ErrorKind::kMalformed, "route netlink reply");
    std::memcpy(&message, reply.data(), sizeof message);
    // An address that is not this host's own matches some other entry.
    if (local && message.rtm_type != RTN_LOCAL) return fail(ErrorKind::kAbsent, "route");
    AttributeReader reader(reply.subspan(sizeof message));
    for (NetlinkAttribute a; reader.next(a);) {
      if (a.type != RTA_OIF) continue;
      const auto index = a.number();
      if (!index) break;
      std::array<char, IF_NAMESIZE> name{};
      if (if_indextoname(static_cast<unsigned>(*index), name.data()) == nullptr) return fail_errno(errno, "route");
      return std::string(name.data());
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

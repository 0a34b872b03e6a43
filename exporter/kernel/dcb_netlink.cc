// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/dcb_netlink.h"

#include <linux/netlink.h>
#include <net/if.h>

#include <cstring>
#include <utility>

#include "exporter/kernel/dcb_messages.h"

namespace roce {
namespace {

// struct dcbmsg and the name of the network device.
std::vector<std::byte> request(const std::string& netdev) {
  const std::size_t name_size = netdev.size() + 1;
  std::vector<std::byte> bytes(dcb_abi::kHeaderSize + ((NLA_HDRLEN + name_size + 3) & ~std::size_t{3}));
  bytes[1] = std::byte{dcb_abi::kCommandIeeeGet};
  const auto length = static_cast<std::uint16_t>(NLA_HDRLEN + name_size);
  const std::uint16_t type = dcb_abi::kIfName;
  std::byte* at = bytes.data() + dcb_abi::kHeaderSize;
  std::memcpy(at, &length, sizeof length);
  std::memcpy(at + sizeof length, &type, sizeof type);
  std::memcpy(at + NLA_HDRLEN, netdev.data(), netdev.size());
  return bytes;
}

class NetlinkDcb final : public DcbSource {
 public:
  NetlinkDcb(std::shared_ptr<CallTracker> tracker, NetlinkConnect connect)
      : tracker_(std::move(tracker)),
        connect_(connect ? std::move(connect) : [] { return open_netlink_channel(NETLINK_ROUTE, "route netlink"); }) {}

  Result<DcbState> state(const std::string& netdev) override {
    const std::string title = "dcb_get " + netdev;
    if (netdev.empty() || netdev.size() >= IFNAMSIZ) return fail(ErrorKind::kAbsent, title);
    ROCE_TRY(const auto channel, connect_());
    const CallTracker::Scope scope(tracker_.get(), "dcb_get", netdev);
    ROCE_TRY(const auto answer, netlink_ask(*channel, dcb_abi::kGet, request(netdev), title));
    auto state = parse_dcb_state(answer);
    if (!state) state.error().object += " of " + netdev;
    return state;
  }

 private:
  const std::shared_ptr<CallTracker> tracker_;
  const NetlinkConnect connect_;
};

}  // namespace

std::unique_ptr<DcbSource> open_dcb_netlink(std::shared_ptr<CallTracker> tracker, NetlinkConnect connect) {
  return std::make_unique<NetlinkDcb>(std::move(tracker), std::move(connect));
}

}  // namespace roce

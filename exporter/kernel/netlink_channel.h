// SPDX-License-Identifier: Apache-2.0
//
// Netlink sockets, behind an interface that tests replace. One conversation at a time a channel; different channels may
// be used by different threads.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/netlink_attribute.h"

namespace roce {

// A datagram connection with the kernel, for one request at a time.
class NetlinkChannel {
 public:
  virtual ~NetlinkChannel() = default;
  virtual Result<void> send(std::span<const std::byte> message) = 0;
  // Waits for one datagram from the kernel and gives its size. Error.err: EAGAIN none came in time, ENOBUFS some were
  // lost, EMSGSIZE it is larger than the buffer.
  virtual Result<std::size_t> receive(std::span<std::byte> buffer) = 0;
};

using NetlinkConnect = std::function<Result<std::unique_ptr<NetlinkChannel>>()>;

// A socket of `protocol` (NETLINK_ROUTE ...) with a receive timeout of 2 s. `name` begins the texts of its errors. The
// caller has made sure that the protocol exists: opening a socket of one that does not can load a module.
Result<std::unique_ptr<NetlinkChannel>> open_netlink_channel(int protocol, std::string name);

// The kernel's explanation in the payload of an error or end message, empty when it gave none.
std::string netlink_explanation(const nlmsghdr& header, Bytes payload);

// Sends a request of `type` and gives the payload of each message of the answer, all that follows its header, to `take`
// until that says that it has what it wants, until the kernel ends the answer, or with its error. The channel is of no
// further use after a failure. `flags` go beside NLM_F_REQUEST. `title` names the request in errors, which carry the
// kernel's errno. kBusy: what was asked for changed meanwhile, what was taken may lack something; kTimeout: no further
// message came in time.
Result<void> netlink_converse(NetlinkChannel& channel, std::uint16_t type, std::uint16_t flags, Bytes payload,
                              const std::string& title, const std::function<Result<bool>(Bytes)>& take);

// The same for a request that one message answers: its payload.
Result<std::vector<std::byte>> netlink_ask(NetlinkChannel& channel, std::uint16_t type, Bytes payload,
                                           const std::string& title);

// The same for a list, all of whose messages `take` is given.
Result<void> netlink_dump(NetlinkChannel& channel, std::uint16_t type, Bytes payload, const std::string& title,
                          const std::function<Result<void>(Bytes)>& take);

}  // namespace roce

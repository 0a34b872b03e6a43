// SPDX-License-Identifier: Apache-2.0
//
// Requests to one family of generic netlink. Thread-safe: each request has a socket of its own, since the kernel works
// on a request inside the sender's call for as long as a driver takes. The family is looked for in the kernel's list of
// those that are there; asking for it by name would make the kernel load a module. A family that is not there is
// kAbsent, and looked for again after a minute.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/netlink_channel.h"

namespace roce {

// Builds a sequence of netlink attributes.
class AttributeWriter {
 public:
  AttributeWriter& raw(std::uint16_t type, Bytes payload);
  AttributeWriter& flag(std::uint16_t type) { return raw(type, {}); }
  AttributeWriter& u32(std::uint16_t type, std::uint32_t value);
  AttributeWriter& text(std::uint16_t type, std::string_view value);  // with the NUL at its end
  AttributeWriter& nest(std::uint16_t type, const AttributeWriter& inner);

  Bytes bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class GenericNetlink {
 public:
  // `tracker` may be null. `connect` replaces the kernel's socket (tests).
  GenericNetlink(std::string family, std::uint8_t version, std::shared_ptr<CallTracker> tracker,
                 NetlinkConnect connect = {});

  // One request that one message answers: its attributes, behind both headers. `call` and `object` name it in the
  // tracker and in errors, which carry the kernel's errno.
  Result<std::vector<std::byte>> ask(std::uint8_t command, Bytes attributes, std::string_view call,
                                     const std::string& object);

  // A list: the attributes of each of its messages go to `take`, which may end it with an error. kBusy: the list
  // changed while it was read.
  Result<void> dump(std::uint8_t command, Bytes attributes, std::string_view call, const std::string& object,
                    const std::function<Result<void>(Bytes)>& take);

 private:
  using Clock = std::chrono::steady_clock;
  Result<std::uint16_t> family_id(NetlinkChannel& channel);
  void forget_family();

  const std::string family_;
  const std::uint8_t version_;
  const std::shared_ptr<CallTracker> tracker_;
  const NetlinkConnect connect_;
  std::mutex mutex_;
  std::optional<std::uint16_t> id_;
  Clock::time_point look_again_{};
};

}  // namespace roce

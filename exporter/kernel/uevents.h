// SPDX-License-Identifier: Apache-2.0
//
// Devices that come, go, move or change, as the kernel announces them (NETLINK_KOBJECT_UEVENT, kernel group; no
// privilege needed). Only messages of the kernel itself are taken. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "exporter/base/result.h"

namespace roce {

struct Uevent {
  std::string action;      // add, remove, move (renamed), change, bind, unbind, ...; overrun: events were lost
  std::string devpath;     // below /sys
  std::string subsystem;   // infiniband, net, pci, ...
  std::string name;        // last component of devpath
  std::string old_name;    // of a move
  std::string nvme_event;  // NVME_EVENT of a controller: connected, rediscover
};

// The event of one kernel message; nothing when it is not one (udev's own messages, damaged ones).
std::optional<Uevent> parse_uevent(std::string_view message);

// Calls back on a thread of its own, one event at a time, until it is destroyed. When the kernel had to drop events
// the callback gets one with the action "overrun" and nothing else: look at everything again.
class UeventMonitor {
 public:
  // `queue_bytes`: what the kernel may hold for the callback. Hundreds of functions can come at once.
  static Result<std::unique_ptr<UeventMonitor>> start(std::function<void(const Uevent&)> callback,
                                                      int queue_bytes = 1 << 20);
  ~UeventMonitor();  // waits for a callback under way; must not be called from the callback
  UeventMonitor(const UeventMonitor&) = delete;
  UeventMonitor& operator=(const UeventMonitor&) = delete;

 private:
  UeventMonitor(int socket, int wake, std::function<void(const Uevent&)> callback);
  void run();
  bool receive();  // false: the socket has failed for good
  void call(const Uevent& event);

  const int socket_;
  const int wake_;  // eventfd
  const std::function<void(const Uevent&)> callback_;
  std::thread thread_;
};

}  // namespace roce

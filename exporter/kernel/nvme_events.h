// SPDX-License-Identifier: Apache-2.0
//
// How often each NVMe controller was connected while this program ran, as the kernel announces it
// (NVME_EVENT=connected, since Linux 5.18). A loss that is over between two reads shows in nothing else. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "exporter/kernel/uevents.h"

namespace roce {

class NvmeEvents {
 public:
  // Takes any event; those that are not about NVMe controllers are none of its business.
  void record(const Uevent& event);

  // Connections of a controller since it was made or the program began.
  std::uint64_t connections(std::string_view controller) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> connections_;
};

}  // namespace roce

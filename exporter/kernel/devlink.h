// SPDX-License-Identifier: Apache-2.0
//
// Health reporters of device drivers as devlink tells them, behind an interface. Calls may be made from several threads
// at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/netlink_channel.h"

namespace roce {

// How devlink names a device: bus "pci" and its address, or "auxiliary" and the name of a sub-function.
struct DevlinkHandle {
  std::string bus;
  std::string name;
  bool operator==(const DevlinkHandle&) const = default;
};

struct HealthReporter {
  DevlinkHandle device;
  std::string name;                   // fw, fw_fatal, tx, rx, ...
  std::optional<std::uint32_t> port;  // devlink's own index; none: of the device
  bool in_error = false;
  std::uint64_t errors = 0;
  std::uint64_t recoveries = 0;
};

class DevlinkSource {
 public:
  virtual ~DevlinkSource() = default;
  // Those of one device. kAbsent: the kernel has no devlink, or does not know the device.
  virtual Result<std::vector<HealthReporter>> health_reporters(const DevlinkHandle& device) = 0;
};

// The running kernel. `tracker` may be null; `connect` replaces the kernel's socket (tests).
std::unique_ptr<DevlinkSource> open_devlink_netlink(std::shared_ptr<CallTracker> tracker, NetlinkConnect connect = {});

// A recording that holds nothing of it: every call answers kNotRecorded.
std::unique_ptr<DevlinkSource> open_devlink_recording();

// The attributes of one message of the list of health reporters.
Result<HealthReporter> parse_health_reporter(Bytes attributes);

}  // namespace roce

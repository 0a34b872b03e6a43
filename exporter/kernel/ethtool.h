// SPDX-License-Identifier: Apache-2.0
//
// What the kernel tells of a network device by its ethtool interfaces: the driver's own statistics and name (ioctl),
// link state, pause, FEC and the standard statistics (generic netlink). Behind an interface: the live kernel
// (LiveEthtool) or a recording (RecordedEthtool); a made tree has none. All calls may be made from several threads at
// once. On a live kernel every call waits for the RTNL lock and may wait for the driver's firmware. A call about
// something that the driver does not offer is kUnsupported, about a network device that is not there kAbsent, about
// what a recording does not hold kNotRecorded. A member without value was not told: it is never zero instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/rdma.h"

namespace roce {

struct EthtoolLink {
  std::optional<bool> detected;
  std::optional<std::uint32_t> quality;  // signal quality index of a PHY, up to quality_max
  std::optional<std::uint32_t> quality_max;
  // Why an administratively up link is down, as link_reason() and link_detail() name it; empty when not told.
  std::string reason;
  std::string detail;
  std::optional<std::uint64_t> down_events;  // counted by the driver
};

// 802.3x pause; PFC is not part of it.
struct EthtoolPause {
  std::optional<bool> autonegotiate;
  std::optional<bool> receive;
  std::optional<bool> transmit;
  std::optional<std::uint64_t> receive_frames;
  std::optional<std::uint64_t> transmit_frames;
};

// Modes as fec_mode() names them.
struct EthtoolFec {
  std::vector<std::string> configured;
  std::vector<std::string> active;
  std::optional<std::uint64_t> corrected_blocks;  // totals over all lanes
  std::optional<std::uint64_t> uncorrectable_blocks;
  std::optional<std::uint64_t> corrected_bits;
};

class EthtoolSource {
 public:
  virtual ~EthtoolSource() = default;
  // The driver's statistics in its order. Names and values belong together: both are of one state of the device. A
  // driver may give one name to several values.
  virtual Result<std::vector<NamedValue>> statistics(const std::string& netdev) = 0;
  // The kernel driver's name as the device tells it (mlx5_core, virtio_net).
  virtual Result<std::string> driver(const std::string& netdev) = 0;
  // Without `statistics` the driver is not asked for down_events: drivers ask their firmware for it.
  virtual Result<EthtoolLink> link(const std::string& netdev, bool statistics) = 0;
  virtual Result<EthtoolPause> pause(const std::string& netdev) = 0;
  virtual Result<EthtoolFec> fec(const std::string& netdev) = 0;
  // The statistics that IEEE 802.3 and RFC 2819 define, named GROUP/STATISTIC: eth-phy/SymbolErrorDuringCarrier.
  virtual Result<std::vector<NamedValue>> standard_statistics(const std::string& netdev) = 0;
};

// Names of a bounded set for the kernel's numbers (enum ethtool_link_ext_state and its substates); "other" for numbers
// of a later kernel.
std::string_view link_reason(std::uint32_t state);
std::string_view link_detail(std::uint32_t state, std::uint32_t substate);
// The same for the texts that the ethtool tool prints ("No cable"); "other" for texts that it does not know.
std::string_view link_reason(std::string_view text);
std::string_view link_detail(std::string_view text);

// none, rs, baser, llrs, auto, other: for the tool's words ("Off", "RS", "BaseR") and the kernel's ("None", "BASER").
std::string_view fec_mode(std::string_view text);

}  // namespace roce

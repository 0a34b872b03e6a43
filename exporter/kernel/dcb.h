// SPDX-License-Identifier: Apache-2.0
//
// Data centre bridging of a network device: priority flow control, traffic classes, the map from DSCP to priority,
// buffers. Behind an interface: the live kernel (open_dcb_netlink), a recording (open_dcb_recording), or nothing (made
// trees). All calls may be made from several threads at once; the live ones wait for the kernel's RTNL lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

inline constexpr std::size_t kPriorities = 8;  // priorities, traffic classes and buffers: 8 of each

template <class T>
using PerPriority = std::array<T, kPriorities>;

// A part that a driver or a recording lacks is empty.
struct DcbPfc {
  std::uint8_t enabled = 0;                        // bit p: priority p
  std::optional<std::uint8_t> capable;             // priorities that may have it at once
  std::optional<std::uint16_t> delay;              // allowance for the cable, in the driver's own unit
  std::optional<PerPriority<std::uint64_t>> sent;  // PFC frames since the device came up
  std::optional<PerPriority<std::uint64_t>> received;

  bool on(std::size_t priority) const { return (enabled >> priority & 1U) != 0; }
};

// How a traffic class is chosen for sending, as numbered by the kernel.
enum class DcbAlgorithm : std::uint8_t { kStrict = 0, kCreditShaper = 1, kEts = 2, kVendor = 255 };

struct DcbEts {
  std::optional<bool> willing;                             // takes what the switch proposes
  std::optional<PerPriority<std::uint8_t>> bandwidth;      // percent of the link, by traffic class
  std::optional<PerPriority<DcbAlgorithm>> algorithm;      // by traffic class
  std::optional<PerPriority<std::uint8_t>> traffic_class;  // by priority
};

// Selectors of an application entry, as numbered by the kernel.
enum class DcbSelector : std::uint8_t {
  kEtherType = 1,  // protocol 0: the default priority
  kStreamPort = 2,
  kDatagramPort = 3,
  kPort = 4,
  kDscp = 5,
  kPcp = 255,
};

// As dcb(8) prints them and recordings hold them; empty for a number that is none of these.
std::string_view dcb_name(DcbSelector selector);
std::string_view dcb_name(DcbAlgorithm algorithm);

struct DcbApp {
  DcbSelector selector{};
  std::uint8_t priority = 0;
  std::uint16_t protocol = 0;
  bool operator==(const DcbApp&) const = default;
};

struct DcbBuffers {
  std::optional<PerPriority<std::uint8_t>> of_priority;
  std::optional<PerPriority<std::uint64_t>> size;  // bytes
  std::optional<std::uint64_t> total;              // bytes, with what no buffer holds
};

// Bits of DcbState::dcbx.
inline constexpr std::uint8_t kDcbxHost = 1;
inline constexpr std::uint8_t kDcbxFirmware = 2;
inline constexpr std::uint8_t kDcbxCee = 4;
inline constexpr std::uint8_t kDcbxIeee = 8;
inline constexpr std::uint8_t kDcbxStatic = 16;

struct DcbState {
  std::optional<DcbPfc> pfc;
  std::optional<DcbPfc> peer_pfc;  // as the switch told by LLDP
  std::optional<DcbEts> ets;
  std::optional<PerPriority<std::uint64_t>> max_rate;  // bytes per second by traffic class, 0: no limit
  std::optional<DcbBuffers> buffers;
  std::optional<std::vector<DcbApp>> apps;
  std::optional<std::vector<DcbSelector>> trust;  // in order of precedence, where the driver tells it
  std::optional<std::uint8_t> dcbx;
};

class DcbSource {
 public:
  virtual ~DcbSource() = default;
  // kAbsent: no such network device. kUnsupported: its driver has no data centre bridging. kNotRecorded.
  virtual Result<DcbState> state(const std::string& netdev) = 0;
};

}  // namespace roce

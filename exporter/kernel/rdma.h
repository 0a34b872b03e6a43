// SPDX-License-Identifier: Apache-2.0
//
// RDMA state as the kernel's RDMA netlink gives it, behind an interface: the live kernel (NetlinkRdma), a recording
// (RecordedRdma), or nothing (made trees). All calls may be made from several threads at once; a call that the kernel
// holds up holds up its caller alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

struct RdmaDevice {
  std::uint32_t index = 0;  // kernel's device index: new after each registration
  std::string name;
  std::string firmware;
  std::string protocol;  // ib, roce, iw, opa, usnic; empty when not said
  std::uint64_t node_guid = 0;
  std::uint64_t sys_image_guid = 0;
  std::uint32_t port_count = 0;  // from the PORT_INDEX attribute of the device message
};

struct RdmaPort {
  std::uint32_t port = 0;
  std::optional<std::uint32_t> state;           // 0 NOP .. 4 ACTIVE, 5 ACTIVE_DEFER
  std::optional<std::uint32_t> physical_state;  // 1 Sleep .. 5 LinkUp ..
  std::string netdev;                           // empty: none or in another network namespace
  std::uint32_t netdev_index = 0;
};

struct NamedValue {
  std::string name;
  std::uint64_t value = 0;
};

struct CounterStatus {
  std::string name;
  std::uint32_t index = 0;
  bool optional = false;  // can be switched
  bool enabled = true;
};

struct ResourceCount {
  std::string name;  // pd, cq, qp, cm_id, mr, ctx, srq
  std::uint64_t current = 0;
  std::optional<std::uint64_t> limit;  // where the kernel tells it
};

// A counter set bound to QPs (`rdma statistic qp`).
struct QpCounterSet {
  std::uint32_t port = 0;
  std::uint32_t id = 0;
  std::optional<std::uint32_t> pid;
  std::optional<std::uint32_t> qp_type;
  std::vector<std::uint32_t> qpns;
  std::vector<NamedValue> counters;
};

enum class NetnsMode { kExclusive, kShared };

class RdmaSource {
 public:
  virtual ~RdmaSource() = default;
  virtual Result<std::vector<RdmaDevice>> devices() = 0;
  virtual Result<std::vector<RdmaPort>> ports(const RdmaDevice& device) = 0;
  // One port by itself: the driver is asked once, and about no other port.
  virtual Result<RdmaPort> port(const RdmaDevice& device, std::uint32_t number);
  // All hardware counters of a port by one STAT_GET request. Error.err is EMSGSIZE when the reply does not fit:
  // read sysfs then.
  virtual Result<std::vector<NamedValue>> port_counters(const RdmaDevice& device, std::uint32_t port) = 0;
  virtual Result<std::vector<CounterStatus>> counter_status(const RdmaDevice& device, std::uint32_t port) = 0;
  virtual Result<std::vector<ResourceCount>> resources(const RdmaDevice& device) = 0;
  virtual Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice& device) = 0;
  virtual Result<NetnsMode> netns_mode() = 0;
};

}  // namespace roce

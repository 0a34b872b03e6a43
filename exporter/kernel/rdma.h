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
#include <string_view>
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
  bool malformed = false;  // a recording has no number for it
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

// Who made a verbs object. An object of a process that is not visible in this PID namespace, or that has ended, has
// neither.
struct RdmaOwner {
  std::optional<std::uint32_t> pid;
  std::string name;  // of the kernel user (nvme_rdma, ib_core); of a process only where a recording holds it
  bool kernel() const { return !pid && !name.empty(); }
  bool operator==(const RdmaOwner&) const = default;
};

struct RdmaQp {
  std::uint32_t port = 0;  // 0: not bound to one yet
  std::uint32_t number = 0;
  std::uint32_t type = 0;   // IB_QPT_*: see rdma_qp_type_name
  std::uint32_t state = 0;  // 0 RESET .. 6 ERR: see rdma_qp_state_name
  RdmaOwner owner;
};

struct RdmaAddress {
  std::string ip;  // empty: none
  std::uint16_t port = 0;
};

// An identifier of the RDMA connection manager: a connection, a listener, or one under way.
struct RdmaCmId {
  std::uint32_t id = 0;
  std::uint32_t port = 0;            // 0: not bound to one
  std::optional<std::uint32_t> qpn;  // of the QP that belongs to it
  std::uint32_t state = 0;           // see rdma_cm_state_name
  RdmaAddress source;
  RdmaAddress destination;
  RdmaOwner owner;
};

struct RdmaCq {
  std::uint32_t id = 0;
  RdmaOwner owner;
};

struct RdmaMr {
  std::uint32_t id = 0;
  std::uint64_t length = 0;  // bytes registered, not pages pinned
  RdmaOwner owner;
};

// A verbs context that a process holds open.
struct RdmaVerbsContext {
  std::uint32_t id = 0;
  RdmaOwner owner;
};

// What a driver counts for one memory region (on-demand paging).
struct RdmaMrStatistic {
  std::uint32_t id = 0;
  std::vector<NamedValue> counters;
};

// The objects of one kind. `broken` where the kernel gave up before the end, as it does when a driver cannot answer for
// one of them: then `objects` are those before it and their number means nothing.
template <class T>
struct RdmaListing {
  std::vector<T> objects;
  std::optional<Error> broken;
};

// Names as the `rdma` tool has them; UNKNOWN for other numbers.
std::string_view rdma_qp_type_name(std::uint32_t type);
std::string_view rdma_qp_state_name(std::uint32_t state);
std::string_view rdma_cm_state_name(std::uint32_t state);

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

  // All objects of a kind. A QP listing can cost a firmware command for each QP, the others cost a walk over the
  // kernel's lists: ask resources() for their number first. kUnsupported where a source does not know the request.
  virtual Result<RdmaListing<RdmaQp>> qps(const RdmaDevice& device);
  virtual Result<RdmaListing<RdmaCmId>> cm_ids(const RdmaDevice& device);
  virtual Result<RdmaListing<RdmaCq>> cqs(const RdmaDevice& device);
  virtual Result<RdmaListing<RdmaMr>> mrs(const RdmaDevice& device);
  virtual Result<RdmaListing<RdmaVerbsContext>> contexts(const RdmaDevice& device);
  virtual Result<RdmaListing<RdmaMrStatistic>> mr_statistics(const RdmaDevice& device);
};

}  // namespace roce

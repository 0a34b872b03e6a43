// SPDX-License-Identifier: Apache-2.0
//
// The part of the verbs API that the probes need, behind an interface that tests replace by a simulated fabric.
//
// Who may call what: objects of one Context are shared by the threads that probe, answer and resolve. A queue belongs
// to one thread at a time; create_address may block for a second (the kernel asks for the neighbour's MAC address) and
// is never called by a thread that probes or answers. Closing a context waits for calls under way in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exporter/base/result.h"
#include "probes/engine.h"

namespace roce::probe {

// Bytes in front of each UD payload: the space of the global routing header. An IPv4 header is in its last 20 bytes.
inline constexpr std::size_t kGrhBytes = 40;

struct PortInfo {
  bool active = false;
  bool ethernet = false;
  std::uint32_t mtu = 0;  // active, in bytes
};

struct LocalGid {
  Gid gid;
  std::uint32_t index = 0;
};

struct AddressSpec {
  Gid gid;
  std::uint8_t port = 1;
  std::uint32_t gid_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t sl = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  bool operator==(const AddressSpec&) const = default;
};

// An address handle; owned by its Context, which ends it at the latest when it closes.
class Address {
 public:
  virtual ~Address() = default;
};

// As enum ibv_wc_status; only those that the probes tell apart have a name.
enum WorkStatus : int {
  kWorkSuccess = 0,
  kWorkLocalQpError = 2,
  kWorkFlushed = 5,
  kWorkRemoteInvalid = 9,
  kWorkRemoteAccess = 10,
  kWorkRemoteOperation = 11,
  kWorkRetryExceeded = 12,
  kWorkRnrExceeded = 13,
};
// The reason that a failed work request is counted under.
Failure failure_of(int status);

struct Completion {
  std::uint32_t slot = 0;
  int status = kWorkSuccess;
  bool receive = false;
  bool grh = false;         // the first 40 bytes of the slot are filled
  std::uint32_t bytes = 0;  // received, with the 40
  std::uint32_t source_qpn = 0;
  std::uint64_t ticks = 0;  // of the device clock; only with timestamps
};

// The clock of completion timestamps. Ticks wrap at `mask`; only differences on one device mean anything.
struct DeviceClock {
  std::uint64_t mask = 0;
  std::uint64_t khz = 0;  // 0: no hardware timestamps
  bool usable() const { return khz != 0 && mask != 0; }
  std::uint64_t nanoseconds(std::uint64_t from, std::uint64_t to) const;
};

struct QueueSpec {
  std::uint8_t port = 1;
  std::uint32_t qkey = 0;
  std::uint32_t send_slots = 64;
  std::uint32_t receive_slots = 256;
  std::uint32_t slot_bytes = 256;  // payload of a slot; receive slots have 40 more
  bool timestamps = true;          // wanted; clock() says whether they came
};

// An unconnected datagram queue pair with its completion queue and registered slots. Receive slots are posted when it
// is created; whoever took a completion posts the slot again.
class DatagramQueue {
 public:
  virtual ~DatagramQueue() = default;
  virtual std::uint32_t qpn() const = 0;
  virtual DeviceClock clock() const = 0;
  virtual int event_fd() const = 0;  // readable when a completion came after arm()
  virtual std::span<std::uint8_t> send_slot(std::uint32_t slot) = 0;
  virtual std::span<const std::uint8_t> receive_slot(std::uint32_t slot) const = 0;  // with the 40 bytes
  // 0, or an errno. A completion with this slot follows each 0.
  virtual int post_send(std::uint32_t slot, std::size_t bytes, const Address& to, std::uint32_t qpn, std::uint32_t qkey,
                        bool solicited) = 0;
  // A datagram longer than the slot completes too: with its whole length, and its beginning in the slot.
  virtual int post_receive(std::uint32_t slot) = 0;
  // How many completions were stored, or a negative errno: -EBUSY means "later", anything else "broken".
  virtual int poll(std::span<Completion> out) = 0;
  // One event for the next completion; with `solicited`, for the next one that its sender marked, or a failed one.
  virtual int arm(bool solicited) = 0;
  virtual void take_events() = 0;  // after event_fd() became readable
  // Takes the queue pair through RESET back to ready to send: number and addresses stay, all receive slots are posted
  // again, all sends are forgotten without a completion. May block; nobody else uses the queue meanwhile.
  virtual Result<void> repair() = 0;
};

struct ReadQueueSpec {
  std::uint8_t port = 1;
  std::uint32_t gid_index = 0;
};
struct ReadPath {
  Gid gid;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t mtu = 1024;
  std::uint8_t traffic_class = 0;
  std::uint8_t sl = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
};

// A reliable connection whose far end serves reads of dummy memory, or the far end itself.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  virtual std::uint32_t qpn() const = 0;
  virtual std::uint32_t psn() const = 0;
  virtual DeviceClock clock() const = 0;
  virtual Result<void> connect(const ReadPath& path) = 0;  // may block for a second
  virtual int event_fd() const = 0;
  virtual int post_read(std::uint64_t remote, std::uint32_t rkey, std::uint32_t bytes) = 0;  // 0 or an errno
  virtual int poll(Completion& out) = 0;                                                     // 1, 0 or a negative errno
  virtual int arm() = 0;
  virtual void take_events() = 0;
};

// Memory that readers of other hosts may read: nothing but zeros, in a protection domain of its own.
struct DummyMemory {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
};

enum class DeviceEvent : std::uint8_t { kNone, kPortError, kPortActive, kGidChange, kFatal, kOther };

class Context {
 public:
  virtual ~Context() = default;      // closes
  virtual bool present() const = 0;  // its device node still exists; never blocks
  virtual int event_fd() const = 0;
  virtual DeviceEvent take_event() = 0;  // kNone: no more
  virtual Result<PortInfo> port(std::uint8_t port) = 0;
  // The RoCE v2 GID to probe from: an IPv4 one before a global IPv6 one, never a link-local one or RoCE v1. On
  // InfiniBand the first.
  virtual Result<LocalGid> gid(std::uint8_t port) = 0;
  virtual Result<std::unique_ptr<DatagramQueue>> create_datagram_queue(const QueueSpec& spec) = 0;
  virtual Result<Address*> create_address(const AddressSpec& spec) = 0;  // may block for a second
  virtual void destroy_address(Address* address) = 0;
  virtual Result<std::unique_ptr<ReadQueue>> create_read_queue(const ReadQueueSpec& spec) = 0;
  virtual Result<DummyMemory> dummy_memory() = 0;  // registered at the first call
  // Registers and releases memory of that many bytes, and says how long the registration took in nanoseconds.
  virtual Result<std::uint64_t> time_registration(std::size_t bytes) = 0;
};

class Verbs {
 public:
  virtual ~Verbs() = default;
  virtual Result<std::unique_ptr<Context>> open(const std::string& device) = 0;
  // Readable when a device node went away: look at Context::present(). -1: cannot be watched.
  virtual int removal_fd() const = 0;
  virtual void take_removals() = 0;
  // Clocks in nanoseconds, so that tests can turn them.
  virtual std::uint64_t now() const = 0;       // CLOCK_MONOTONIC
  virtual std::uint64_t realtime() const = 0;  // CLOCK_REALTIME
};

// libibverbs.
std::unique_ptr<Verbs> system_verbs();

}  // namespace roce::probe

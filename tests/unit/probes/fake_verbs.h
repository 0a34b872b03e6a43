// SPDX-License-Identifier: Apache-2.0
//
// A fabric in memory: devices with a clock of their own, queues, and whatever can go wrong with them. Time stands still
// unless a test turns it (or asks for the real one). Posting and polling allocate nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "probes/verbs/verbs.h"

namespace roce::probe::fake {

// What happens to one packet.
struct Fate {
  bool drop = false;
  bool mark = false;     // CE, if it can be marked
  bool corrupt = false;  // one byte of the payload changes
  std::uint32_t copies = 1;
  std::uint64_t latency = 5'000;  // ns
  std::uint8_t routers = 0;
  int send_status = kWorkSuccess;  // of the send completion; anything else breaks the queue
  int post_errno = 0;
};
struct Sending {
  Gid from, to;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint32_t qpn = 0;
  std::span<const std::uint8_t> payload;
  bool loopback() const { return from == to; }
};

class Queue;
class FakeContext;

struct Device {
  std::string name;
  Gid gid;
  std::uint32_t gid_index = 1;
  std::uint64_t khz = 0;  // 0: no hardware timestamps
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t tick_offset = 0;
  bool present = true, link = true;
  std::uint32_t mtu = 4096;
  std::uint64_t lockable = ~std::uint64_t{0};  // bytes
  std::uint64_t busy_polls = 0;                // so many polls say EBUSY
  std::vector<DeviceEvent> events;
  int event_fd = -1;
  std::uint64_t opened = 0, addresses = 0, repairs = 0;
  std::uint64_t open_contexts = 0;
};

class Fabric final : public Verbs {
 public:
  Fabric();
  ~Fabric() override;
  Device& add(const std::string& name, const std::string& gid);

  // The test's hands. All may be called while threads use the fabric, with `mutex` held where a member is changed.
  std::mutex mutex;
  std::function<Fate(const Sending&)> fate;  // called with the mutex held; must not allocate where that counts
  std::set<Gid> dead;                        // address creation to these fails after a second
  bool hold_dead = false;                    // ... or waits until it is false again
  bool real_time = false;
  std::function<int(const Gid& from, const Gid& to, std::uint32_t bytes)> read_status;  // -1: no completion ever
  void advance(std::uint64_t ns) { now_ += ns; }
  void step_realtime(std::int64_t ns) { realtime_offset_ += ns; }
  void release_dead();
  void set_link(Device& device, bool up);
  void remove(Device& device);
  void bring_back(Device& device);
  void raise(Device& device, DeviceEvent event);
  std::uint64_t creating() const { return creating_.load(); }  // address creations that wait
  // A packet out of nowhere, as an attacker would send it.
  void inject(const Gid& from, const Gid& to, std::uint32_t qpn, std::uint32_t qkey, std::uint8_t traffic_class,
              std::span<const std::uint8_t> payload);

  // Verbs
  Result<std::unique_ptr<Context>> open(const std::string& device) override;
  int removal_fd() const override { return removal_fd_; }
  void take_removals() override;
  std::uint64_t now() const override;
  std::uint64_t realtime() const override;

  // Used by the queues.
  std::map<std::uint32_t, Queue*> queues;  // by number
  std::map<std::string, std::unique_ptr<Device>> devices;
  std::uint32_t next_qpn = 17;
  std::condition_variable dead_gate;
  std::atomic<std::uint64_t> creating_{0};
  int deliver(const Gid& to, std::uint32_t qpn, std::uint32_t qkey, const Gid& from, std::uint32_t source_qpn,
              std::uint8_t traffic_class, std::uint8_t ttl, std::span<const std::uint8_t> payload, std::uint64_t at,
              bool corrupt, bool solicited);
  std::uint64_t ticks(const Device& device, std::uint64_t at) const;

 private:
  std::atomic<std::uint64_t> now_{1'000'000'000'000};
  std::atomic<std::int64_t> realtime_offset_{0};
  int removal_fd_ = -1;
};

}  // namespace roce::probe::fake

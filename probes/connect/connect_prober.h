// SPDX-License-Identifier: Apache-2.0
//
// The connect probe: once an interval each peer is connected to by rdma_cm and let go of, from the resolved address to
// the established connection. One thread for the whole engine; peers come one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "probes/connect/agent.h"
#include "probes/echo/records.h"
#include "probes/schedule/schedule.h"

namespace roce::probe {

struct LocalEnd {
  std::string device;
  Gid gid;
  bool listen = false;
};

class ConnectProber {
 public:
  // `on_ports` is told, on the connect thread, at which port each device listens (0: not).
  using OnPorts = std::function<void(const std::map<std::string, std::uint16_t>& ports)>;
  // `source` is asked, on the connect thread, where a peer listens that told no port or did not take a connection.
  ConnectProber(const Verbs& clocks, std::unique_ptr<ConnectAgent> agent, EndpointSource& source, std::uint32_t epoch,
                OnPorts on_ports);
  ~ConnectProber();
  ConnectProber(const ConnectProber&) = delete;
  ConnectProber& operator=(const ConnectProber&) = delete;

  void stop();  // the thread; nothing is told or probed any more
  void set_peers(std::vector<std::shared_ptr<PeerRecord>> peers, std::uint64_t interval);
  void set_keys(std::vector<Key> keys);
  void set_local(std::vector<LocalEnd> ends);  // of the devices that are open
  void learn(std::uint64_t peer, const Endpoint& endpoint);
  // Returns when no device is held; false: one is, by a process that hangs in the kernel. Open again after the next
  // set_local().
  bool close();

 private:
  struct Work {
    std::shared_ptr<PeerRecord> peer;
    JitteredSchedule schedule;
    Endpoint endpoint;
    bool failed = false;  // the last connection: where the peer listens may have changed
  };
  void loop();
  void reopen();
  void probe(std::uint64_t id);

  const Verbs& clocks_;
  const std::unique_ptr<ConnectAgent> agent_;
  EndpointSource& source_;
  const std::uint32_t epoch_;
  const OnPorts on_ports_;
  std::atomic<int> wake_{-1};
  std::atomic<bool> stopping_{false};

  std::mutex agent_mutex_;  // of opening and closing; taken before mutex_
  std::mutex mutex_;
  bool changed_ = false, open_ = false;
  bool opening_ = false;  // with ends_ as they are, unless changed_
  std::vector<LocalEnd> ends_;
  std::vector<Key> keys_;
  std::uint64_t interval_ = 0;
  // Of opening, by the thread alone: how often it failed in a row, and when it is tried again.
  std::uint32_t failures_ = 0;
  std::uint64_t open_after_ = 0;
  std::map<std::uint64_t, Work> work_;
  Random random_;
  std::thread thread_;
};

}  // namespace roce::probe

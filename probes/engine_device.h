// SPDX-License-Identifier: Apache-2.0
//
// One RDMA device port of the engine: opens it, runs the threads that probe and answer on it while it is open, closes
// it at once when it goes away, and keeps what was counted meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "probes/echo/echo_prober.h"
#include "probes/echo/records.h"
#include "probes/echo/resolver.h"
#include "probes/read/read_prober.h"
#include "probes/responder/responder.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {

class DeviceUnit {
 public:
  struct Callbacks {
    Resolver::OnEndpoint on_endpoint;
    const std::atomic<int>* wake_supervisor = nullptr;
  };
  DeviceUnit(Verbs& verbs, std::string device, std::uint8_t port, EndpointSource& source, Callbacks callbacks);
  ~DeviceUnit();
  DeviceUnit(const DeviceUnit&) = delete;
  DeviceUnit& operator=(const DeviceUnit&) = delete;
  Result<void> start();  // the threads that outlive sessions

  DeviceRecord& record() { return record_; }
  const DeviceRecord& record() const { return record_; }
  EchoProber& prober() { return prober_; }
  Responder& responder() { return responder_; }
  Resolver& resolver() { return resolver_; }
  ReadProber& reads() { return reads_; }

  // One thread at a time: the engine holds its lifecycle mutex.
  bool open() const { return context_ != nullptr; }
  Result<void> open_session(const EngineSettings& settings, std::uint32_t epoch);
  void close_session();
  // Whether the session has to be closed now: the device went away, failed, or has another GID.
  bool must_close(bool look_at_gid);
  std::uint64_t open_after = 0;
  unsigned failures = 0;

  void set_status(std::string state, std::string error);
  void status(std::string& state, std::string& error) const;
  std::optional<Endpoint> endpoint() const;  // while the responder is on
  void set_cm_port(std::uint16_t port);
  std::optional<Gid> gid() const;  // while it is open
  bool hardware_timestamps() const { return hardware_.load(std::memory_order_relaxed); }

  void wake_threads();
  // Hands a burst to the probe thread; false when the device is closed or has no room.
  bool submit(BurstJob& job);
  // Copies the detectors; false when the probe thread did not come to it.
  bool snapshot(BaselineSnapshot& wanted);

 private:
  void probe_loop();
  void respond_loop();

  Verbs& verbs_;
  DeviceRecord record_;
  Callbacks callbacks_;
  ResolverRings rings_;
  EchoProber prober_;
  Resolver resolver_;
  HelperRings helper_rings_;
  Responder responder_;
  ResponderHelper helper_;
  ReadProber reads_;

  std::unique_ptr<Context> context_;
  std::unique_ptr<DatagramQueue> probe_queue_, responder_queue_;
  LocalGid local_;
  std::uint32_t mtu_ = 0;
  int probe_wake_ = -1, responder_wake_ = -1, timer_ = -1;
  std::thread probe_thread_, responder_thread_;
  std::atomic<bool> stopping_{false}, fatal_{false}, gid_changed_{false}, port_active_{false}, hardware_{false};

  std::mutex submit_mutex_;
  bool submittable_ = false;
  bool probing_ = false;  // the probe thread may be in step()
  mutable std::mutex status_mutex_;
  std::string state_ = "starting", error_;
  std::optional<Endpoint> endpoint_;
  std::optional<Gid> gid_;
  std::uint16_t cm_port_ = 0;
};

}  // namespace roce::probe

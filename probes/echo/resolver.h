// SPDX-License-Identifier: Apache-2.0
//
// Does for the prober of one device what may block: asks peers for their endpoints, makes and ends address handles,
// takes a broken queue through RESET. One thread; a peer that does not answer is tried after those that do, ever more
// seldom.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "probes/echo/echo_prober.h"
#include "probes/echo/records.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {

struct ResolverSettings {
  std::uint32_t labels = 8;
  std::uint8_t hop_limit = 64;
};

// A label that is never 0; the last quarter of them (at least one of more than three) changes each hour.
std::uint32_t flow_label(std::string_view peer, std::uint32_t index, std::uint32_t labels, std::uint64_t hour);

class Resolver {
 public:
  using OnEndpoint = std::function<void(const PeerRecord& peer, const Endpoint& endpoint)>;

  // `on_endpoint` is called on the resolver thread for each endpoint that was told.
  Resolver(const Verbs& clocks, DeviceRecord& record, ResolverRings& rings, EndpointSource& source,
           OnEndpoint on_endpoint);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  Result<void> start();  // the thread; without it run_once() does the work
  void stop();

  void set_peers(std::vector<std::shared_ptr<PeerRecord>> peers);
  void set_settings(const ResolverSettings& settings);

  // A device that is open: its addresses are made from now on. detach() ends them all and waits for a call under way.
  void attach(Context& context, DatagramQueue& queue, const LocalGid& local);
  void detach();

  // Takes requests and resolves what is due; returns when to come again, in ns of the clock.
  std::uint64_t run_once();

 private:
  struct Work {
    std::shared_ptr<PeerRecord> peer;
    std::uint64_t due = 0;
    std::uint32_t failures = 0;
    bool have_endpoint = false, wants_endpoint = true, because_lost = false;
    Endpoint endpoint;
    std::uint64_t hour = 0;  // of the labels
    std::uint64_t session = 0;
  };

  void loop();
  void take_requests(std::uint64_t now);
  void collect(std::uint64_t now);
  void repair();
  void resolve(Work& work);
  void resolve_loopback();
  Result<std::unique_ptr<ResolvedPeer>> make(const PeerRecord& peer, const Endpoint& endpoint, std::uint64_t hour,
                                             const ResolverSettings& settings);
  void destroy(ResolvedPeer& resolved);
  bool hand_over(ResolverAnswer::Kind kind, std::uint64_t peer, std::unique_ptr<ResolvedPeer> resolved);

  const Verbs& clocks_;
  DeviceRecord& record_;
  ResolverRings& rings_;
  EndpointSource& source_;
  OnEndpoint on_endpoint_;
  int wake_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;

  std::mutex wanted_mutex_;  // of the two below; held for moments
  std::vector<std::shared_ptr<PeerRecord>> wanted_;
  ResolverSettings settings_;
  std::atomic<bool> wanted_changed_{false};

  // Held while verbs are called; detach() waits for it, having said so first.
  std::mutex session_mutex_;
  std::atomic<bool> closing_{false};
  Context* context_ = nullptr;
  DatagramQueue* queue_ = nullptr;
  LocalGid local_;
  std::uint64_t session_ = 0;
  bool loopback_wanted_ = false;
  std::uint64_t loopback_due_ = 0;
  bool repair_wanted_ = false;
  std::vector<std::unique_ptr<ResolvedPeer>> owned_;
  std::vector<ResolvedPeer*> retired_;

  std::map<std::uint64_t, Work> work_;  // by id of the peer
};

}  // namespace roce::probe

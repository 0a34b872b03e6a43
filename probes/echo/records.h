// SPDX-License-Identifier: Apache-2.0
//
// What is known of a peer, a pair and a device: counters that one thread writes and any reads, and beside them the
// state that belongs to the probe thread alone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "probes/engine.h"
#include "probes/measure/detectors.h"
#include "probes/measure/latency_histogram.h"
#include "probes/schedule/handover.h"
#include "probes/schedule/schedule.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {

inline constexpr std::size_t kMaxClasses = 4;
inline constexpr std::size_t kMaxLabels = 16;
inline constexpr std::size_t kMaxPeers = 64;         // of a device
inline constexpr std::uint32_t kMaxOutstanding = 8;  // of a pair and class
inline constexpr std::size_t kFailures = static_cast<std::size_t>(Failure::kCount_);

// A peer's endpoint and the address handles to it; made and ended by the resolver, used by the probe thread.
struct ResolvedPeer {
  Endpoint endpoint;
  LocalGid local;
  std::uint32_t labels = 0;
  std::array<std::uint32_t, kMaxLabels> flow_labels{};
  std::array<std::array<Address*, kMaxLabels>, kMaxClasses> addresses{};
  bool refreshed = false;  // after losses, and the endpoint is what it was before
  std::atomic<std::uint32_t> in_flight{0};
  std::uint64_t retired = 0;  // when the probe thread gave it back
};

// One pair and class.
struct PairRecord {
  explicit PairRecord(std::string name) : qos(std::move(name)) {}
  const std::string qos;

  Counter sent, received, late, duplicates, corrupt, skipped;
  Counter ecn_capable_forward, ecn_marked_forward, ecn_capable_back, ecn_marked_back;
  std::array<Counter, kFailures> failures;
  LatencyHistogram rtt, service, network;
  std::atomic<double> baseline{0};
  std::atomic<bool> anomaly_shift{false}, anomaly_tail{false}, anomaly_loss{false};

  void fail(Failure failure) { failures[static_cast<std::size_t>(failure)].add(); }

  // The probe thread's own.
  JitteredSchedule schedule;
  std::uint32_t stream = 0;
  std::uint64_t order = 0;
  std::uint32_t outstanding = 0;
  std::uint32_t next_label = 0;
  // The confirmation burst.
  std::uint32_t confirm_left = 0, confirm_waiting = 0, confirm_answered = 0, confirm_sent = 0;
  std::uint64_t confirm_due = 0;
  PairDetector detector;
};

// What is kept of a peer while its classes change.
struct PeerCounters {
  std::atomic<PeerState> state{PeerState::kUnknown};
  std::atomic<std::uint32_t> hops{0};
  std::atomic<std::uint64_t> last_success{0};  // ns of CLOCK_REALTIME
  LatencyHistogram responder_delay;
  std::atomic<bool> responder_delay_hardware{false};

  mutable std::mutex mutex;  // of the two names
  std::string remote_node, remote_device;
  // The slow probes.
  LatencyHistogram read_rtt, connect;
  Counter reads_sent, connects_sent, mtu_sent, mtu_received;
  std::array<Counter, kFailures> read_failures, connect_failures, mtu_failures;
};

struct PeerRecord {
  PeerRecord(std::uint64_t number, Peer p, std::vector<QosClass> c)
      : id(number), peer(std::move(p)), classes(std::move(c)) {}
  const std::uint64_t id;  // never used twice
  const Peer peer;
  const std::vector<QosClass> classes;
  std::vector<std::shared_ptr<PairRecord>> pairs;  // one a class
  std::shared_ptr<PeerCounters> counters;
  std::atomic<Failure> unresolved{Failure::kCount_};  // why, while it is; kCount_: nobody tried yet

  // The probe thread's own.
  ResolvedPeer* resolved = nullptr;
  std::uint64_t refresh_after = 0;  // no earlier
  std::uint32_t refreshes = 0;      // in a row without an answer
  bool recovering = false;          // the next answer says that new addresses cured it
};

struct DeviceRecord {
  DeviceRecord(std::string d, std::uint8_t p) : device(std::move(d)), port(p) {}
  const std::string device;
  const std::uint8_t port;

  // Probe thread.
  LatencyHistogram loopback_rtt, scheduler_lag, local_delay;
  Counter loopback_failures, ah_refresh_recovered, skipped;
  std::atomic<bool> no_key{false};  // nothing is sent: no key is in force
  std::atomic<double> throttle{1};
  std::atomic<std::uint64_t> interval{0};  // ns, with the throttle
  // Resolver.
  Counter qp_repairs, ah_refreshes, endpoint_refreshes;
  // Responder, and its helper.
  Counter requests, rejected_mac, rejected_replay, rejected_rate, rejected_unknown, rejected_malformed;
  Counter responder_repairs;
  // Slow probes.
  LatencyHistogram registration;
  Counter registration_failures;
};

}  // namespace roce::probe

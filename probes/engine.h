// SPDX-License-Identifier: Apache-2.0
//
// What the probe engine is told and what it tells: the one border between the part that works on verbs and the part
// that reads configuration, talks HTTP and writes pages. Times are nanoseconds of CLOCK_MONOTONIC unless said.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "probes/measure/latency_histogram.h"

namespace roce::probe {

// RoCE v2 GID: an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.
struct Gid {
  std::array<std::uint8_t, 16> raw{};
  auto operator<=>(const Gid&) const = default;
};
std::string to_text(const Gid& gid);  // as the kernel writes it: eight groups of four hexadecimal digits
Result<Gid> parse_gid(std::string_view text);

// How a responder is reached: what GET /rdma/endpoint says, one for each device port that it answers on.
struct Endpoint {
  std::string node;    // host name of the responder
  std::string device;  // its RDMA device
  std::uint8_t port = 1;
  Gid gid;
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;
  std::uint32_t epoch = 0;      // random at each start; another one means: forget what was pending
  std::uint32_t mtu = 0;        // active MTU in bytes
  std::uint32_t payload = 256;  // longest probe that it has room for
  bool read = false;            // takes RC READ connections (POST /rdma/endpoint)
  std::uint16_t cm_port = 0;    // rdma_cm listener of the connect probe; 0: none
};

// The two halves of an RC connection for the READ probe, exchanged by POST /rdma/endpoint.
struct ReadRequest {
  std::string device;  // wanted device of the responder; empty: its first
  Gid gid;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t mtu = 0;
};
struct ReadGrant {
  Gid gid;
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;
  std::uint32_t mtu = 0;
  std::uint64_t address = 0;  // dummy memory in a protection domain of its own
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
};

// A class of service that is probed by itself.
struct QosClass {
  std::string name;       // label `qos`
  std::uint8_t dscp = 0;  // upper six bits of the traffic class; ECT(0) is always set
  std::uint8_t sl = 0;
};

// One endpoint that a local device probes.
struct Peer {
  std::string name;           // label `peer`: node, or node/device where a node has several
  std::string device;         // local device
  std::uint8_t port = 1;      // of the local device
  std::string url;            // of the peer's prober, e.g. https://node2:14792
  std::string remote_device;  // empty: the first that it answers with
  bool rotating = false;      // reports under peer="rotating"
  bool storage = false;       // one end of a storage session
  bool operator==(const Peer&) const = default;
};

// A secret for the message authentication code. At most two are in force: the first one signs, all verify.
struct Key {
  std::uint8_t id = 0;
  std::vector<std::uint8_t> secret;                 // at least 16 bytes
  std::chrono::system_clock::time_point not_after;  // after it the key is neither used nor taken
};

struct EngineSettings {
  std::string node;                                        // this host's name in endpoint documents
  std::vector<std::string> devices;                        // RDMA devices to open, by name
  std::vector<QosClass> classes;                           // at least one
  std::chrono::milliseconds interval{1000};                // between probes of one pair and class
  std::chrono::milliseconds deadline{500};                 // a reply after it is late; without one the probe timed out
  std::chrono::milliseconds read_interval{10000};          // RC READ of one peer; 0: off
  std::chrono::milliseconds loopback_interval{1000};       // own device to itself; 0: off
  std::chrono::milliseconds connect_interval{60000};       // rdma_cm connect of one peer; 0: off
  std::chrono::milliseconds registration_interval{60000};  // memory registration; 0: off
  double budget = 16;                                      // probes a second of the whole node; the interval stretches
  std::uint32_t labels = 8;                                // flow labels a peer
  std::uint8_t hop_limit = 64;
  std::uint32_t payload = 128;         // bytes of a probe
  bool responder = false;              // answers others
  std::chrono::microseconds spin{50};  // busy wait for a reply, software timestamps only
  // Sources that the responder answers beside the peers: GID prefixes.
  struct Prefix {
    Gid gid;
    std::uint8_t bits = 128;
  };
  std::vector<Prefix> allowed;
  double source_rate = 50, total_rate = 2000;  // requests a second that the responder takes
};

enum class Failure : std::uint8_t {
  kTimeout,
  kSendError,
  kUnresolved,  // no address handle: the neighbour does not answer
  kNoEndpoint,  // the peer's prober told no endpoint
  kQpError,
  kRetryExceeded,
  kRnrExceeded,
  kRemoteAccess,
  kFlushed,
  kInvalidTimestamp,
  kCount_,
};
std::string_view to_string(Failure failure);  // as in the label `reason`: timeout, send_error, ...

enum class PeerState : std::uint8_t { kUnknown, kOk, kDegraded, kLossy, kDown };
std::string_view to_string(PeerState state);  // unknown, ok, degraded, lossy, down

// Counts of one pair and class since the start of the process. Histograms are of nanoseconds.
struct PairStats {
  std::string qos;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;  // answered in time
  std::array<std::uint64_t, static_cast<std::size_t>(Failure::kCount_)> failures{};
  std::uint64_t late = 0, duplicates = 0, corrupt = 0, skipped = 0;
  // Packets that arrived able to be marked, and marked with CE: on the way there (told by the reply) and back.
  std::uint64_t ecn_capable_forward = 0, ecn_marked_forward = 0, ecn_capable_back = 0, ecn_marked_back = 0;
  HistogramSnapshot rtt;        // from posting to the reply
  HistogramSnapshot service;    // from the scheduled time to the reply
  HistogramSnapshot network;    // hardware timestamps on both sides only; empty otherwise
  double baseline_seconds = 0;  // 0: still learning
  bool anomaly_shift = false, anomaly_tail = false, anomaly_loss = false;
};

struct PeerStats {
  Peer peer;
  PeerState state = PeerState::kUnknown;
  std::vector<PairStats> classes;
  std::uint32_t hops = 0;   // 0: not known
  double last_success = 0;  // seconds of CLOCK_REALTIME; 0: never
  HistogramSnapshot read_rtt, connect;
  std::uint64_t reads_sent = 0, connects_sent = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Failure::kCount_)> read_failures{}, connect_failures{};
  // Reads as long as the path's MTU; where only these fail, long packets are lost.
  std::uint64_t mtu_sent = 0, mtu_received = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Failure::kCount_)> mtu_failures{};
  HistogramSnapshot responder_delay;  // told by the peer
  bool responder_delay_hardware = false;
  std::string remote_node, remote_device;
};

struct DeviceStats {
  std::string device;
  std::uint8_t port = 1;
  std::string state;  // starting, active, down, absent, released, error
  std::string error;  // why it is not active
  bool hardware_timestamps = false;
  HistogramSnapshot loopback_rtt, registration, scheduler_lag, local_delay;
  std::uint64_t loopback_failures = 0, registration_failures = 0, skipped = 0;
  std::uint64_t qp_repairs = 0, ah_refreshes = 0, ah_refresh_recovered = 0, endpoint_refreshes = 0;
  double throttle = 1;          // share of the configured rate that is sent
  double interval_seconds = 0;  // between probes of a pair and class as it is now
  // responder
  std::uint64_t requests = 0;
  std::uint64_t rejected_mac = 0, rejected_replay = 0, rejected_rate = 0, rejected_unknown = 0, rejected_malformed = 0;
};

struct EngineStats {
  std::vector<DeviceStats> devices;
  std::vector<PeerStats> peers;
  std::uint64_t refused_peers = 0;  // beyond 64 of a device
};

inline constexpr std::uint32_t kMostBurstProbes = 1000;
// A burst for /probe and `ping`: of at most kMostBurstProbes.
struct BurstSpec {
  std::string peer;
  std::uint32_t count = 10;
  // Between two. 0: the next goes when the one before is answered or, an echo, lost; a READ that is lost is the last.
  std::chrono::milliseconds gap{20};
  std::chrono::milliseconds deadline{500};
  std::string qos;  // empty: the first class
  std::uint32_t size = 128;
  enum class Kind : std::uint8_t { kEcho, kRead } kind = Kind::kEcho;
  // The gap that is kept: 10 ms at least between more than 40 echoes, 30 ms between more than 100, which is what a
  // responder takes of one source.
  std::chrono::milliseconds kept_gap() const;
};
struct BurstResult {
  std::uint32_t sent = 0, received = 0, late = 0, duplicates = 0, corrupt = 0;
  std::vector<std::uint64_t> rtt;  // ns, in the order of sending; those that were answered
  std::uint32_t ecn_capable = 0, ecn_marked = 0;
  std::uint32_t hops = 0;
  std::string failure;  // empty, or why nothing could be sent
  bool hardware_timestamps = false;
  std::vector<std::uint64_t> network;  // ns, with hardware timestamps
};

// Asks peers for their endpoints over HTTPS. Called on the engine's resolver thread; a call may block for a second.
class EndpointSource {
 public:
  virtual ~EndpointSource() = default;
  virtual Result<Endpoint> endpoint(const Peer& peer) = 0;
  virtual Result<ReadGrant> connect_read(const Peer& peer, const ReadRequest& request) = 0;
};

// All methods are thread-safe; none throws but std::bad_alloc, none blocks longer than it says.
class Engine {
 public:
  virtual ~Engine() = default;
  // Peers that stay keep their counters; those that leave are gone from the next stats().
  virtual void set_peers(std::vector<Peer> peers) = 0;
  virtual void set_keys(std::vector<Key> keys) = 0;
  // Classes, rates, budget, allow list; devices and payload need a restart and are not changed.
  virtual void set_settings(const EngineSettings& settings) = 0;
  virtual std::vector<Endpoint> endpoints() const = 0;  // for GET /rdma/endpoint; empty while the responder is off
  virtual Result<ReadGrant> accept_read(const ReadRequest& request) = 0;
  virtual EngineStats stats() const = 0;
  // Blocks for count x gap + deadline at most (without a gap: count x deadline), and until the peer's endpoint and
  // address are resolved (3 s at most).
  virtual Result<BurstResult> burst(const BurstSpec& spec) = 0;
  // Closes every verbs context for that long, so that a driver can be unloaded. Returns when they are closed.
  virtual Result<void> release(std::chrono::seconds duration) = 0;
  // Detector baselines as text, to be kept over a restart; restore() before set_peers().
  virtual std::string save_baselines() const = 0;
  virtual void restore_baselines(std::string_view text) = 0;
};

class Verbs;  // probes/verbs/verbs.h
// Starts the threads; devices that are absent are waited for. `verbs` and `source` outlive the engine.
Result<std::unique_ptr<Engine>> start_engine(Verbs& verbs, const EngineSettings& settings, EndpointSource& source);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// Slow probes of one device: RC READ of a peer's dummy memory, which no software of the peer takes part in, and the
// registration of memory. One thread posts and waits for completions of all peers; another one connects, for that may
// block. A connection that failed is made anew.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "probes/echo/echo_prober.h"
#include "probes/echo/records.h"
#include "probes/schedule/schedule.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {

struct SlowSettings {
  std::uint64_t read_interval = 0;          // ns; 0: off
  std::uint64_t registration_interval = 0;  // ns; 0: off
  std::uint8_t hop_limit = 64;
};

class ReadProber {
 public:
  static constexpr std::size_t kConnections = 64;  // to peers, and as many of others
  static constexpr std::uint32_t kReadBytes = 8;
  // A read in so many is as long as a packet may be: where only long packets are lost it fails alone.
  static constexpr std::uint64_t kLongEvery = 4;
  static constexpr std::uint64_t kDeadline = 3'000'000'000;  // above what retries take

  ReadProber(const Verbs& clocks, DeviceRecord& record, EndpointSource& source);
  ~ReadProber();
  ReadProber(const ReadProber&) = delete;
  ReadProber& operator=(const ReadProber&) = delete;
  Result<void> start();
  void stop();

  void set_peers(std::vector<std::shared_ptr<PeerRecord>> peers, const SlowSettings& settings);
  void attach(Context& context, const LocalGid& local, std::uint32_t mtu);
  void detach();  // ends all connections; waits for a call under way, a second at most

  // The other end of somebody's connection.
  Result<ReadGrant> accept(const ReadRequest& request);
  // Any thread; blocks for count x gap + deadline (without a gap: count x deadline), and 3 s at most for a connection.
  Result<BurstResult> burst(const BurstSpec& spec);

  // One turn of each thread; the time to come again.
  std::uint64_t read_once();
  std::uint64_t connect_once();

 private:
  struct Burst {
    const BurstSpec& spec;
    BurstResult result;
    std::uint64_t begin = 0;  // 0: not connected yet
    std::uint64_t ends = 0;   // 0: not all are sent
    bool done = false;
  };
  struct Connection {
    std::shared_ptr<PeerRecord> peer;
    std::unique_ptr<ReadQueue> queue;  // null: not connected
    ReadGrant grant;
    std::uint32_t mtu = 0;
    JitteredSchedule schedule;
    std::uint64_t reads = 0;
    bool pending = false, is_long = false, pending_of_burst = false;
    std::uint64_t posted = 0;
    std::uint64_t connect_after = 0;
    std::uint32_t failures = 0;
    Failure why = Failure::kCount_;
    Burst* burst = nullptr;  // that waits for it
  };
  struct Accepted {
    Gid gid;
    std::uint32_t qpn = 0;
    std::unique_ptr<ReadQueue> queue;
    std::uint64_t since = 0;
  };

  void read_loop();
  void connect_loop();
  void complete(Connection& connection);
  void close(Connection& connection);
  void close_for_now(Connection& connection, std::uint64_t now);  // for the connector to make anew
  bool post(Connection& connection, std::uint32_t bytes);
  std::uint64_t advance(Connection& connection, std::uint64_t now);  // its burst; the time to come again
  void watch(int fd, bool add) const;
  void register_memory(std::uint64_t now);

  const Verbs& clocks_;
  DeviceRecord& record_;
  EndpointSource& source_;
  int epoll_ = -1, wake_ = -1, connect_wake_ = -1;
  std::atomic<int> wake_reader_{-1}, wake_connector_{-1};
  std::atomic<bool> stopping_{false};
  std::thread read_thread_, connect_thread_;

  std::mutex verbs_mutex_;           // of calls that may block; taken before mutex_
  std::mutex mutex_;                 // of all below; held for moments
  std::condition_variable settled_;  // a burst has to look again
  Context* context_ = nullptr;
  LocalGid local_;
  std::uint32_t mtu_ = 0;
  std::uint64_t session_ = 0;
  SlowSettings settings_;
  std::map<std::uint64_t, Connection> connections_;  // by id of the peer
  std::vector<Accepted> accepted_;
  JitteredSchedule registration_;
  Random random_;
};

}  // namespace roce::probe

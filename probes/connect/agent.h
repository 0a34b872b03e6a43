// SPDX-License-Identifier: Apache-2.0
//
// Connections by rdma_cm, in a process of their own: librdmacm keeps each device that it ever used open until its
// process ends, which would keep a driver from being unloaded. A single-threaded child, forked before there are
// threads, forks the process that does the work, and ends it when every device is to be let go of.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "probes/engine.h"

namespace roce::probe {

// What the dialling end says in its private data: 36 bytes. The code is over the first 20, then both GIDs.
inline constexpr std::size_t kGreetingBytes = 36;
std::vector<std::uint8_t> make_greeting(const Key& key, std::uint64_t number, std::uint32_t epoch, const Gid& from,
                                        const Gid& to);
bool greeting_good(std::span<const std::uint8_t> bytes, std::span<const Key> keys, std::uint32_t epoch, const Gid& from,
                   const Gid& to, std::chrono::system_clock::time_point now);

struct ConnectOutcome {
  bool connected = false;
  std::uint64_t nanoseconds = 0;  // from resolving the address to the established connection
  Failure failure = Failure::kTimeout;
};

class ConnectAgent {
 public:
  // Forks; call it while the process has one thread, so that the child begins without anybody's locks.
  static Result<std::unique_ptr<ConnectAgent>> start();
  ~ConnectAgent();
  ConnectAgent(const ConnectAgent&) = delete;
  ConnectAgent& operator=(const ConnectAgent&) = delete;

  // Begins to work with these keys; whatever worked before is ended, and a child that died is forked anew. Answers
  // connections to `listen_on`, if any, and says at which port. Blocks for 20 s at most.
  Result<std::vector<std::uint16_t>> open(std::span<const Gid> listen_on, std::span<const Key> keys,
                                          std::uint32_t epoch);
  // Ends the worker and waits until it is gone, a few seconds at most. True: no device is held any more; false: it
  // hangs in the kernel. Cuts off a connect() of another thread.
  bool close();
  // Blocks for the deadline at most. `epoch` is the peer's.
  Result<ConnectOutcome> connect(const Gid& from, const Gid& to, std::uint16_t port, std::uint32_t epoch,
                                 std::chrono::milliseconds deadline);

  int process() const { return process_; }  // of the child; -1: none

 private:
  ConnectAgent() = default;
  // With mutex_ held, but for begin() at the start.
  Result<void> begin();
  void abandon();
  bool close_locked();
  std::optional<bool> ask(char command, int fd);  // nothing: the child does not answer, and was ended

  std::mutex mutex_;  // of one conversation at a time with the worker
  int control_ = -1;
  std::atomic<int> process_{-1};
  bool hangs_ = false;           // the last worker did not end
  std::mutex socket_mutex_;      // of its closing
  std::atomic<int> worker_{-1};  // socket to the worker
};

}  // namespace roce::probe

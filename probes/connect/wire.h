// SPDX-License-Identifier: Apache-2.0
//
// What passes between the processes of the connect probe: structures of one build, over a socket pair.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "probes/engine.h"

namespace roce::probe {

inline constexpr char kStartWorker = 's', kStopWorker = 'q';
inline constexpr std::size_t kMaxListeners = 16;

// One byte, and with it a descriptor where `fd` is not -1. False: the other end is gone.
bool send_command(int socket, char command, int fd);
bool receive_command(int socket, char& command, int& fd);

struct WorkerSetup {
  struct Secret {
    std::uint8_t id, bytes;
    std::uint8_t secret[64];  // a longer one as its digest, which HMAC-SHA-256 takes for the same key
    std::int64_t not_after;   // seconds of CLOCK_REALTIME
  };
  std::uint32_t epoch, key_count, listener_count;
  Secret keys[2];
  Gid listen_on[kMaxListeners];
};
void put_keys(WorkerSetup& setup, std::span<const Key> keys);
std::vector<Key> keys_of(const WorkerSetup& setup);

struct WorkerPorts {
  std::uint16_t port[kMaxListeners];  // 0: could not listen
};
struct WorkerRequest {
  Gid from, to;
  std::uint16_t port;
  std::uint32_t epoch, deadline_ms;
};
struct WorkerAnswer {
  std::uint8_t connected, failure;
  std::uint64_t nanoseconds;
};

}  // namespace roce::probe

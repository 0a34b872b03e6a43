// SPDX-License-Identifier: Apache-2.0
//
// Text of /proc/PID/mountstats as far as NFS is in it. Pure functions over any text: what is not of the expected form
// is left out, nothing else with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roce {

// One connection of a mount; the meaning of the numbers depends on the protocol.
struct NfsTransport {
  std::string protocol;  // rdma, tcp, udp, local
  std::vector<std::uint64_t> numbers;
  bool malformed = false;  // the numbers end before the line does
};

// One line of the per-operation statistics. Times in milliseconds.
struct NfsOperation {
  std::string name;
  std::uint64_t requests = 0;
  std::uint64_t transmissions = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t queue_ms = 0;
  std::uint64_t round_trip_ms = 0;
  std::uint64_t execute_ms = 0;
  std::optional<std::uint64_t> errors;  // the ninth number, since Linux 5.3
};

struct NfsMount {
  std::string source;       // "server:/export"
  std::string mount_point;  // escapes of blanks undone
  std::string type;         // nfs, nfs4
  std::string options;      // "rw,vers=4.2,proto=rdma,..."
  std::uint64_t age = 0;    // seconds since it was mounted
  std::vector<NfsTransport> transports;
  std::vector<NfsOperation> operations;

  // Value of an option; empty when it is not there.
  std::string_view option(std::string_view name) const;
  std::string_view server() const;    // of the source, without brackets of an IPv6 address
  std::string_view exported() const;  // of the source
  bool over_rdma() const;
};

std::vector<NfsMount> parse_mountstats(std::string_view text);

// Whether /proc/PID/mounts names one, by its options.
bool mounts_nfs_over_rdma(std::string_view text);

// Lines "NAME: number ..." with eight numbers or more; more than nine are not looked at.
std::vector<NfsOperation> parse_nfs_operations(std::string_view text);

}  // namespace roce

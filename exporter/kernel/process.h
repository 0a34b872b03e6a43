// SPDX-License-Identifier: Apache-2.0
//
// What procfs tells of a process: its memory limits, what it pinned, where it belongs. Parsers take any bytes and keep
// no state; readers open files below a procfs root only. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

// A resource limit in bytes; nothing stands for unlimited.
using Limit = std::optional<std::uint64_t>;

struct MemlockLimit {
  Limit soft;
  Limit hard;
};

// From the text of /proc/PID/limits. A number that does not fit 64 bits is kMalformed, a text without that line
// kAbsent.
Result<MemlockLimit> parse_memlock_limit(std::string_view text);

// From /proc/PID/status; what a line does not say is empty. Bytes.
struct ProcessStatus {
  std::optional<std::uint64_t> pinned;      // VmPin: what RDMA registrations pinned
  std::optional<std::uint64_t> locked;      // VmLck: what mlock locked
  std::optional<std::uint64_t> huge_pages;  // HugetlbPages
  std::optional<std::uint64_t> effective;   // CapEff
  // CAP_IPC_LOCK is effective: the limit does not hold for this process.
  std::optional<bool> ipc_lock() const;
};
ProcessStatus parse_process_status(std::string_view text);

// The cgroups of a process by controller, from /proc/PID/cgroup. Paths begin with a slash; one that leads out of the
// reader's cgroup namespace is left out.
struct CgroupPaths {
  std::string unified;  // version 2; empty: none
  std::string rdma;     // version 1 hierarchies
  std::string hugetlb;
  std::string systemd;  // the hierarchy that systemd names, version 1
  // The one that names the service best.
  const std::string& main() const { return !unified.empty() ? unified : systemd; }
};
CgroupPaths parse_cgroup_paths(std::string_view text);

// What orchestrators write into the path of a cgroup. Empty where the path does not say.
struct CgroupIdentity {
  std::string unit;  // the innermost systemd service: nvmf_tgt.service
  std::string pod;   // uid of a Kubernetes pod
  std::string container;
  std::string slurm_job;
  std::string slurm_step;
};
CgroupIdentity parse_cgroup_identity(std::string_view path);

struct Process {
  std::uint32_t pid = 0;
  std::string comm;  // as it is; may hold anything but NUL
  Result<MemlockLimit> memlock = fail(ErrorKind::kAbsent, {});
  Result<ProcessStatus> status = fail(ErrorKind::kAbsent, {});
  CgroupPaths cgroups;
  bool gone = false;    // no such process any more
  bool denied = false;  // something of it may not be read
};
// `live`: procfs is the running kernel's, so that a process that hidepid hides can be told from one that has ended.
Process read_process(const std::string& procfs, std::uint32_t pid, bool live);

// The name of a process; empty where it cannot be read.
std::string read_comm(const std::string& procfs, std::uint32_t pid);

// All numbers of processes below a procfs root, ascending.
Result<std::vector<std::uint32_t>> list_processes(const std::string& procfs);

}  // namespace roce

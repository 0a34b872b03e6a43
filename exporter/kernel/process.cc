// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/process.h"

#include <csignal>
#include <limits>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr unsigned kCapIpcLock = 14;
constexpr std::size_t kMaxComm = 64;
constexpr std::uint64_t kKib = 1024;

std::optional<Limit> limit_of(std::string_view word) {
  if (word == "unlimited") return Limit();
  const auto value = parse_u64(word);
  if (!value) return std::nullopt;
  return Limit(*value);
}

// "    4096 kB"
std::optional<std::uint64_t> kilobytes(std::string_view text) {
  const auto number = parse_u64(take_word(text));
  if (!number || take_word(text) != "kB" || *number > std::numeric_limits<std::uint64_t>::max() / kKib)
    return std::nullopt;
  return *number * kKib;
}

// A path of a cgroup as it can be used below the mount, empty when it cannot.
std::string usable_path(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) return {};
  std::string_view rest = path;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the slash
    const auto end = std::min(rest.find('/'), rest.size());
    if (rest.substr(0, end) == "..") return {};
    rest.remove_prefix(end);
  }
  return std::string(path);
}

bool lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const auto comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }
bool is_number(std::string_view text) { return parse_u64(text).has_value() && text.front() != ' '; }

// "pod0d7e1c2a_..." without the prefix, with dashes as the API shows the uid.
std::string pod_uid(std::string_view text) {
  if (text.size() < 32) return {};
  std::string uid(text);
  for (char& c : uid) {
    if (c == '_') c = '-';
    if (c != '-' && !is_hex(std::string_view(&c, 1))) return {};
  }
  return uid;
}

void read_component(std::string_view part, CgroupIdentity& out) {
  constexpr std::string_view kSlice = ".slice";
  constexpr std::string_view kScope = ".scope";
  if (part.ends_with(".service")) out.unit = part;
  // kubepods-burstable-podUID.slice, or podUID where systemd does not manage the cgroups
  if (const auto pod = part.rfind("pod"); pod != std::string_view::npos && (pod == 0 || part[pod - 1] == '-')) {
    std::string_view uid = part.substr(pod + 3);
    if (uid.ends_with(kSlice)) uid.remove_suffix(kSlice.size());
    if (std::string found = pod_uid(uid); !found.empty()) out.pod = std::move(found);
  }
  // cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope, libpod-ID.scope, or the bare ID
  std::string_view id = part;
  if (id.ends_with(kScope)) id.remove_suffix(kScope.size());
  if (const auto dash = id.rfind('-'); dash != std::string_view::npos) id.remove_prefix(dash + 1);
  if (id.size() == 64 && is_hex(id)) out.container = id;
  if (part.starts_with("job_") && part.size() > 4 && is_number(part.substr(4))) out.slurm_job = part.substr(4);
  if (part.starts_with("step_") && part.size() > 5 && !out.slurm_job.empty()) out.slurm_step = part.substr(5);
}

Result<std::string> try_comm(const std::string& procfs, std::uint32_t pid) {
  ROCE_TRY(std::string comm, read_file(procfs + "/" + std::to_string(pid) + "/comm", 4096));
  if (comm.ends_with('\n')) comm.pop_back();
  comm.resize(std::min({comm.size(), kMaxComm, comm.find('\0')}));
  return comm;
}

}  // namespace

Result<MemlockLimit> parse_memlock_limit(std::string_view text) {
  constexpr std::string_view kName = "Max locked memory";
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (!line.starts_with(kName)) continue;
    line.remove_prefix(kName.size());
    if (line.empty() || line.front() != ' ') continue;
    // The name is over, so blanks of any number part the columns.
    const auto soft = limit_of(take_word(line));
    const auto hard = limit_of(take_word(line));
    if (!soft || !hard || take_word(line) != "bytes") return fail(ErrorKind::kMalformed, "limits");
    return MemlockLimit{*soft, *hard};
  }
  return fail(ErrorKind::kAbsent, "limits");
}

std::optional<bool> ProcessStatus::ipc_lock() const {
  if (!effective) return std::nullopt;
  return (*effective >> kCapIpcLock & 1U) != 0;
}

ProcessStatus parse_process_status(std::string_view text) {
  ProcessStatus status;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 1);
    if (name == "VmPin") status.pinned = kilobytes(value);
    if (name == "VmLck") status.locked = kilobytes(value);
    if (name == "HugetlbPages") status.huge_pages = kilobytes(value);
    if (name == "CapEff") status.effective = parse_hex(trim(value));
  }
  return status;
}

CgroupPaths parse_cgroup_paths(std::string_view text) {
  CgroupPaths paths;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const auto first = line.find(':');
    if (first == std::string_view::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path = usable_path(line.substr(second + 1));
    if (line.substr(0, first) == "0" && controllers.empty()) paths.unified = path;
    if (lists(controllers, "rdma")) paths.rdma = path;
    if (lists(controllers, "hugetlb")) paths.hugetlb = path;
    if (controllers == "name=systemd") paths.systemd = path;
  }
  return paths;
}

CgroupIdentity parse_cgroup_identity(std::string_view path) {
  CgroupIdentity identity;
  while (!path.empty()) {
    const auto end = std::min(path.find('/'), path.size());
    if (end != 0) read_component(path.substr(0, end), identity);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return identity;
}

std::string read_comm(const std::string& procfs, std::uint32_t pid) { return try_comm(procfs, pid).value_or(""); }

Process read_process(const std::string& procfs, std::uint32_t pid, bool live) {
  const std::string dir = procfs + "/" + std::to_string(pid);
  Process process;
  process.pid = pid;
  const auto denied = [](const Error& error) { return error.kind == ErrorKind::kDenied; };
  const auto limits = read_file(dir + "/limits");
  const auto status = read_file(dir + "/status");
  if (limits) {
    process.memlock = parse_memlock_limit(*limits);
    if (!process.memlock) process.memlock.error().object = dir + "/limits";
  } else {
    process.memlock = tl::unexpected<Error>(limits.error());
  }
  if (status)
    process.status = parse_process_status(*status);
  else
    process.status = tl::unexpected<Error>(status.error());
  const auto comm = try_comm(procfs, pid);
  process.denied =
      (!limits && denied(limits.error())) || (!status && denied(status.error())) || (!comm && denied(comm.error()));
  process.comm = comm.value_or("");
  process.cgroups = parse_cgroup_paths(read_file(dir + "/cgroup").value_or(""));
  if (!exists(dir)) {
    // Asking whether a signal could be sent, without sending one, also reaches processes that procfs hides.
    const bool there = live && (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
    process.denied = process.denied || there;
    process.gone = !there;
  }
  return process;
}

Result<std::vector<std::uint32_t>> list_processes(const std::string& procfs) {
  ROCE_TRY(const auto names, list_directory(procfs));
  std::vector<std::uint32_t> pids;
  for (const std::string& name : names) {
    const auto pid = name.front() >= '0' && name.front() <= '9' ? parse_u64(name) : std::nullopt;
    if (pid && *pid != 0 && *pid <= std::numeric_limits<std::int32_t>::max())
      pids.push_back(static_cast<std::uint32_t>(*pid));
  }
  return pids;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/processes.h"

#include <algorithm>
#include <limits>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/process.h"
#include "exporter/kernel/rdma_holders.h"
#include "exporter/kernel/service_manager.h"

namespace roce {
namespace {

constexpr std::size_t kMaxProcesses = 16;  // with series; eight each
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

Value value_of(const Limit& limit) { return limit ? Value(*limit) : Value(kUnlimited); }

// What follows from limit, capability and pinned memory; empty where one of them is not known.
struct Judgement {
  std::optional<bool> limited;
  std::optional<bool> ipc_lock;
  std::optional<std::uint64_t> soft;  // the limit that holds
  std::optional<std::uint64_t> pinned;
  // What is left of the limit, and what is pinned beyond it; only for a limited process. One of the two is 0.
  struct Headroom {
    std::uint64_t left = 0;
    std::uint64_t beyond = 0;
    Value value() const {
      if (beyond == 0) return left;
      constexpr std::uint64_t kTop = std::numeric_limits<std::int64_t>::max();
      if (beyond > kTop) return -static_cast<double>(beyond);
      return -static_cast<std::int64_t>(beyond);
    }
  };
  std::optional<Headroom> headroom() const {
    if (limited != std::optional(true) || !soft || !pinned) return std::nullopt;
    return Headroom{*soft - std::min(*soft, *pinned), *pinned - std::min(*soft, *pinned)};
  }
};

Judgement judge(const Process& process) {
  Judgement judgement;
  if (process.status) {
    judgement.ipc_lock = process.status->ipc_lock();
    judgement.pinned = process.status->pinned;
  }
  if (judgement.ipc_lock == std::optional(true)) judgement.limited = false;
  if (process.memlock) {
    judgement.soft = process.memlock->soft;
    if (!judgement.soft)
      judgement.limited = false;
    else if (judgement.ipc_lock)
      judgement.limited = !*judgement.ipc_lock;
  }
  return judgement;
}

struct Judged {
  Process process;
  Judgement judgement;
};

// Whom on-call must see first: those nearest to a limit that holds, then those of whom that is not known.
bool before(const Judged& a, const Judged& b) {
  const auto rank = [](const Judged& one) {
    const auto headroom = one.judgement.headroom();
    constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
    return headroom ? std::pair(kTop - headroom->beyond, headroom->left) : std::pair(kTop, kTop);
  };
  const auto kind = [](const Judged& one) { return one.judgement.limited ? (*one.judgement.limited ? 0 : 2) : 1; };
  if (kind(a) != kind(b)) return kind(a) < kind(b);
  if (kind(a) == 0 && rank(a) != rank(b)) return rank(a) < rank(b);
  return a.process.pid < b.process.pid;
}

class ProcessesCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const RdmaHolders holders = find_rdma_holders(host(), device().devices);
    auto part = std::make_shared<Part>();
    FailureNote failures;
    if (holders.known) {
      add_processes(holders, part->samples, failures);
      add_default(part->samples);
    }
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (holders.error) return tl::unexpected<Error>(*holders.error);
    return failures.conclude();
  }

 private:
  void add_processes(const RdmaHolders& holders, SampleBatch& samples, FailureNote& failures) const {
    std::vector<Judged> readable;
    std::uint64_t denied = 0;
    std::uint64_t there = 0;
    for (const std::uint32_t pid : holders.pids) {
      Process process = read_process(host().procfs, pid, host().live);
      if (process.gone && host().live) continue;
      ++there;
      for (const Error* error :
           {process.memlock ? nullptr : &process.memlock.error(), process.status ? nullptr : &process.status.error()})
        if (error != nullptr && error->kind != ErrorKind::kDenied) failures.note(*error);
      if (process.denied) {
        ++denied;
        // What can be read of it would look as if the rest were nothing.
        if (!process.memlock) continue;
      }
      const Judgement judgement = judge(process);
      readable.push_back({std::move(process), judgement});
    }
    std::sort(readable.begin(), readable.end(), before);
    samples.add(metric::processes, {}, there);
    samples.add(metric::process_permission_errors, {}, denied);
    samples.add(metric::process_hidden_contexts, {}, holders.hidden);
    const std::size_t shown = std::min(readable.size(), kMaxProcesses);
    samples.add(metric::processes_left_out, {}, static_cast<std::uint64_t>(readable.size() - shown));
    for (std::size_t i = 0; i < shown; ++i) add_process(readable[i], samples);
  }

  void add_process(const Judged& judged, SampleBatch& samples) const {
    const Process& process = judged.process;
    const bool hide = context().settings.hide_identity;
    const std::string pid = std::to_string(process.pid);
    const std::string comm = hide ? std::string() : process.comm;
    const std::string unit = hide ? std::string() : parse_cgroup_identity(process.cgroups.main()).unit;
    samples.add(metric::process_info, {pid, comm, unit}, 1);
    if (process.memlock) {
      samples.add(metric::process_memlock_limit, {pid, comm, "soft"}, value_of(process.memlock->soft));
      samples.add(metric::process_memlock_limit, {pid, comm, "hard"}, value_of(process.memlock->hard));
    }
    if (process.status) {
      if (process.status->pinned) samples.add(metric::process_pinned, {pid, comm}, *process.status->pinned);
      if (process.status->locked) samples.add(metric::process_locked, {pid, comm}, *process.status->locked);
    }
    const Judgement& judgement = judged.judgement;
    if (judgement.ipc_lock) samples.add(metric::process_ipc_lock, {pid, comm}, *judgement.ipc_lock);
    if (!judgement.limited) return;
    samples.add(metric::process_memlock_limited, {pid, comm}, *judgement.limited);
    if (!*judgement.limited)
      samples.add(metric::process_memlock_headroom, {pid, comm}, kUnlimited);
    else if (const auto headroom = judgement.headroom())
      samples.add(metric::process_memlock_headroom, {pid, comm}, headroom->value());
  }

  void add_default(SampleBatch& samples) const {
    std::string_view source = "config";
    std::optional<MemlockLimit> limit;
    // Beside a made tree lies the root of another system.
    if (host().live || host().rootfs != "/") limit = read_default_memlock(host().rootfs);
    if (!limit) {
      source = "init";
      if (const Process init = read_process(host().procfs, 1, false); init.memlock) limit = *init.memlock;
    }
    if (!limit) return;
    samples.add(metric::service_memlock_default, {"soft", source}, value_of(limit->soft));
    samples.add(metric::service_memlock_default, {"hard", source}, value_of(limit->hard));
  }
};

}  // namespace

std::unique_ptr<Collector> make_processes_collector(const CollectorContext& context) {
  return std::make_unique<ProcessesCollector>(context);
}

}  // namespace roce

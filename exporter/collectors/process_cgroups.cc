// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/process_cgroups.h"

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/process.h"
#include "exporter/kernel/rdma_holders.h"

namespace roce {
namespace {

constexpr std::size_t kMaxProcesses = 64;

class ProcessCgroupsCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    if (context().settings.hide_identity) {
      part->read_at = Part::Clock::now();
      out.parts.push_back(std::move(part));
      return {};
    }
    const RdmaHolders holders = find_rdma_holders(host(), device().devices);
    std::size_t shown = 0;
    for (const std::uint32_t pid : holders.pids) {
      if (shown == kMaxProcesses) break;
      const Process process = read_process(host().procfs, pid, host().live);
      const std::string& path = process.cgroups.main();
      if (path.empty()) continue;
      ++shown;
      const CgroupIdentity identity = parse_cgroup_identity(path);
      part->samples.add(metric::process_cgroup_info,
                        {std::to_string(pid), process.comm, path, identity.unit, identity.pod, identity.container,
                         identity.slurm_job, identity.slurm_step},
                        1);
    }
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (holders.error) return tl::unexpected<Error>(*holders.error);
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_process_cgroups_collector(const CollectorContext& context) {
  return std::make_unique<ProcessCgroupsCollector>(context);
}

}  // namespace roce

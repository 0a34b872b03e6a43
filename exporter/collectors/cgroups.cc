// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/cgroups.h"

#include <algorithm>
#include <array>
#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/hidden_name.h"
#include "exporter/kernel/cgroup.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/rdma_holders.h"

namespace roce {
namespace {

constexpr std::size_t kMaxRows = 12;  // (cgroup, device, resource) and (cgroup, size), at most three series each

struct Row {
  std::optional<std::uint64_t> used;
  std::optional<std::uint64_t> limit;
  std::optional<std::uint64_t> failures;
};
using Key = std::array<std::string, 3>;  // cgroup, device or size, resource
using Rows = std::map<Key, Row>;

void add(const CgroupUse& use, Rows& rows) {
  const auto row = [&](const CgroupValue& value) -> Row& { return rows[{use.path, value.object, value.resource}]; };
  for (const CgroupValue& value : use.used) row(value).used = value.value;
  for (const CgroupValue& value : use.limits) row(value).limit = value.value;
  for (const CgroupValue& value : use.failures) row(value).failures = value.value;
}

// What has a limit comes first, then what uses most; the others use nothing and are not told.
std::vector<Rows::const_iterator> chosen(const Rows& rows) {
  std::vector<Rows::const_iterator> all;
  for (auto at = rows.begin(); at != rows.end(); ++at)
    if (at->second.limit || at->second.used.value_or(0) != 0) all.push_back(at);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (a->second.limit.has_value() != b->second.limit.has_value()) return a->second.limit.has_value();
    const std::uint64_t used_a = a->second.used.value_or(0);
    const std::uint64_t used_b = b->second.used.value_or(0);
    return used_a != used_b ? used_a > used_b : a->first < b->first;
  });
  if (all.size() > kMaxRows) all.resize(kMaxRows);
  return all;
}

class CgroupsCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const RdmaHolders holders = find_rdma_holders(host(), device().devices);
    const std::string root = host().sysfs + "/fs/cgroup";
    Rows rdma;
    Rows hugetlb;
    std::optional<Error> error = holders.error;
    if (exists(root)) {
      for (const std::uint32_t pid : holders.pids) {
        const auto text = read_file(host().procfs + "/" + std::to_string(pid) + "/cgroup");
        if (!text) {
          if (text.error().kind == ErrorKind::kDenied) error = text.error();
          continue;
        }
        const CgroupPaths paths = parse_cgroup_paths(*text);
        if (const auto use = read_rdma_cgroup(root, paths)) take(*use, rdma, error);
        if (const auto use = read_hugetlb_cgroup(root, paths)) take(*use, hugetlb, error);
      }
    }
    auto part = std::make_shared<Part>();
    SampleBatch& samples = part->samples;
    for (const auto& at : chosen(rdma)) {
      const auto& [cgroup, rdma_device, resource] = at->first;
      const std::string name = label(cgroup);
      if (at->second.used) samples.add(metric::cgroup_rdma_used, {rdma_device, name, resource}, *at->second.used);
      if (at->second.limit) samples.add(metric::cgroup_rdma_limit, {rdma_device, name, resource}, *at->second.limit);
    }
    for (const auto& at : chosen(hugetlb)) {
      const auto& [cgroup, size, unused] = at->first;
      const std::string name = label(cgroup);
      if (at->second.used) samples.add(metric::cgroup_hugetlb_used, {name, size}, *at->second.used);
      if (at->second.limit) samples.add(metric::cgroup_hugetlb_limit, {name, size}, *at->second.limit);
      if (at->second.failures) samples.add(metric::cgroup_hugetlb_failures, {name, size}, *at->second.failures);
    }
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (error) return tl::unexpected<Error>(*error);
    return {};
  }

 private:
  static void take(const CgroupUse& use, Rows& rows, std::optional<Error>& error) {
    add(use, rows);
    if (use.denied) error = Error{ErrorKind::kDenied, EACCES, "cgroup " + use.path};
  }

  // Paths hold names of services, pods and jobs.
  std::string label(const std::string& cgroup) const {
    return context().settings.hide_identity ? hidden_name("cgroup", cgroup) : cgroup;
  }
};

}  // namespace

std::unique_ptr<Collector> make_cgroups_collector(const CollectorContext& context) {
  return std::make_unique<CgroupsCollector>(context);
}

}  // namespace roce

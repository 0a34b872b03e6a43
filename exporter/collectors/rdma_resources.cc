// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_resources.h"

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/rdma_owner_names.h"

namespace roce {
namespace {

class RdmaResourcesCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    if (!host().rdma || !device().netlink) return {};
    auto part = std::make_shared<Part>();
    auto resources = host().rdma->resources(*device().netlink);
    part->read_at = Part::Clock::now();
    if (!resources) {
      // Kernels without the request answer that they do not know it: nothing to show, nothing wrong.
      if (not_here(resources.error())) return {};
      return tl::unexpected(std::move(resources).error());
    }
    for (const ResourceCount& resource : *resources) {
      part->samples.add(metric::rdma_resources, {device().name, resource.name}, resource.current);
      if (resource.limit)
        part->samples.add(metric::rdma_resource_limit, {device().name, resource.name}, *resource.limit);
    }
    out.parts.push_back(std::move(part));
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_rdma_resources_collector(const CollectorContext& context) {
  return std::make_unique<RdmaResourcesCollector>(context);
}

}  // namespace roce

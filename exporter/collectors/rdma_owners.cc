// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_owners.h"

#include <algorithm>
#include <map>

#include "exporter/base/saturate.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/rdma_owner_names.h"

namespace roce {
namespace {

constexpr std::size_t kMaxOwners = 8;
// The kernel writes about 60 bytes for each object: a list of these many is some megabytes.
constexpr std::uint64_t kMaxObjects = 50000;

using ByOwner = std::map<OwnerLabels, std::uint64_t>;

// The owners with most, the greatest first.
std::vector<std::pair<OwnerLabels, std::uint64_t>> greatest(const ByOwner& owners) {
  std::vector<std::pair<OwnerLabels, std::uint64_t>> all(owners.begin(), owners.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (all.size() > kMaxOwners) all.resize(kMaxOwners);
  return all;
}

class RdmaOwnersCollector : public RdmaObjectsCollector {
 public:
  using RdmaObjectsCollector::RdmaObjectsCollector;

 protected:
  Result<void> collect_objects(RdmaSource& source, const RdmaDevice& rdma, SampleBatch& samples) override {
    const auto resources = source.resources(rdma);
    if (!resources && host().live) {
      if (not_here(resources.error())) return {};
      return tl::unexpected<Error>(resources.error());
    }
    OwnerNames names(context());
    Result<void> result;
    const auto wanted = [&](const char* kind) {
      const auto count = count_of(resources, kind);
      return host().live ? count && *count != 0 && *count <= kMaxObjects : count.value_or(0) <= kMaxObjects;
    };
    const auto add = [&](const char* kind, const auto& listing) {
      if (!listing && not_here(listing.error())) return;
      if (!listing || listing->broken) {
        result = tl::unexpected<Error>(listing ? *listing->broken : listing.error());
        return;
      }
      ByOwner owners;
      for (const auto& object : listing->objects) ++owners[names.of(object.owner)];
      for (const auto& [owner, count] : greatest(owners))
        samples.add(metric::owner_resources, {device().name, owner.name, owner.pid, kind}, count);
    };
    if (wanted("ctx")) add("ctx", source.contexts(rdma));
    if (wanted("cq")) add("cq", source.cqs(rdma));
    if (wanted("mr")) {
      const auto regions = source.mrs(rdma);
      add("mr", regions);
      if (regions && !regions->broken) add_lengths(regions->objects, names, samples);
    }
    return result;
  }

 private:
  void add_lengths(const std::vector<RdmaMr>& regions, OwnerNames& names, SampleBatch& samples) const {
    ByOwner owners;
    for (const RdmaMr& region : regions) {
      std::uint64_t& sum = owners[names.of(region.owner)];
      // A region over the whole address space is as long as the number is wide.
      sum = saturating_add(sum, region.length);
    }
    for (const auto& [owner, length] : greatest(owners))
      samples.add(metric::owner_memory_region_bytes, {device().name, owner.name, owner.pid}, length);
  }
};

}  // namespace

std::unique_ptr<Collector> make_rdma_owners_collector(const CollectorContext& context) {
  return std::make_unique<RdmaOwnersCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/odp.h"

#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/rdma_owner_names.h"

namespace roce {
namespace {

constexpr std::uint64_t kMaxRegions = 50000;

class OdpCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    Result<void> result;
    if (host().rdma && device().netlink) result = read();
    // What is not counted by any region is absent: the driver or the regions have no on-demand paging.
    const auto add = [&](const char* name, const MetricDesc& metric) {
      if (const auto total = totals_.find(name); total != totals_.end())
        part->samples.add(metric, {device().name}, total->second);
    };
    add("page_faults", metric::odp_page_faults);
    add("page_invalidations", metric::odp_page_invalidations);
    add("page_prefetch", metric::odp_page_prefetches);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return result;
  }

 private:
  using Counts = std::map<std::string, std::uint64_t, std::less<>>;

  // Regions come and go with their counts: the totals take what each has counted on since the last read, so that they
  // never fall.
  Result<void> read() {
    const auto resources = host().rdma->resources(*device().netlink);
    const auto count = count_of(resources, "mr");
    if (host().live && (!count || *count > kMaxRegions)) return {};
    const auto listing = host().rdma->mr_statistics(*device().netlink);
    if (!listing) {
      if (not_here(listing.error())) return {};
      return tl::unexpected<Error>(listing.error());
    }
    std::map<std::uint32_t, Counts> now;
    for (const RdmaMrStatistic& region : listing->objects) {
      const auto before = regions_.find(region.id);
      for (const NamedValue& counter : region.counters) {
        std::uint64_t last = 0;
        if (before != regions_.end())
          if (const auto at = before->second.find(counter.name); at != before->second.end()) last = at->second;
        // Less than before: another region under the same number.
        totals_[counter.name] += counter.value >= last ? counter.value - last : counter.value;
        now[region.id][counter.name] = counter.value;
      }
    }
    if (listing->broken) {
      // Those not listed are still there.
      now.merge(regions_);
      regions_ = std::move(now);
      return tl::unexpected<Error>(*listing->broken);
    }
    regions_ = std::move(now);
    return {};
  }

  std::map<std::uint32_t, Counts> regions_;
  Counts totals_;
};

}  // namespace

std::unique_ptr<Collector> make_odp_collector(const CollectorContext& context) {
  return std::make_unique<OdpCollector>(context);
}

}  // namespace roce

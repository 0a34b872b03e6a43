// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/qp_counters.h"

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/rdma_owner_names.h"

namespace roce {
namespace {

constexpr std::size_t kMaxSets = 16;

class QpCountersCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    if (!host().rdma || !device().netlink) return {};
    if (auto fits = check_size(); !fits) return not_here(fits.error()) ? Result<void>{} : fits;
    auto sets = host().rdma->qp_counter_sets(*device().netlink);
    if (!sets) {
      if (not_here(sets.error())) return {};
      return tl::unexpected(std::move(sets).error());
    }
    auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    if (sets->size() > kMaxSets) sets->resize(kMaxSets);
    for (const QpCounterSet& set : *sets) {
      const std::string port = std::to_string(set.port);
      const std::string id = std::to_string(set.id);
      part->samples.add(metric::qp_counter_set_qps, {device().name, port, id},
                        static_cast<std::uint64_t>(set.qpns.size()));
      for (const NamedValue& counter : set.counters)
        part->samples.add(metric::qp_counter, {device().name, port, id, counter.name}, counter.value);
    }
    out.parts.push_back(std::move(part));
    return {};
  }

 private:
  Result<void> check_size() const {
    const auto resources = host().rdma->resources(*device().netlink);
    if (!resources) return tl::unexpected(resources.error());  // how many QPs there are must be known first
    for (const ResourceCount& resource : *resources)
      if (resource.name == "qp" && resource.current > context().settings.qp_max)
        return fail(ErrorKind::kBusy,
                    device().name + ": " + std::to_string(resource.current) +
                        " QPs are more than --collector.qp.max=" + std::to_string(context().settings.qp_max));
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_qp_counters_collector(const CollectorContext& context) {
  return std::make_unique<QpCountersCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/qp.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/rdma_owner_names.h"

namespace roce {
namespace {

constexpr std::size_t kMaxOwners = 16;
// Listing connections costs no firmware, but the kernel walks them all.
constexpr std::uint64_t kMaxCmIds = 20000;

using ByState = std::map<std::string_view, std::uint64_t>;
using ByOwner = std::map<OwnerLabels, ByState>;

bool is_error(std::string_view state) { return state == "ERR" || state == "SQE"; }

std::uint64_t errors_of(const ByState& states) {
  std::uint64_t sum = 0;
  for (const auto& [state, count] : states) sum += is_error(state) ? count : 0;
  return sum;
}
std::uint64_t all_of(const ByState& states) {
  std::uint64_t sum = 0;
  for (const auto& [state, count] : states) sum += count;
  return sum;
}

// Puts the owners beyond the bound together.
void bound(ByOwner& owners) {
  if (owners.size() <= kMaxOwners) return;
  std::vector<ByOwner::const_iterator> order;
  for (auto at = owners.cbegin(); at != owners.cend(); ++at) order.push_back(at);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const auto errors_a = errors_of(a->second);
    const auto errors_b = errors_of(b->second);
    if (errors_a != errors_b) return errors_a > errors_b;
    const auto all_a = all_of(a->second);
    const auto all_b = all_of(b->second);
    return all_a != all_b ? all_a > all_b : a->first < b->first;
  });
  ByState others;
  for (std::size_t i = kMaxOwners; i < order.size(); ++i) {
    for (const auto& [state, count] : order[i]->second) others[state] += count;
    owners.erase(order[i]);
  }
  for (const auto& [state, count] : others) owners[kOtherOwners][state] += count;
}

// Which states of a type are told although no QP is in them.
std::span<const std::string_view> states_to_watch(std::string_view type) {
  static constexpr std::array<std::string_view, 2> kBoth = {"ERR", "SQE"};
  static constexpr std::array<std::string_view, 1> kError = {"ERR"};
  if (type == "UD" || type == "UC") return kBoth;
  if (type == "SMI" || type == "GSI" || type == "UNKNOWN") return {};
  return kError;
}

class QpCollector : public RdmaObjectsCollector {
 public:
  using RdmaObjectsCollector::RdmaObjectsCollector;

 protected:
  Result<void> collect_objects(RdmaSource& source, const RdmaDevice& rdma, SampleBatch& samples) override {
    const auto resources = source.resources(rdma);
    const auto count = count_of(resources, "qp");
    if (!count && host().live) {
      // How many there are must be known before they are listed.
      if (resources || not_here(resources.error())) return {};
      return tl::unexpected<Error>(resources.error());
    }
    OwnerNames names(context());
    Result<void> result;
    std::vector<RdmaCmId> ids;
    if (const auto of_cm = count_of(resources, "cm_id"); (of_cm || !host().live) && of_cm.value_or(0) <= kMaxCmIds) {
      auto listing = source.cm_ids(rdma);
      if (listing && !listing->broken)
        ids = std::move(listing->objects);
      else if (listing || !not_here(listing.error()))
        result = tl::unexpected<Error>(listing ? *listing->broken : listing.error());
    }
    add_cm_ids(ids, names, samples);

    const std::uint64_t most = context().settings.qp_max;
    if (count.value_or(0) > most) {
      samples.add(metric::qp_list_complete, {device().name}, 0);
      return result;
    }
    const auto listing = source.qps(rdma);
    const bool whole = listing && !listing->broken && listing->objects.size() <= most;
    if (!listing && not_here(listing.error()) && count.value_or(0) == 0) return result;
    samples.add(metric::qp_list_complete, {device().name}, whole);
    // A driver that has no answer for one QP is no failure of the collector: the list is marked, that is all.
    if (!listing && !not_here(listing.error())) return tl::unexpected<Error>(listing.error());
    if (whole) add_qps(listing->objects, ids, names, samples);
    return result;
  }

 private:
  void add_cm_ids(const std::vector<RdmaCmId>& ids, OwnerNames& names, SampleBatch& samples) const {
    ByOwner owners;
    for (const RdmaCmId& id : ids) ++owners[names.of(id.owner)][rdma_cm_state_name(id.state)];
    bound(owners);
    for (const auto& [owner, states] : owners)
      for (const auto& [state, count] : states)
        samples.add(metric::owner_cm_ids, {device().name, owner.name, owner.pid, state}, count);
  }

  void add_qps(const std::vector<RdmaQp>& qps, const std::vector<RdmaCmId>& ids, OwnerNames& names,
               SampleBatch& samples) const {
    // Kernel QPs made through the connection manager carry its name; the connection carries that of its user.
    std::unordered_map<std::uint32_t, const RdmaOwner*> users;
    for (const RdmaCmId& id : ids)
      if (id.qpn && id.owner.kernel()) users.emplace(*id.qpn, &id.owner);
    std::map<std::pair<std::uint32_t, std::string_view>, ByState> types;
    ByOwner owners;
    for (const RdmaQp& qp : qps) {
      const std::string_view type = rdma_qp_type_name(qp.type);
      const std::string_view state = rdma_qp_state_name(qp.state);
      ++types[{qp.port, type}][state];
      const auto user = users.find(qp.number);
      ++owners[names.of(qp.owner.kernel() && user != users.end() ? *user->second : qp.owner)][state];
    }
    for (auto& [place, states] : types) {
      const auto& [port, type] = place;
      for (const std::string_view state : states_to_watch(type)) states.try_emplace(state, 0);
      const std::string text = port == 0 ? std::string() : std::to_string(port);
      for (const auto& [state, count] : states) samples.add(metric::qps, {device().name, text, type, state}, count);
    }
    bound(owners);
    for (const auto& [owner, states] : owners)
      for (const auto& [state, count] : states)
        samples.add(metric::owner_qps, {device().name, owner.name, owner.pid, state}, count);
  }
};

}  // namespace

std::unique_ptr<Collector> make_qp_collector(const CollectorContext& context) {
  return std::make_unique<QpCollector>(context);
}

}  // namespace roce

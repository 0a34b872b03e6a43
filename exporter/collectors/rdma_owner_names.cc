// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_owner_names.h"

#include "exporter/kernel/process.h"

namespace roce {

OwnerLabels OwnerNames::of(const RdmaOwner& owner) {
  if (owner.kernel()) return {owner.name, ""};
  if (!owner.pid) return kHiddenOwner;
  const auto [place, is_new] = names_.try_emplace(*owner.pid);
  if (is_new && !context_.settings.hide_identity)
    place->second = owner.name.empty() ? read_comm(context_.host->procfs, *owner.pid) : owner.name;
  return {place->second, std::to_string(*owner.pid)};
}

std::optional<std::uint64_t> count_of(const Result<std::vector<ResourceCount>>& resources, std::string_view kind) {
  if (!resources) return std::nullopt;
  for (const ResourceCount& resource : *resources)
    if (resource.name == kind) return resource.current;
  return std::nullopt;
}

Result<void> RdmaObjectsCollector::collect(Output& out) {
  auto part = std::make_shared<Part>();
  Result<void> result;
  if (host().rdma && device().netlink) result = collect_objects(*host().rdma, *device().netlink, part->samples);
  part->read_at = Part::Clock::now();
  out.parts.push_back(std::move(part));
  return result;
}

bool not_here(const Error& error) {
  return error.kind == ErrorKind::kUnsupported || error.kind == ErrorKind::kAbsent ||
         error.kind == ErrorKind::kNotRecorded;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Verbs objects by owner: owners as label values, and what the collectors of such objects share.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "exporter/collectors/collector.h"
#include "exporter/kernel/rdma.h"

namespace roce {

struct OwnerLabels {
  std::string name;  // of the process, or of the user in the kernel
  std::string pid;   // empty for the kernel
  auto operator<=>(const OwnerLabels&) const = default;
};

// Owners beyond the bound, and owners that this PID namespace does not show.
inline const OwnerLabels kOtherOwners{"(other)", ""};
inline const OwnerLabels kHiddenOwner{"(hidden)", ""};

// Names each process once. Not thread-safe; made for one run.
class OwnerNames {
 public:
  explicit OwnerNames(const CollectorContext& context) : context_(context) {}
  OwnerLabels of(const RdmaOwner& owner);

 private:
  const CollectorContext& context_;
  std::map<std::uint32_t, std::string> names_;
};

// Number of objects of a kind on the device, where something tells it.
std::optional<std::uint64_t> count_of(const Result<std::vector<ResourceCount>>& resources, std::string_view kind);

// The kernel, driver or recording has no such source.
bool not_here(const Error& error);

// Base of collectors of a device's verbs objects, which RDMA netlink lists; where it is not there, there are none.
class RdmaObjectsCollector : public Collector {
 public:
  using Collector::Collector;
  Result<void> collect(Output& out) final;

 protected:
  virtual Result<void> collect_objects(RdmaSource& source, const RdmaDevice& rdma, SampleBatch& samples) = 0;
};

}  // namespace roce

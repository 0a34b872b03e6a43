// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_holders.h"

#include <limits>
#include <set>

#include "exporter/kernel/process.h"

namespace roce {
namespace {

class Search {
 public:
  explicit Search(RdmaSource& source) : source_(source) {}

  void look_at(const RdmaDevice& device) {
    const auto contexts = source_.contexts(device);
    if (contexts) {
      add(*contexts, true);
      return;
    }
    // An older kernel, or a recording with other objects: these have owners too. QPs come last, since a list of them
    // can cost a firmware command each, and only a recording is asked for them.
    bool found = false;
    const auto take = [&](const auto& listing) {
      if (!listing) return;
      found = true;
      add(*listing, false);
    };
    if (missing(contexts.error())) {
      take(source_.cqs(device));
      take(source_.mrs(device));
      if (contexts.error().kind == ErrorKind::kNotRecorded) {
        take(source_.qps(device));
        take(source_.cm_ids(device));
      }
    }
    if (!found && !missing(contexts.error()) && contexts.error().kind != ErrorKind::kAbsent) error = contexts.error();
  }

  bool known = false;
  std::set<std::uint32_t> pids;
  std::uint64_t hidden = 0;
  std::optional<Error> error;

 private:
  static bool missing(const Error& error) {
    return error.kind == ErrorKind::kUnsupported || error.kind == ErrorKind::kNotRecorded;
  }

  template <class T>
  void add(const RdmaListing<T>& listing, bool contexts) {
    known = true;
    for (const T& object : listing.objects) {
      const RdmaOwner& owner = object.owner;
      if (owner.pid && *owner.pid != 0 && *owner.pid <= std::numeric_limits<std::int32_t>::max())
        pids.insert(*owner.pid);
      else if (contexts && !owner.kernel())
        ++hidden;
    }
    if (listing.broken) error = listing.broken;
  }

  RdmaSource& source_;
};

}  // namespace

RdmaHolders find_rdma_holders(const Host& host, const DeviceList& devices) {
  RdmaHolders holders;
  if (host.rdma) {
    Search search(*host.rdma);
    for (const auto& device : devices)
      if (device->kind == ObjectKind::kRdma && device->netlink) search.look_at(*device->netlink);
    holders.known = search.known;
    holders.pids.assign(search.pids.begin(), search.pids.end());
    holders.hidden = search.hidden;
    holders.error = search.error;
  }
  if (holders.known || host.live) return holders;
  if (auto all = list_processes(host.procfs)) {
    holders.known = !all->empty();
    holders.pids = std::move(*all);
  }
  return holders;
}

}  // namespace roce

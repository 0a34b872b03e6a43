// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nvme_events.h"

namespace roce {

void NvmeEvents::record(const Uevent& event) {
  if (event.subsystem != "nvme") return;
  const std::lock_guard lock(mutex_);
  if (event.action == "change" && event.nvme_event == "connected")
    ++connections_[event.name];
  else if (event.action == "remove")
    connections_.erase(event.name);
}

std::uint64_t NvmeEvents::connections(std::string_view controller) const {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(controller);
  return found == connections_.end() ? 0 : found->second;
}

}  // namespace roce

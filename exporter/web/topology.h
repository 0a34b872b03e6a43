// SPDX-License-Identifier: Apache-2.0
//
// The picture of where links sit and what runs over them: NUMA node and card, port and network device, storage
// sessions, peers. Drawn for wide screens; the same as a list for narrow ones and for those who have it read to them.
#pragma once

#include <string>

#include "exporter/web/status_view.h"

namespace roce {

struct TopologyLimits {
  std::size_t links = 24;
  std::size_t sessions = 32;  // groups of the same kind and peer on the same link
};

// Nothing where there is no link.
std::string topology_html(const StatusView& view, TopologyLimits limits = {});

}  // namespace roce

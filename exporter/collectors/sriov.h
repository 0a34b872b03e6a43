// SPDX-License-Identifier: Apache-2.0
//
// How the functions of a card relate: virtual functions to their physical one, representors in switchdev mode, link
// aggregation inside the card.
#pragma once

#include <memory>
#include <string_view>

#include "exporter/collectors/collector.h"

namespace roce {

std::unique_ptr<Collector> make_sriov_collector(const CollectorContext& context);

// True for the name of a port that stands for a function of the card: pf0, pf1vf3, c1pf0sf88. "p0" is an uplink.
bool is_representor_name(std::string_view port_name);

}  // namespace roce

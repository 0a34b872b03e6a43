// SPDX-License-Identifier: Apache-2.0
//
// What this node alone can say of where a fault lies. Whether a peer is bad for everybody is known only to who sees all
// nodes: the recording rules in alerts/rules/probe_blame.yml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/engine.h"

namespace roce::probe {

enum class Blame : std::uint8_t {
  kNone,     // all peers answer as they should
  kHost,     // this host is overloaded or its loopback is slow: its probes say nothing of the fabric
  kMySide,   // half of at least three peers are bad at once: this host's port, cable or switch
  kPeers,    // some are bad, most are not: those peers, or the paths to them
  kUnknown,  // the port is not active, or nothing was measured
};

struct DeviceBlame {
  std::string device;
  Blame blame = Blame::kUnknown;
  std::size_t bad = 0, judged = 0;  // peers that are not ok, and those with a state
  std::vector<std::string> names;   // of the bad ones
};

std::string_view to_string(Blame blame);  // none, host, my_side, peers, unknown
std::string_view advice(Blame blame);     // one sentence

std::vector<DeviceBlame> judge(const EngineStats& stats);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "probes/web/blame.h"

namespace roce::probe {
namespace {

// Of this many judged peers half have to be bad before it is this side's fault: with fewer, one bad peer would do.
constexpr std::size_t kLeastPeers = 3;

bool overloaded(const DeviceStats& device) { return device.throttle < 1; }

}  // namespace

std::string_view to_string(Blame blame) {
  constexpr std::string_view kWords[] = {"none", "host", "my_side", "peers", "unknown"};
  return kWords[static_cast<std::size_t>(blame)];
}

std::string_view advice(Blame blame) {
  switch (blame) {
    case Blame::kNone:
      return "All peers answer as they should.";
    case Blame::kHost:
      return "This host is overloaded: what its probes show is not the fabric.";
    case Blame::kMySide:
      return "At least half of the peers are bad at once: look at this host's port, cable and switch.";
    case Blame::kPeers:
      return "Most peers are fine: look at those that are bad, and ask whether others see them so too.";
    case Blame::kUnknown:
      break;
  }
  return "Nothing can be said yet.";
}

std::vector<DeviceBlame> judge(const EngineStats& stats) {
  std::vector<DeviceBlame> all;
  for (const DeviceStats& device : stats.devices) {
    DeviceBlame found;
    found.device = device.device;
    for (const PeerStats& peer : stats.peers) {
      if (peer.peer.device != device.device || peer.peer.port != device.port || peer.state == PeerState::kUnknown)
        continue;
      ++found.judged;
      if (peer.state == PeerState::kOk) continue;
      ++found.bad;
      found.names.push_back(peer.peer.name);
    }
    if (device.state != "active" || found.judged == 0)
      found.blame = Blame::kUnknown;
    else if (overloaded(device))
      found.blame = Blame::kHost;
    else if (found.bad == 0)
      found.blame = Blame::kNone;
    else
      found.blame = found.judged >= kLeastPeers && 2 * found.bad >= found.judged ? Blame::kMySide : Blame::kPeers;
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace roce::probe

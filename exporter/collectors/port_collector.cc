// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/port_collector.h"

#include <algorithm>

#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Two collectors ask a down port, for its state and for its hardware counters: together once a minute. Where no netdev
// would tell that the link has moved, each of them looks every minute.
constexpr auto kDownPortPeriod = std::chrono::seconds(120);
constexpr auto kDownPortPeriodWithoutNetdev = std::chrono::seconds(60);

}  // namespace

Result<void> PortCollector::collect_device(Part&) { return {}; }

// The port's own query says it; where that collector is off or has not succeeded yet, the port's netdev does.
bool PortCollector::is_down(const InventoryPort& port) const {
  if (const auto told = context().port_states->down(port.number)) return *told;
  if (port.netdev.empty()) return false;
  const auto state = read_attribute(host().net_class() + "/" + port.netdev + "/operstate");
  return state && (*state == "down" || *state == "lowerlayerdown");
}

std::string PortCollector::link_signature(const InventoryPort& port) const {
  if (port.netdev.empty()) return {};
  // These attributes are plain fields of the netdev: reading them takes no lock and asks no driver.
  const std::string dir = host().net_class() + "/" + port.netdev + "/";
  std::string text;
  for (const char* name : {"carrier_changes", "flags", "operstate"})
    text += read_attribute(dir + name).value_or("-") + " ";
  return text;
}

Result<void> PortCollector::collect(Output& out) {
  Result<void> result;
  auto whole = std::make_shared<Part>();
  if (auto done = collect_device(*whole); !done) result = done;
  whole->read_at = Part::Clock::now();
  out.parts.push_back(std::move(whole));
  if (device().ports_error) return tl::unexpected(*device().ports_error);

  std::erase_if(down_, [&](const auto& entry) {
    return std::none_of(device().ports.begin(), device().ports.end(),
                        [&](const InventoryPort& port) { return port.number == entry.first; });
  });
  for (const InventoryPort& port : device().ports) {
    const auto now = Part::Clock::now();
    const auto last = down_.find(port.number);
    // A port that is well costs no look at its netdev; one that has just gone down is asked once more.
    const bool was_down = host().live && (last != down_.end() || is_down(port));
    std::string link;
    if (was_down) {
      link = link_signature(port);
      const bool rests = rests_while_down() && is_down(port);
      const auto period = port.netdev.empty() ? kDownPortPeriodWithoutNetdev : kDownPortPeriod;
      if (last != down_.end() && last->second.link == link && (rests || now - last->second.part->read_at < period)) {
        out.parts.push_back(last->second.part);
        continue;
      }
    }
    auto part = std::make_shared<Part>();
    const auto done = collect_port(port, *part);
    part->read_at = now;
    if (!done && result) result = done;
    if (was_down && done && is_down(port))
      down_.insert_or_assign(port.number, Last{part, std::move(link)});
    else
      down_.erase(port.number);
    out.parts.push_back(std::move(part));
  }
  return result;
}

}  // namespace roce

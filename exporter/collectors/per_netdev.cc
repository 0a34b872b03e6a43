// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/per_netdev.h"

#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kDownStatePeriod = std::chrono::seconds(60);
constexpr auto kDownPeriod = std::chrono::minutes(10);
constexpr auto kAskAgain = std::chrono::minutes(10);

}  // namespace

Result<void> PerNetdevCollector::collect_state(const InventoryNetdev&, bool, Part&) { return {}; }

void PerNetdevCollector::conclude(Part&) {}

// These attributes are plain fields of the network device: reading them takes no lock and asks no driver.
bool PerNetdevCollector::is_down(const InventoryNetdev& netdev) const {
  const auto state = read_attribute(netdev.path + "/operstate");
  return state && (*state == "down" || *state == "lowerlayerdown");
}

std::string PerNetdevCollector::link_signature(const InventoryNetdev& netdev) const {
  std::string text;
  for (const char* name : {"/carrier_changes", "/flags", "/operstate"})
    text += read_attribute(netdev.path + name).value_or("-") + " ";
  return text;
}

Result<void> PerNetdevCollector::collect(Output& out) {
  // Names the RDMA device beside the calls themselves, which name the network device.
  const CallTracker::Scope scope(host().calls.get(), "ethtool", device().name);
  Result<void> result;
  std::optional<Error> not_recorded;
  bool recorded = false;
  const auto note = [&](const Result<void>& done) {
    if (done)
      recorded = true;
    else if (done.error().kind == ErrorKind::kNotRecorded)
      not_recorded = done.error();
    else if (result)
      result = done;
  };
  for (const InventoryNetdev& netdev : device().netdevs) {
    const std::string key = netdev.port + "/" + netdev.name;
    const auto now = Part::Clock::now();
    const bool down = host().live && is_down(netdev);
    Last read;
    if (down) read.link = link_signature(netdev);
    const auto last = down_.find(key);
    const bool rests = down && last != down_.end() && last->second.link == read.link;
    bool all_well = true;
    if (rests && now - last->second.state->read_at < kDownStatePeriod) {
      read.state = last->second.state;
    } else {
      auto state = std::make_shared<Part>();
      if (has_state()) {
        const auto done = collect_state(netdev, rests, *state);
        note(done);
        all_well = done.has_value();
      }
      state->read_at = now;
      read.state = std::move(state);
    }
    if (rests && now - last->second.part->read_at < kDownPeriod) {
      read.part = last->second.part;
      read.rest = last->second.rest;
    } else {
      auto part = std::make_shared<Part>();
      auto rest = std::make_shared<Part>();
      rest->least = true;
      const auto done = collect_netdev(netdev, *part, *rest);
      part->read_at = rest->read_at = now;
      note(done);
      all_well = all_well && done.has_value();
      read.part = std::move(part);
      read.rest = std::move(rest);
    }
    for (const auto& part : {read.state, read.part, read.rest}) out.parts.push_back(part);
    if (down && all_well)
      down_.insert_or_assign(key, std::move(read));
    else
      down_.erase(key);
  }
  auto whole = std::make_shared<Part>();
  whole->read_at = Part::Clock::now();
  conclude(*whole);
  out.parts.push_back(std::move(whole));
  if (result && not_recorded && !recorded) return tl::unexpected(std::move(*not_recorded));
  return result;
}

std::optional<Error> PerNetdevCollector::Refusals::refused(const std::string& netdev, std::string_view question) const {
  const auto found = refusals_.find({netdev, std::string(question)});
  if (found == refusals_.end() || Part::Clock::now() >= found->second.until) return std::nullopt;
  return found->second.error;
}

void PerNetdevCollector::Refusals::note(const std::string& netdev, std::string_view question, const Error* error) {
  std::pair<std::string, std::string> key(netdev, question);
  const bool for_good =
      error != nullptr && (error->kind == ErrorKind::kUnsupported || error->kind == ErrorKind::kDenied);
  if (for_good)
    refusals_.insert_or_assign(std::move(key), Refusal{*error, Part::Clock::now() + kAskAgain});
  else
    refusals_.erase(key);
}

}  // namespace roce

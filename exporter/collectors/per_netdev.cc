// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/per_netdev.h"

#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kDownPeriod = std::chrono::seconds(60);
constexpr auto kAskAgain = std::chrono::minutes(10);

}  // namespace

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
  Result<void> result;
  std::optional<Error> not_recorded;
  bool recorded = false;
  for (const InventoryNetdev& netdev : device().netdevs) {
    const std::string key = netdev.port + "/" + netdev.name;
    const auto now = Part::Clock::now();
    const bool down = host().live && is_down(netdev);
    const std::string link = down ? link_signature(netdev) : std::string();
    const auto last = down_.find(key);
    if (down && last != down_.end() && last->second.link == link && now - last->second.part->read_at < kDownPeriod) {
      out.parts.push_back(last->second.part);
      out.parts.push_back(last->second.rest);
      continue;
    }
    auto part = std::make_shared<Part>();
    auto rest = std::make_shared<Part>();
    rest->least = true;
    const auto done = collect_netdev(netdev, *part, *rest);
    part->read_at = rest->read_at = now;
    if (down && done)
      down_.insert_or_assign(key, Last{part, rest, link});
    else
      down_.erase(key);
    if (done)
      recorded = true;
    else if (done.error().kind == ErrorKind::kNotRecorded)
      not_recorded = done.error();
    else if (result)
      result = done;
    out.parts.push_back(std::move(part));
    out.parts.push_back(std::move(rest));
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

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/bond.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/bonding.h"

namespace roce {
namespace {

constexpr double kBytesPerMegabit = 1e6 / 8;

// Labels of a network device.
struct Owner {
  std::string device;
  std::string port;
  bool operator<(const Owner& other) const { return std::tie(device, port) < std::tie(other.device, other.port); }
};

class BondCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    const CallTracker::Scope scope(host().calls.get(), "bonding", "");
    const Bonds bonds = read_bonds(host());
    find_owners();
    for (const Bond& bond : bonds.all) add(bond, bonds.all.size() == 1, *part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (bonds.error) return tl::unexpected(*bonds.error);
    return {};
  }

 private:
  // A network device: who it belongs to, and the card that it is on.
  struct Netdev {
    Owner owner;
    std::string card;
  };

  void find_owners() {
    netdevs_.clear();
    for (const auto& object : device().devices)
      for (const InventoryNetdev& netdev : object->netdevs)
        netdevs_.emplace(netdev.name, Netdev{{netdev.device, netdev.port}, object->card});
  }

  // The RDMA port that stands on the bond: the one that names it, or the only one on its members. Where each member
  // has an RDMA device of its own, or one is of another card, the bond belongs to none of them.
  Owner owner_of(const Bond& bond, bool only_bond) const {
    if (const auto at = netdevs_.find(bond.name); at != netdevs_.end() && !at->second.owner.device.empty())
      return at->second.owner;
    std::set<Owner> owners;
    std::set<std::string> cards;
    for (const BondMember& member : bond.members) {
      const auto at = netdevs_.find(member.name);
      if (at == netdevs_.end()) continue;
      cards.insert(at->second.card);
      if (!at->second.owner.device.empty()) owners.insert(at->second.owner);
    }
    if (owners.size() == 1 && cards.size() == 1) return *owners.begin();
    if (!owners.empty() || !only_bond || host().live) return {};
    // A recording may hold the one bond and the one device without a link between them.
    const InventoryDevice* only = nullptr;
    for (const auto& object : device().devices) {
      if (object->kind != ObjectKind::kRdma || !object->netdevs.empty() || object->ports.size() != 1) continue;
      if (only != nullptr) return {};
      only = object.get();
    }
    return only == nullptr ? Owner{} : Owner{only->name, only->ports.front().text};
  }

  void add(const Bond& bond, bool only_bond, Part& part) const {
    const Owner owner = owner_of(bond, only_bond);
    const auto tell = [&](const MetricDesc& metric, Value value) {
      part.samples.add(metric, {owner.device, owner.port, bond.name}, value);
    };
    part.samples.add(metric::bond_info, {owner.device, owner.port, bond.name, bond.mode, bond.transmit_hash}, 1);
    if (bond.up) tell(metric::bond_up, *bond.up);
    unsigned active = 0;
    bool known = true;
    for (const BondMember& member : bond.members) {
      const auto state = bond.active(member);
      known = known && state;
      active += state.value_or(false) ? 1 : 0;
      add_member(bond, member, owner, part);
    }
    tell(metric::bond_members, bond.members.size());
    if (known) tell(metric::bond_active_members, active);
  }

  void add_member(const Bond& bond, const BondMember& member, const Owner& bond_owner, Part& part) const {
    Owner owner = bond_owner;
    if (const auto at = netdevs_.find(member.name); at != netdevs_.end() && !at->second.owner.device.empty())
      owner = at->second.owner;
    const auto tell = [&](const MetricDesc& metric, Value value) {
      part.samples.add(metric, {owner.device, owner.port, member.name, bond.name}, value);
    };
    if (member.up) tell(metric::bond_member_up, *member.up);
    if (const auto active = bond.active(member)) tell(metric::bond_member_active, *active);
    if (bond.mode == "active-backup") tell(metric::bond_member_in_use, member.name == bond.in_use);
    if (member.link_failures) tell(metric::bond_member_link_failures, *member.link_failures);
    if (member.speed) tell(metric::bond_member_speed, static_cast<double>(*member.speed) * kBytesPerMegabit);
  }

  std::map<std::string, Netdev, std::less<>> netdevs_;  // by name
};

}  // namespace

std::unique_ptr<Collector> make_bond_collector(const CollectorContext& context) {
  return std::make_unique<BondCollector>(context);
}

}  // namespace roce

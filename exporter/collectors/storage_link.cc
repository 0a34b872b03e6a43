// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/storage_link.h"

#include <algorithm>
#include <utility>

#include "exporter/collectors/rdma_gid.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kAskAgain = std::chrono::seconds(60);
constexpr int kMaxDepth = 4;  // VLAN on bond on member, and one more

// The network device of the GID that is made of the address: for made trees and recordings, whose routes do not tell
// which of two devices in one network has it. Empty when there is none.
std::string gid_owner(const Host& host, const IpAddress& own) {
  Gid wanted{};
  if (own.v6) {
    std::copy(own.bytes.begin(), own.bytes.end(), wanted.begin());
  } else {
    wanted[10] = wanted[11] = 0xff;
    std::copy_n(own.bytes.begin(), 4, wanted.begin() + 12);
  }
  const auto entries = [](const std::string& dir) { return list_directory(dir).value_or(std::vector<std::string>()); };
  for (const std::string& device : entries(host.rdma_class())) {
    const std::string ports = host.rdma_class() + "/" + device + "/ports/";
    for (const std::string& port : entries(ports)) {
      for (const std::string& index : entries(ports + port + "/gids")) {
        const auto text = read_attribute(ports + port + "/gids/" + index);
        if (!text || parse_gid(*text) != wanted) continue;
        if (const auto netdev = read_attribute(ports + port + "/gid_attrs/ndevs/" + index); netdev && !netdev->empty())
          return *netdev;
      }
    }
  }
  return {};
}

}  // namespace

StorageLinkFinder::StorageLinkFinder(const Host& host) : host_(host), tables_(open_route_tables(host.procfs)) {}

std::optional<StorageLink> StorageLinkFinder::find(const StorageConnection& connection, const DeviceList& devices,
                                                   bool anew) {
  const auto now = Clock::now();
  auto known = answers_.find(connection);
  // A made tree may change between two reads, and reading it costs nothing.
  if (known == answers_.end() || anew || !host_.live || now - known->second.asked >= kAskAgain)
    known = answers_.insert_or_assign(connection, ask(connection)).first;
  known->second.used = true;
  if (known->second.netdev.empty()) return std::nullopt;
  StorageLink link;
  link.netdev = known->second.netdev;
  link.found_by = known->second.found_by;
  if (!attach(link, link.netdev, devices, 0)) {
    link.device.clear();
    link.port.clear();
  }
  return link;
}

void StorageLinkFinder::prune() {
  std::erase_if(answers_, [](const auto& entry) { return !entry.second.used; });
  for (auto& [connection, answer] : answers_) answer.used = false;
}

StorageLinkFinder::Answer StorageLinkFinder::ask(const StorageConnection& connection) const {
  Answer answer;
  answer.asked = Clock::now();
  if (!connection.interface.empty()) {
    answer.netdev = connection.interface;
    answer.found_by = "interface";
    return answer;
  }
  const auto try_source = [&](RouteSource& routes) {
    const auto own = parse_ip_address(connection.source);
    if (!own) return false;
    auto netdev = routes.owner(*own);
    if (!netdev) return false;
    answer.netdev = std::move(*netdev);
    answer.found_by = "source_address";
    return true;
  };
  const auto try_route = [&](RouteSource& routes) {
    const auto target = parse_ip_address(connection.target);
    if (!target) return false;
    auto netdev = routes.route(*target);
    if (!netdev) return false;
    answer.netdev = std::move(*netdev);
    answer.found_by = "route";
    return true;
  };
  // A link-local target says itself over which device it is reached.
  const auto zone = connection.target.find('%');
  if (zone != std::string::npos && zone + 1 < connection.target.size()) {
    answer.netdev = connection.target.substr(zone + 1);
    answer.found_by = "interface";
    return answer;
  }
  if (host_.routes) {
    if (!try_source(*host_.routes)) try_route(*host_.routes);
  } else if (!try_source(*tables_)) {
    const auto own = parse_ip_address(connection.source);
    if (own) answer.netdev = gid_owner(host_, *own);
    if (!answer.netdev.empty())
      answer.found_by = "source_address";
    else if (!own)  // else the route may be another device's than the one that has the address
      try_route(*tables_);
  }
  return answer;
}

// The RDMA port of a network device, or of what lies below it: a VLAN's parent, a bond's members when they all share
// one RDMA device. False when there is none or more than one.
bool StorageLinkFinder::attach(StorageLink& link, const std::string& netdev, const DeviceList& devices,
                               int depth) const {
  for (const auto& device : devices) {
    for (const InventoryPort& port : device->ports) {
      if (port.netdev != netdev) continue;
      link.device = device->name;
      link.port = port.text;
      return true;
    }
    for (const InventoryNetdev& own : device->netdevs) {
      if (own.name != netdev || own.device.empty()) continue;
      link.device = own.device;
      link.port = own.port;
      return true;
    }
  }
  if (depth == kMaxDepth || netdev.find('/') != std::string::npos) return false;
  const auto entries = list_directory(host_.net_class() + "/" + netdev);
  if (!entries) return false;
  bool found = false;
  for (const std::string& entry : *entries) {
    if (!entry.starts_with("lower_")) continue;
    StorageLink below;
    if (!attach(below, entry.substr(6), devices, depth + 1)) continue;
    if (found && (below.device != link.device || below.port != link.port)) return false;
    link.device = below.device;
    link.port = below.port;
    found = true;
  }
  return found;
}

}  // namespace roce

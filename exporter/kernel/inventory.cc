// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/netdev_counters.h"

namespace roce {
namespace {

constexpr auto kLookUpAgain = std::chrono::seconds(60);
constexpr std::size_t kMaxProcNetDev = std::size_t{1} << 20;

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kDrivers{{
    {"mlx5_core", "mlx5"},  {"mlx5_ib", "mlx5"},       {"mlx4_core", "mlx4"}, {"mlx4_ib", "mlx4"},
    {"bnxt_en", "bnxt_re"}, {"bnxt_re", "bnxt_re"},    {"ice", "irdma"},      {"idpf", "irdma"},
    {"irdma", "irdma"},     {"i40iw", "irdma"},        {"efa", "efa"},        {"erdma", "erdma"},
    {"hns3", "hns"},        {"hns_roce_hw_v2", "hns"}, {"mana", "mana"},      {"cxgb4", "cxgb4"},
    {"hfi1", "hfi1"},       {"rdma_rxe", "rxe"},       {"ionic", "ionic"},    {"i40e", "irdma"},
}};

// Drivers whose port query asks the netdev for its speed under the RTNL lock (they use the core's Ethernet helper).
constexpr std::array<std::string_view, 7> kRtnlPortQuery{"bnxt_re", "irdma", "rxe", "siw", "erdma", "hns", "qede"};

bool hex_run(std::string_view text, std::size_t least, std::size_t most) {
  return text.size() >= least && text.size() <= most &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// domain:bus:device.function
bool is_pci_address(std::string_view text) {
  const auto first = text.find(':');
  if (first == std::string_view::npos) return false;
  const auto second = text.find(':', first + 1);
  if (second == std::string_view::npos) return false;
  const auto dot = text.find('.', second + 1);
  if (dot == std::string_view::npos) return false;
  return hex_run(text.substr(0, first), 4, 8) && hex_run(text.substr(first + 1, second - first - 1), 2, 2) &&
         hex_run(text.substr(second + 1, dot - second - 1), 2, 2) && text.size() == dot + 2 && text[dot + 1] >= '0' &&
         text[dot + 1] <= '7';
}

std::string value_or_empty(Result<std::string> result) { return result ? std::move(*result) : std::string(); }

// DRIVER= line of a uevent file: made trees and some recordings hold it without the driver link.
std::string driver_of_uevent(const std::string& path) {
  const auto text = read_file(path, 4096);
  if (!text) return {};
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (line.starts_with("DRIVER=")) return std::string(trim(line.substr(7)));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return {};
}

// The drivers of the mlx family name the PCI device in hca_type ("MT4123"); that is told apart where no driver link is.
std::string_view driver_of_hca_type(std::string_view hca_type) {
  if (!hca_type.starts_with("MT")) return {};
  const auto id = parse_u64(hca_type.substr(2));
  if (!id) return {};
  return *id >= 4113 ? "mlx5" : "mlx4";  // 4113 = 0x1011, Connect-IB, the first mlx5 device
}

std::string_view driver_of_vendor(std::string_view vendor) {
  if (vendor == "0x1d0f") return "efa";
  if (vendor == "0x1ded") return "erdma";
  if (vendor == "0x14e4") return "bnxt_re";
  if (vendor == "0x1414") return "mana";
  if (vendor == "0x1dd8") return "ionic";
  return {};
}

// The netdevs of the device's parent, each with the port it belongs to (dev_port counts from 0).
std::vector<std::pair<unsigned, std::string>> netdevs_of_parent(const std::string& device_dir,
                                                                const Inventory::NameFilter& wanted) {
  std::vector<std::pair<unsigned, std::string>> result;
  const auto names = list_directory(device_dir + "/device/net");
  if (!names) return result;
  for (const std::string& name : *names) {
    if (!wanted(name)) continue;
    const auto port = read_u64(device_dir + "/device/net/" + name + "/dev_port");
    result.emplace_back(port ? static_cast<unsigned>(*port) : 0U, name);
  }
  return result;
}

Result<std::vector<unsigned>> list_ports(const std::string& device_dir) {
  ROCE_TRY(const auto names, list_directory(device_dir + "/ports"));
  std::vector<unsigned> numbers;
  for (const std::string& text : names)
    if (const auto number = parse_u64(text); number && *number > 0 && *number < 256 && text == std::to_string(*number))
      numbers.push_back(static_cast<unsigned>(*number));
  return numbers;
}

// A driver can take a port away and add one without registering its device anew.
bool same_ports(const InventoryDevice& device) {
  if (device.path.empty()) return true;
  const auto numbers = list_ports(device.path);
  // Where only netlink tells them, there is no directory to compare with.
  if (!numbers) return numbers.error().kind == ErrorKind::kAbsent && device.ports_listed_elsewhere;
  return std::equal(numbers->begin(), numbers->end(), device.ports.begin(), device.ports.end(),
                    [](unsigned number, const InventoryPort& port) { return number == port.number; });
}

// Drivers call a physical port p0, or p0s1 where it is split; the representors of functions are pf0, pf0vf1, c1pf0sf2.
bool is_physical_port(std::string_view name) {
  if (!name.starts_with('p')) return false;
  const auto split = name.find('s');
  return parse_u64(name.substr(1, split - 1)) && (split == std::string_view::npos || parse_u64(name.substr(split + 1)));
}

// By its place among the kernel's devices, which recordings hold; made trees need not.
bool is_virtual(const Host& host, const std::string& netdev) {
  return value_or_empty(resolve(host.net_class() + "/" + netdev)).find("/devices/virtual/") != std::string::npos;
}

std::string netdev_of_port(const std::string& device_dir, unsigned port, std::size_t ports,
                           const std::vector<std::pair<unsigned, std::string>>& parents) {
  // With several ports the only netdev need not be this port's: the others' may be filtered out or moved away.
  if (parents.size() == 1 && ports == 1) return parents.front().second;
  std::vector<std::string> matches;
  for (const auto& [dev_port, name] : parents)
    if (dev_port + 1 == port) matches.push_back(name);
  if (matches.size() == 1) return matches.front();
  // Software devices name their netdev in `parent`; others through the first GID, which also tells the uplink of a
  // card in switchdev mode from the representors that have the same number.
  if (auto name = value_or_empty(read_attribute(device_dir + "/parent")); !name.empty()) return name;
  if (auto name = value_or_empty(read_attribute(device_dir + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs/0"));
      !name.empty())
    return name;
  // Without a GID the names of the ports tell. Reading them can wait for RTNL, so that they are asked for last.
  std::erase_if(matches, [&](const std::string& name) {
    const auto port_name = read_attribute(device_dir + "/device/net/" + name + "/phys_port_name");
    return port_name && !is_physical_port(*port_name);
  });
  return matches.size() == 1 ? matches.front() : std::string();
}

}  // namespace

std::string_view counter_driver(std::string_view kernel_driver) {
  for (const auto& [kernel, key] : kDrivers)
    if (kernel == kernel_driver) return key;
  return {};
}

std::string_view pci_address_in(std::string_view path) {
  while (!path.empty()) {
    const auto slash = path.rfind('/');
    const std::string_view last = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (is_pci_address(last)) return last;
    if (slash == std::string_view::npos) break;
    path = path.substr(0, slash);
  }
  return {};
}

Inventory::Inventory(std::shared_ptr<const Host> host, NameFilter wanted, NameFilter netdev_wanted)
    : host_(std::move(host)),
      wanted_(std::move(wanted)),
      netdev_wanted_(std::move(netdev_wanted)),
      epoch_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

void Inventory::invalidate() { epoch_->fetch_add(1); }

Result<DeviceList> Inventory::refresh() {
  const std::string class_dir = host_->rdma_class();
  const CallTracker::Scope scope(host_->calls.get(), "rdma_devices", "");
  std::map<std::string, std::optional<RdmaDevice>> found;
  if (auto names = list_directory(class_dir)) {
    for (std::string& name : *names)
      if (wanted_(name)) found.emplace(std::move(name), std::nullopt);
  } else if (names.error().kind != ErrorKind::kAbsent) {
    return tl::unexpected(names.error());
  }
  if (host_->rdma) {
    if (auto devices = host_->rdma->devices()) {
      for (RdmaDevice& device : *devices)
        if (found.contains(device.name) || (!host_->live && wanted_(device.name))) {
          std::string name = device.name;
          found[name] = std::move(device);
        }
    } else if (!host_->live && found.empty() && devices.error().kind != ErrorKind::kNotRecorded) {
      return tl::unexpected(devices.error());
    } else {
      // The class directory has named the devices, and a failing dump does not make them new ones: what the last dump
      // told of them stands, so that the histories of their counters go on. What else a recording holds of them is
      // asked for by their names.
      const bool recorded = !host_->live && devices.error().kind != ErrorKind::kNotRecorded;
      for (auto& [name, netlink] : found) {
        if (const auto old = known_.find(name); old != known_.end())
          netlink = old->second.device->netlink;
        else if (recorded)
          netlink.emplace().name = name;
      }
    }
  }

  const std::uint64_t epoch = epoch_->load();
  struct stat status{};
  std::string identity;
  if (stat(class_dir.c_str(), &status) == 0)
    identity = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  const bool all_again = epoch != seen_epoch_ || identity != class_identity_;
  seen_epoch_ = epoch;
  class_identity_ = identity;

  const auto now = Clock::now();
  std::map<std::string, Known> known;
  DeviceList list;
  list.reserve(found.size());
  for (auto& [name, netlink] : found) {
    const auto old = known_.find(name);
    const std::uint64_t generation = netlink ? netlink->index : 0;
    if (!all_again && old != known_.end() && old->second.device->generation == generation &&
        now - old->second.looked_up < kLookUpAgain && !old->second.device->ports.empty() &&
        same_ports(*old->second.device)) {
      known.emplace(name, old->second);
    } else {
      known.emplace(name, Known{look_up(name, netlink), now});
    }
    list.push_back(known.at(name).device);
  }
  refresh_netdevs(all_again, now);
  attach_netdevs(list);
  // The copies with their network devices: a device whose netdevs stay as they are stays the same object.
  for (const auto& device : list) known.at(device->name).device = device;
  known_ = std::move(known);
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return natural_less(a->name, b->name); });
  auto host = std::make_shared<InventoryDevice>();
  host->kind = ObjectKind::kHost;
  host->card = "host";
  host->devices = list;
  host->devices.insert(host->devices.end(), others_.begin(), others_.end());
  if (host_object_ && host_object_->devices == host->devices) {
    others_.push_back(host_object_);
  } else {
    others_.push_back(host);
    host_object_ = std::move(host);
  }
  return list;
}

Inventory::KnownNetdev Inventory::look_up_netdev(const std::string& name) const {
  KnownNetdev found;
  const std::string dir = host_->net_class() + "/" + name;
  if (const auto parent = resolve(dir + "/device")) {
    found.parent = *parent;
    found.pci_address = pci_address_in(*parent);
    found.driver = value_or_empty(link_basename(dir + "/device/driver"));
    std::string physical = found.pci_address;
    if (const auto function = link_basename(dir + "/device/physfn")) physical = *function;
    found.card = physical.substr(0, physical.rfind('.'));
    found.carries_rdma = exists(dir + "/device/infiniband");
  }
  if (found.card.empty()) found.card = name;
  if (!exists(dir + "/bonding")) return found;
  // The links name the legs without the RTNL lock that bonding/slaves waits for; made trees may lack them.
  if (const auto entries = list_directory(dir))
    for (const std::string& entry : *entries)
      if (entry.starts_with("lower_")) found.legs.push_back(entry.substr(6));
  if (found.legs.empty() && !host_->live) {
    const std::string text = value_or_empty(read_attribute(dir + "/bonding/slaves"));
    for (std::string_view rest = text; !rest.empty();) {
      const auto end = rest.find(' ');
      if (const auto leg = trim(rest.substr(0, end)); !leg.empty()) found.legs.emplace_back(leg);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  return found;
}

void Inventory::refresh_netdevs(bool all_again, Clock::time_point now) {
  std::vector<std::string> names = host_->recorded_netdevs;
  if (auto listed = list_directory(host_->net_class()))
    for (std::string& name : *listed)
      if (name != "lo" && name != "bonding_masters") names.push_back(std::move(name));
  if (!host_->live) {
    // Made trees may have the traffic counters of a network device and nothing else of it.
    const auto text = read_file(host_->procfs + "/net/dev", kMaxProcNetDev);
    for (NetdevCounters& counters : parse_proc_net_dev(text.value_or("")))
      if (counters.name != "lo") names.push_back(std::move(counters.name));
  }
  std::map<std::string, KnownNetdev> known;
  for (const std::string& name : names) {
    if (!netdev_wanted_(name) || known.contains(name)) continue;
    const auto old = known_netdevs_.find(name);
    if (!all_again && old != known_netdevs_.end() && now - old->second.looked_up < kLookUpAgain) {
      known.emplace(name, std::move(old->second));
      continue;
    }
    KnownNetdev found = look_up_netdev(name);
    found.looked_up = now;
    known.emplace(name, std::move(found));
  }
  known_netdevs_ = std::move(known);
}

InventoryNetdev Inventory::netdev(const std::string& name) const {
  InventoryNetdev netdev;
  netdev.name = name;
  if (!name.empty()) netdev.path = host_->net_class() + "/" + name;
  if (const auto at = known_netdevs_.find(name); at != known_netdevs_.end()) {
    netdev.driver = at->second.driver;
    netdev.pci_address = at->second.pci_address;
  }
  return netdev;
}

// The bond that an RDMA device stands on whose function has this network device; empty where it stands on the network
// device alone. A card whose ports are aggregated has one RDMA device for all of them, at the first port's function.
std::string Inventory::bond_of(const std::string& netdev) const {
  const auto own = known_netdevs_.find(netdev);
  if (own == known_netdevs_.end()) return {};
  for (const auto& [name, bond] : known_netdevs_) {
    if (bond.legs.size() < 2 || std::find(bond.legs.begin(), bond.legs.end(), netdev) == bond.legs.end()) continue;
    const bool one_card = std::all_of(bond.legs.begin(), bond.legs.end(), [&](const std::string& leg) {
      const auto at = known_netdevs_.find(leg);
      return leg == netdev || (at != known_netdevs_.end() && !at->second.parent.empty() &&
                               at->second.card == own->second.card && !at->second.carries_rdma);
    });
    if (one_card) return name;
  }
  return {};
}

std::vector<InventoryNetdev> Inventory::netdevs_of(const InventoryDevice& device) const {
  std::vector<InventoryNetdev> result;
  for (const InventoryPort& port : device.ports) {
    if (port.netdev.empty()) continue;
    InventoryNetdev own = netdev(port.netdev);
    own.device = device.name;
    own.port = port.text;
    result.push_back(own);
    const auto at = known_netdevs_.find(port.netdev);
    if (at == known_netdevs_.end()) continue;
    for (const std::string& leg : at->second.legs) {
      if (!netdev_wanted_(leg)) continue;
      InventoryNetdev member = netdev(leg);
      member.device = device.name;
      member.port = port.text;
      member.lag_member = true;
      result.push_back(std::move(member));
    }
  }
  return result;
}

// Gives each RDMA device its network devices and collects those that are left.
void Inventory::attach_netdevs(DeviceList& list) {
  std::set<std::string> claimed;
  std::set<std::string> parents;
  const auto same = [](const InventoryNetdev& a, const InventoryNetdev& b) {
    return a.name == b.name && a.port == b.port && a.driver == b.driver && a.pci_address == b.pci_address &&
           a.lag_member == b.lag_member;
  };
  const auto set_netdevs = [&](std::shared_ptr<const InventoryDevice>& device, std::vector<InventoryNetdev> netdevs) {
    for (const InventoryNetdev& netdev : netdevs) claimed.insert(netdev.name);
    if (std::equal(netdevs.begin(), netdevs.end(), device->netdevs.begin(), device->netdevs.end(), same)) return;
    auto copy = std::make_shared<InventoryDevice>(*device);
    copy->netdevs = std::move(netdevs);
    device = std::move(copy);
  };
  for (auto& device : list) {
    for (std::size_t i = 0; i < device->ports.size(); ++i) {
      std::string bond = device->ports[i].netdev.empty() ? std::string() : bond_of(device->ports[i].netdev);
      if (bond.empty()) continue;
      auto copy = std::make_shared<InventoryDevice>(*device);
      copy->ports[i].netdev = std::move(bond);
      device = std::move(copy);
    }
    set_netdevs(device, netdevs_of(*device));
    if (!device->parent.empty()) parents.insert(device->parent);
  }
  // A recording of one device may hold its network device without a link between them.
  if (!host_->live && list.size() == 1 && list.front()->netdevs.empty() && list.front()->ports.size() == 1 &&
      known_netdevs_.size() == 1 && !is_virtual(*host_, known_netdevs_.begin()->first)) {
    InventoryNetdev only = netdev(known_netdevs_.begin()->first);
    only.device = list.front()->name;
    only.port = list.front()->ports.front().text;
    set_netdevs(list.front(), {std::move(only)});
  }
  DeviceList others;
  for (const auto& [name, known] : known_netdevs_) {
    if (claimed.contains(name)) continue;
    if (known.parent.empty() ? host_->live || is_virtual(*host_, name) : parents.contains(known.parent)) continue;
    const auto old = std::find_if(others_.begin(), others_.end(), [&own = name](const auto& object) {
      return object->kind == ObjectKind::kNetdev && object->netdevs.front().name == own;
    });
    auto object = std::make_shared<InventoryDevice>();
    object->kind = ObjectKind::kNetdev;
    object->name = name;
    object->kernel_driver = known.driver;
    object->parent = known.parent;
    object->pci_address = known.pci_address;
    object->card = known.card;
    object->netdevs = {netdev(name)};
    if (old != others_.end() && same((*old)->netdevs.front(), object->netdevs.front()))
      others.push_back(*old);
    else
      others.push_back(std::move(object));
  }
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return natural_less(a->name, b->name); });
  others_ = std::move(others);
}

std::shared_ptr<const InventoryDevice> Inventory::look_up(const std::string& name,
                                                          const std::optional<RdmaDevice>& netlink) const {
  auto device = std::make_shared<InventoryDevice>();
  device->name = name;
  device->netlink = netlink;
  device->generation = netlink ? netlink->index : 0;
  const std::string dir = host_->rdma_class() + "/" + name;
  if (exists(dir)) device->path = dir;

  device->kernel_driver = value_or_empty(link_basename(dir + "/device/driver"));
  if (device->kernel_driver.empty()) device->kernel_driver = driver_of_uevent(dir + "/device/uevent");
  device->driver = counter_driver(device->kernel_driver);
  if (device->driver.empty()) device->driver = driver_of_hca_type(value_or_empty(read_attribute(dir + "/hca_type")));
  if (device->driver.empty()) device->driver = driver_of_vendor(value_or_empty(read_attribute(dir + "/device/vendor")));
  if (device->driver.empty() && exists(dir + "/parent")) device->driver = "rxe";  // only rxe has this attribute

  device->parent = value_or_empty(resolve(dir + "/device"));
  device->pci_address = pci_address_in(device->parent);
  if (device->pci_address.empty()) {
    // A made tree may hold the parent's uevent without its link.
    if (const auto text = read_file(dir + "/device/uevent", 4096)) {
      const auto at = text->find("PCI_SLOT_NAME=");
      if (at != std::string::npos) {
        const std::string_view slot = std::string_view(*text).substr(at + 14);
        if (const auto address = trim(slot.substr(0, slot.find('\n'))); is_pci_address(address))
          device->pci_address = address;
      }
    }
  }
  std::string physical = device->pci_address;
  if (const auto function = link_basename(dir + "/device/physfn")) physical = *function;
  device->card = physical.empty() ? name : physical.substr(0, physical.rfind('.'));
  if (const auto node = read_attribute(dir + "/device/numa_node"))
    if (const auto number = parse_i64(*node); number && *number >= 0) device->numa_node = std::to_string(*number);
  const auto asks_netdev = [](std::string_view driver) {
    return std::find(kRtnlPortQuery.begin(), kRtnlPortQuery.end(), driver) != kRtnlPortQuery.end();
  };
  // Of a driver that is not known the worse is assumed.
  device->rtnl_port_query = asks_netdev(device->driver) || asks_netdev(device->kernel_driver) || device->driver.empty();

  const auto parents = netdevs_of_parent(dir, netdev_wanted_);
  const auto numbers = list_ports(dir);
  if (numbers && !numbers->empty()) {
    for (const unsigned number : *numbers)
      device->ports.push_back({number, std::to_string(number), netdev_of_port(dir, number, numbers->size(), parents)});
  } else if (!numbers && numbers.error().kind != ErrorKind::kAbsent) {
    device->ports_error = numbers.error();
  } else if (host_->rdma && netlink && !host_->live) {
    // A recording may hold netlink alone. On a live kernel the port query is left to the port's own collector: it can
    // wait for the firmware, and nobody else should.
    device->ports_listed_elsewhere = true;
    if (const auto ports = host_->rdma->ports(*netlink))
      for (const RdmaPort& port : *ports) device->ports.push_back({port.port, std::to_string(port.port), port.netdev});
  }
  // Every RDMA device has ports.
  if (device->ports.empty() && !device->ports_error)
    device->ports_error = Error{host_->recording() ? ErrorKind::kNotRecorded : ErrorKind::kAbsent, 0, dir + "/ports"};
  for (InventoryPort& port : device->ports)
    if (!port.netdev.empty() && !netdev_wanted_(port.netdev)) port.netdev.clear();
  return device;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/sriov.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/card_functions.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Bus, device and function as one number: what the offset and stride of virtual functions count in.
std::optional<std::uint64_t> routing_id(std::string_view address) {
  const auto second = address.rfind(':');
  if (second == std::string_view::npos || second < 2 || address.size() != second + 5) return std::nullopt;
  const auto bus = parse_hex(address.substr(second - 2, 2));
  const auto slot = parse_hex(address.substr(second + 1, 2));
  const auto function = parse_hex(address.substr(second + 4, 1));
  if (!bus || !slot || !function || *slot > 31 || *function > 7) return std::nullopt;
  return *bus << 8U | *slot << 3U | *function;
}

bool take_number(std::string_view& text) {
  const auto size = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(size);
  return size != 0;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

class SriovCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    if (!device().path.empty()) {
      const CallTracker::Scope scope(host().calls.get(), "sysfs_functions", device().name);
      const std::string dir = function_path();
      add_physical(dir, *part);
      add_virtual(dir, *part);
      bool switchdev = false;
      for (const InventoryNetdev& netdev : device().netdevs) switchdev = add_switch_port(netdev, *part) || switchdev;
      if (switchdev) add_representors(*part);
      add_lag(*part);
    }
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures_.conclude();
  }

 private:
  // The PCI function: not always what the RDMA device's link leads to.
  std::string function_path() const {
    std::string dir = device().path + "/device";
    if (exists(dir + "/sriov_totalvfs") || device().pci_address.empty()) return dir;
    std::string pci = host().sysfs + "/bus/pci/devices/" + device().pci_address;
    return exists(pci) ? pci : dir;
  }

  void add_physical(const std::string& dir, Part& part) {
    const auto limit = failures_.value(read_u64(dir + "/sriov_totalvfs"));
    if (!limit) return;
    part.samples.add(metric::virtual_functions_limit, {device().name}, *limit);
    if (const auto count = failures_.value(read_u64(dir + "/sriov_numvfs")))
      part.samples.add(metric::virtual_functions, {device().name}, *count);
  }

  void add_virtual(const std::string& dir, Part& part) {
    const auto physical = link_basename(dir + "/physfn");
    if (!physical) return;
    std::string physical_device;
    if (const auto names = list_directory(dir + "/physfn/infiniband"); names && !names->empty())
      physical_device = names->front();
    const auto index = virtual_index(dir + "/physfn", *physical);
    part.samples.add(metric::virtual_function_info,
                     {device().name, physical_device, *physical, index ? std::to_string(*index) : ""}, 1);
  }

  std::optional<std::uint64_t> virtual_index(const std::string& physical_dir, std::string_view physical) const {
    // By arithmetic where the kernel tells how, since searching costs a look at each of hundreds of links.
    const auto own_id = routing_id(device().pci_address);
    const auto physical_id = routing_id(physical);
    const auto offset = read_u64(physical_dir + "/sriov_offset");
    const auto stride = read_u64(physical_dir + "/sriov_stride");
    if (own_id && physical_id && offset && stride && *stride != 0 && *own_id >= *physical_id + *offset &&
        (*own_id - *physical_id - *offset) % *stride == 0)
      return (*own_id - *physical_id - *offset) / *stride;
    const auto entries = list_directory(physical_dir);
    if (!entries) return std::nullopt;
    for (const std::string& entry : *entries) {
      if (!entry.starts_with("virtfn")) continue;
      if (const auto target = link_basename(physical_dir + "/" + entry); target && *target == device().pci_address)
        return parse_u64(std::string_view(entry).substr(6));
    }
    return std::nullopt;
  }

  // True for a port of an embedded switch.
  bool add_switch_port(const InventoryNetdev& netdev, Part& part) {
    if (netdev.path.empty()) return false;
    const auto name = failures_.value(read_attribute(netdev.path + "/phys_port_name"));
    if (name && is_representor_name(*name)) {
      part.samples.add(metric::representor_info, {netdev.device, netdev.port, netdev.name, *name}, 1);
      return true;
    }
    const auto id = failures_.value(read_attribute(netdev.path + "/phys_switch_id"));
    if (!id) return false;
    const std::string_view shown = context().settings.hide_identity ? std::string_view{} : *id;
    part.samples.add(metric::switchdev_info, {netdev.device, netdev.port, netdev.name, name.value_or(""), shown}, 1);
    return true;
  }

  // In switchdev mode whatever is on the function beside the ports' own network devices stands for another function.
  void add_representors(Part& part) {
    const auto names = list_directory(device().path + "/device/net");
    if (!names) return;
    std::set<std::string_view> own;
    for (const InventoryNetdev& netdev : device().netdevs) own.insert(netdev.name);
    const auto others =
        std::count_if(names->begin(), names->end(), [&](const auto& name) { return !own.contains(name); });
    part.samples.add(metric::representors, {device().name}, std::int64_t{others});
  }

  // An extra of those who can read debugfs: bonds themselves are told elsewhere.
  void add_lag(Part& part) const {
    if (device().driver != "mlx5") return;
    for (const InventoryNetdev& netdev : card_functions(device())) {
      const std::string dir = host().debugfs() + "/mlx5/" + netdev.pci_address + "/lag/";
      const auto state = read_attribute(dir + "state");
      if (!state) continue;
      part.samples.add(metric::rdma_lag_info,
                       {netdev.device, netdev.port, netdev.name, read_attribute(dir + "type").value_or(""), *state,
                        read_attribute(dir + "port_sel_mode").value_or("")},
                       1);
    }
  }

  FailureNote failures_;
};

}  // namespace

bool is_representor_name(std::string_view port_name) {
  std::string_view rest = port_name;
  if (take(rest, "c") && !take_number(rest)) return false;
  if (!take(rest, "pf") || !take_number(rest)) return false;
  if (rest.empty()) return true;
  return (take(rest, "vf") || take(rest, "sf")) && take_number(rest) && rest.empty();
}

std::unique_ptr<Collector> make_sriov_collector(const CollectorContext& context) {
  return std::make_unique<SriovCollector>(context);
}

}  // namespace roce

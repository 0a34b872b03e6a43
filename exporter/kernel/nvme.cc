// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nvme.h"

#include <algorithm>
#include <map>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/base/saturate.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/inventory.h"

namespace roce {
namespace {

constexpr std::array<std::string_view, 7> kStateNames{"new",      "live", "resetting", "connecting",
                                                      "deleting", "dead", "unknown"};
constexpr std::array<std::string_view, 5> kAnaStates{"optimized", "non-optimized", "inaccessible", "persistent-loss",
                                                     "change"};
constexpr std::uint64_t kSectorSize = 512;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Takes the digits at the beginning of `text` off it. The kernel's numbers are short.
std::string_view take_digits(std::string_view& text) {
  std::size_t n = 0;
  while (n < text.size() && digit(text[n])) ++n;
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return n <= 10 ? digits : std::string_view();
}

// Names in a directory; one that is not there has none.
Result<std::vector<std::string>> names_in(const std::string& dir) {
  auto names = list_directory(dir);
  if (!names && names.error().kind == ErrorKind::kAbsent) return std::vector<std::string>();
  return names;
}

std::string namespace_of(const NvmeDiskName& disk) {
  std::string name = "nvme";
  name += disk.first;
  name += 'n';
  name += disk.instance;
  return name;
}

class Lister {
 public:
  explicit Lister(const Host& host) : host_(host) {}

  Result<NvmeTree> list() {
    ROCE_TRY_VOID(list_subsystems());
    ROCE_TRY_VOID(list_controllers(host_.sysfs + "/class/nvme"));
    ROCE_TRY_VOID(list_controllers(host_.sysfs + "/class/nvme-fabrics/ctl"));
    for (auto& [name, controller] : controllers_) list_paths(name, controller);
    ROCE_TRY_VOID(list_block());
    NvmeTree tree;
    for (auto& [name, controller] : controllers_) tree.controllers.push_back(std::move(controller));
    for (auto& [name, subsystem] : subsystems_) tree.subsystems.push_back(std::move(subsystem));
    const auto by_name = [](const auto& a, const auto& b) { return natural_less(a.name, b.name); };
    std::sort(tree.controllers.begin(), tree.controllers.end(), by_name);
    std::sort(tree.subsystems.begin(), tree.subsystems.end(), by_name);
    for (NvmeController& controller : tree.controllers)
      std::sort(controller.paths.begin(), controller.paths.end(),
                [](const NvmePath& a, const NvmePath& b) { return natural_less(a.disk, b.disk); });
    return tree;
  }

 private:
  Result<void> list_subsystems() {
    const std::string top = host_.sysfs + "/class/nvme-subsystem";
    ROCE_TRY(const auto names, names_in(top));
    for (const std::string& name : names) {
      NvmeSubsystem subsystem{name, top + "/" + name, {}};
      const auto entries = list_directory(subsystem.dir);
      if (!entries) {
        if (entries.error().kind == ErrorKind::kAbsent) continue;  // went away in between
        return tl::unexpected(entries.error());
      }
      for (const std::string& entry : *entries) {
        const std::string dir = subsystem.dir + "/" + entry;
        if (is_nvme_controller_name(entry)) {
          NvmeController& controller = controllers_[entry];
          controller.name = entry;
          controller.dir = dir;
          controller.subsystem = name;
        } else if (const auto disk = parse_nvme_disk_name(entry)) {
          if (disk->controller.empty())
            subsystem.namespaces.push_back({entry, dir});
          else
            found_.emplace(entry, dir);
        }
      }
      subsystems_.emplace(name, std::move(subsystem));
    }
    return {};
  }

  Result<void> list_controllers(const std::string& top) {
    ROCE_TRY(const auto names, names_in(top));
    for (const std::string& name : names) {
      if (!is_nvme_controller_name(name)) continue;
      NvmeController& controller = controllers_[name];
      if (!controller.dir.empty()) continue;
      controller.name = name;
      controller.dir = top + "/" + name;
    }
    return {};
  }

  // Disks below the controller are its paths.
  void list_paths(const std::string& name, NvmeController& controller) {
    const auto entries = list_directory(controller.dir);
    if (!entries) {
      if (entries.error().kind != ErrorKind::kAbsent) controller.unlisted = entries.error();
      return;
    }
    for (const std::string& entry : *entries) {
      const auto disk = parse_nvme_disk_name(entry);
      if (!disk) continue;
      if (!disk->controller.empty() && name.substr(4) != disk->controller) continue;
      add_path(controller, entry, controller.dir + "/" + entry, *disk);
    }
  }

  // Disks that stand nowhere else belong to the controller that their name tells.
  Result<void> list_block() {
    if (controllers_.empty()) return {};
    ROCE_TRY(const auto names, names_in(host_.sysfs + "/block"));
    for (const std::string& name : names) found_.emplace(name, host_.sysfs + "/block/" + name);
    for (const auto& [name, dir] : found_) {
      const auto disk = parse_nvme_disk_name(name);
      if (!disk || disk->controller.empty()) continue;
      std::string owner = "nvme";
      owner += disk->controller;
      const auto at = controllers_.find(owner);
      if (at != controllers_.end()) add_path(at->second, name, dir, *disk);
    }
    return {};
  }

  static void add_path(NvmeController& controller, const std::string& name, const std::string& dir,
                       const NvmeDiskName& disk) {
    for (const NvmePath& known : controller.paths)
      if (known.disk == name) return;
    controller.paths.push_back({name, dir, namespace_of(disk)});
  }

  const Host& host_;
  std::map<std::string, NvmeController> controllers_;
  std::map<std::string, NvmeSubsystem> subsystems_;
  std::map<std::string, std::string> found_;  // path disks outside of controllers: name -> directory
};

}  // namespace

NvmeAddress parse_nvme_address(std::string_view text) {
  NvmeAddress address;
  const std::array<std::pair<std::string_view, std::string*>, 5> fields{{{"traddr", &address.traddr},
                                                                         {"trsvcid", &address.trsvcid},
                                                                         {"host_traddr", &address.host_traddr},
                                                                         {"host_iface", &address.host_iface},
                                                                         {"src_addr", &address.src_addr}}};
  while (!text.empty()) {
    std::size_t n = 0;
    while (n < text.size() && text[n] != ',' && !blank(text[n])) ++n;
    const std::string_view part = text.substr(0, n);
    text.remove_prefix(n < text.size() ? n + 1 : n);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (address.pci_address.empty() && pci_address_in(part) == part) address.pci_address = part;
      continue;
    }
    for (const auto& [key, value] : fields)
      if (part.substr(0, equals) == key && value->empty()) *value = part.substr(equals + 1);
  }
  return address;
}

std::string_view to_string(NvmeState state) { return kStateNames.at(static_cast<std::size_t>(state)); }

NvmeState parse_nvme_state(std::string_view text) {
  text = trim(text);
  std::size_t n = 0;
  while (n < text.size() && !blank(text[n]) && text[n] != '(') ++n;
  const std::string_view word = text.substr(0, n);
  for (NvmeState state : kNvmeStates)
    if (to_string(state) == word) return state;
  return NvmeState::kUnknown;
}

std::string_view parse_ana_state(std::string_view text) {
  text = trim(text);
  for (std::string_view state : kAnaStates)
    if (state == text) return state;
  return "unknown";
}

std::optional<NvmeDiskName> parse_nvme_disk_name(std::string_view name) {
  if (!name.starts_with("nvme")) return std::nullopt;
  name.remove_prefix(4);
  NvmeDiskName disk;
  disk.first = take_digits(name);
  if (disk.first.empty()) return std::nullopt;
  if (name.starts_with('c')) {
    name.remove_prefix(1);
    disk.controller = take_digits(name);
    if (disk.controller.empty()) return std::nullopt;
  }
  if (!name.starts_with('n')) return std::nullopt;
  name.remove_prefix(1);
  disk.instance = take_digits(name);
  if (disk.instance.empty() || !name.empty()) return std::nullopt;
  return disk;
}

bool is_nvme_controller_name(std::string_view name) {
  if (!name.starts_with("nvme")) return false;
  name.remove_prefix(4);
  return !take_digits(name).empty() && name.empty();
}

std::optional<BlockStatistics> parse_block_statistics(std::string_view text) {
  constexpr std::size_t kFields = 11;
  std::array<std::uint64_t, kFields> fields{};
  for (std::uint64_t& field : fields) {
    const auto number = parse_u64(take_word(text));
    if (!number) return std::nullopt;
    field = *number;
  }
  // Order: operations, merges, sectors, milliseconds of reads; the same of writes; in flight, two times of the disk.
  BlockStatistics statistics;
  statistics.read = {fields[0], saturating_multiply(fields[2], kSectorSize), fields[3]};
  statistics.write = {fields[4], saturating_multiply(fields[6], kSectorSize), fields[7]};
  statistics.in_flight = fields[8];
  return statistics;
}

std::optional<NvmeTime> parse_nvme_time(std::string_view text) {
  text = trim(text);
  if (text == "off" || text == "-1") return NvmeTime{true, 0};
  const auto seconds = parse_u64(text);
  if (!seconds) return std::nullopt;
  return NvmeTime{false, *seconds};
}

Result<NvmeTree> list_nvme(const Host& host) { return Lister(host).list(); }

}  // namespace roce

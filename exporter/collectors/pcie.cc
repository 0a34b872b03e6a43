// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/pcie.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/absent.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/pci.h"

namespace roce {
namespace {

constexpr std::uint64_t kMostLanes = 32;
// The width field with all its bits set, and what the kernel says where it could not read the field.
constexpr std::uint64_t kAllOnes = 63;
constexpr std::uint64_t kUnknown = 255;

struct End {
  std::optional<std::uint64_t> lanes, max_lanes, transfers, max_transfers;
  bool all_ones = false;
};

template <class T>
std::optional<T> smaller(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

class PcieCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_pci", device().name);
    const auto path = find_pci_path(host(), device().path + "/device", device().pci_address);
    if (!path) {
      if (path.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(path.error());
    }
    auto part = std::make_shared<Part>();
    read_iommu(path->hops.front().path, *part);
    const bool lost = read_function(*path, *part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (lost) return fail(ErrorKind::kLost, device().name + ": reads all ones, the device is off its bus");
    return failures_.conclude();
  }

 private:
  std::optional<std::uint64_t> lanes(const Result<std::uint64_t>& value) {
    if (!value) {
      failures_.note(value.error());
      return std::nullopt;
    }
    if (*value == 0 || *value > kMostLanes) return std::nullopt;
    return *value;
  }

  std::optional<std::uint64_t> transfers(const std::string& path) {
    const auto text = read_attribute(path);
    if (!text) {
      failures_.note(text.error());
      return std::nullopt;
    }
    return parse_link_speed(*text);
  }

  End read_end(const std::string& dir) {
    End end;
    const auto width = read_u64(dir + "/current_link_width");
    const auto max_width = read_u64(dir + "/max_link_width");
    end.lanes = lanes(width);
    end.max_lanes = lanes(max_width);
    end.transfers = transfers(dir + "/current_link_speed");
    end.max_transfers = transfers(dir + "/max_link_speed");
    // A function without a link of its own has no maximum either, but its current width can be read: 0.
    const bool refused = !width && width.error().kind != ErrorKind::kAbsent;
    end.all_ones =
        (width && *width == kAllOnes) || (refused && max_width && (*max_width == kAllOnes || *max_width == kUnknown));
    return end;
  }

  // True when the device is lost: then nothing of it is published but that.
  bool read_function(const PciPath& path, Part& part) {
    const std::string& name = device().name;
    const PciFunction& own = path.hops.front();
    const End first = path.shares_function ? End{} : read_end(own.path);
    const auto config = read_pci_config(own.path, host().pci_config.get());
    const bool lost = first.all_ones || (config && config->lost);
    if (config || first.lanes || first.max_lanes || lost) part.samples.add(metric::pcie_device_lost, {name}, lost);
    if (lost || path.shares_function) return lost;
    read_settings(own, config, part);
    add_links(path, first, part);
    for (const PciFunction& hop : path.hops) {
      read_errors(hop, part);
      if (&hop == &own) continue;
      if (const auto port = read_pci_config(hop.path, host().pci_config.get());
          port && port->settings && port->settings->max_payload)
        part.samples.add(metric::pcie_max_payload, {name, hop.address}, std::uint64_t{*port->settings->max_payload});
    }
    return false;
  }

  void read_settings(const PciFunction& own, const Result<PciConfig>& config, Part& part) {
    const std::string& name = device().name;
    const Result<PciSettings> settings = config ? config->settings : tl::unexpected(config.error());
    if (!settings) {
      const ErrorKind kind = settings.error().kind;
      if (kind == ErrorKind::kDenied)
        add_absent(part, name, "pci_config", kind);
      else
        failures_.note(settings.error());
      return;
    }
    if (settings->max_read_request)
      part.samples.add(metric::pcie_max_read_request, {name}, std::uint64_t{*settings->max_read_request});
    if (settings->max_payload)
      part.samples.add(metric::pcie_max_payload, {name, own.address}, std::uint64_t{*settings->max_payload});
    part.samples.add(metric::pcie_relaxed_ordering, {name}, settings->relaxed_ordering);
  }

  // From the device upwards every second step is a link; the others are inside a switch.
  void add_links(const PciPath& path, const End& first, Part& part) {
    const std::string& name = device().name;
    std::optional<double> narrowest, expected_narrowest;
    std::pair<std::string_view, std::string_view> limiting;
    for (std::size_t i = 0; i < path.hops.size(); i += 2) {
      const PciFunction& low = path.hops[i];
      const PciFunction* high = i + 1 < path.hops.size() ? &path.hops[i + 1] : nullptr;
      const End below = i == 0 ? first : read_end(low.path);
      const End above = high != nullptr ? read_end(high->path) : End{};
      add_maximum(low, below, part);
      if (high != nullptr) add_maximum(*high, above, part);
      const std::string_view upstream = high != nullptr ? std::string_view(high->address) : std::string_view();
      const auto lanes = below.lanes ? below.lanes : above.lanes;
      const auto transfers = below.transfers ? below.transfers : above.transfers;
      const auto most_lanes = smaller(below.max_lanes, above.max_lanes);
      const auto most_transfers = smaller(below.max_transfers, above.max_transfers);
      const auto add = [&](const MetricDesc& metric, const std::optional<std::uint64_t>& value) {
        if (value) part.samples.add(metric, {name, low.address, upstream}, *value);
      };
      add(metric::pcie_link_lanes, lanes);
      add(metric::pcie_link_expected_lanes, most_lanes);
      add(metric::pcie_link_transfers, transfers);
      add(metric::pcie_link_expected_transfers, most_transfers);
      const auto bandwidth = [](const auto& count, const auto& rate) -> std::optional<double> {
        if (!count || !rate) return std::nullopt;
        return static_cast<double>(*count) * lane_bytes_per_second(*rate);
      };
      const auto found = bandwidth(lanes, transfers);
      if (found && (!narrowest || *found < *narrowest)) limiting = {low.address, upstream};
      narrowest = smaller(narrowest, found);
      expected_narrowest = smaller(expected_narrowest, bandwidth(most_lanes, most_transfers));
    }
    if (narrowest) {
      part.samples.add(metric::pcie_path_bandwidth, {name}, *narrowest);
      part.samples.add(metric::pcie_limiting_link_info, {name, limiting.first, limiting.second}, 1);
    }
    if (expected_narrowest) part.samples.add(metric::pcie_path_expected_bandwidth, {name}, *expected_narrowest);
  }

  void add_maximum(const PciFunction& hop, const End& end, Part& part) const {
    if (end.max_lanes) part.samples.add(metric::pcie_max_lanes, {device().name, hop.address}, *end.max_lanes);
    if (end.max_transfers)
      part.samples.add(metric::pcie_max_transfers, {device().name, hop.address}, *end.max_transfers);
  }

  void read_errors(const PciFunction& hop, Part& part) {
    for (const std::string_view severity : {"correctable", "nonfatal", "fatal"}) {
      const auto text = read_attribute(hop.path + "/aer_dev_" + std::string(severity));
      if (!text) {
        failures_.note(text.error());
        continue;
      }
      if (const auto total = parse_aer_total(*text))
        part.samples.add(metric::pcie_aer_errors, {device().name, hop.address, severity}, *total);
    }
  }

  // Lines "NAME count"; the last is TOTAL_ERR_... A text without it is added up.
  static std::optional<std::uint64_t> parse_aer_total(std::string_view text) {
    std::optional<std::uint64_t> sum;
    while (!text.empty()) {
      const auto end = text.find('\n');
      const std::string_view line = trim(text.substr(0, end));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      const auto blank = line.rfind(' ');
      if (blank == std::string_view::npos) continue;
      const auto count = parse_u64(line.substr(blank + 1));
      if (line.starts_with("TOTAL_ERR_")) return count;
      if (count) sum = sum.value_or(0) + *count;
    }
    return sum;
  }

  void read_iommu(const std::string& dir, Part& part) {
    const std::string& name = device().name;
    std::optional<std::string> type;
    if (auto text = read_attribute(dir + "/iommu_group/type")) {
      type = std::move(*text);
    } else if (const auto group = link_basename(dir + "/iommu_group")) {
      if (auto of_group = read_attribute(host().sysfs + "/kernel/iommu_groups/" + *group + "/type"))
        type = std::move(*of_group);
    } else if (const auto units = list_directory(host().sysfs + "/class/iommu"); units && units->empty()) {
      type = "none";
    }
    if (type) part.samples.add(metric::pcie_iommu_info, {name, *type}, 1);
  }

  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_pcie_collector(const CollectorContext& context) {
  return std::make_unique<PcieCollector>(context);
}

}  // namespace roce

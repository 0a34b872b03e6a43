// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/devlink.h"

#include <map>
#include <string>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/absent.h"
#include "exporter/kernel/devlink.h"
#include "exporter/kernel/devlink_handle.h"
#include "exporter/kernel/inventory.h"

namespace roce {
namespace {

constexpr std::size_t kMostReporters = 16;

class DevlinkCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    if (!host().devlink || device().pci_address.empty()) return {};
    auto part = std::make_shared<Part>();
    const auto reporters = host().devlink->health_reporters(devlink_handle(device().parent, device().pci_address));
    part->read_at = Part::Clock::now();
    if (!reporters) {
      const ErrorKind kind = reporters.error().kind;
      if (kind == ErrorKind::kAbsent || kind == ErrorKind::kUnsupported) return {};
      if (kind != ErrorKind::kNotRecorded) return tl::unexpected(reporters.error());
      add_absent(*part, device().name, "devlink_health", kind);
      out.parts.push_back(std::move(part));
      return {};
    }
    struct Sum {
      bool in_error = false;
      std::uint64_t errors = 0;
      std::uint64_t recoveries = 0;
    };
    std::map<std::string, Sum, std::less<>> sums;
    for (const HealthReporter& reporter : *reporters) {
      if (sums.size() >= kMostReporters && !sums.contains(reporter.name)) continue;
      Sum& sum = sums[reporter.name];
      sum.in_error = sum.in_error || reporter.in_error;
      sum.errors += reporter.errors;
      sum.recoveries += reporter.recoveries;
    }
    for (const auto& [name, sum] : sums) {
      part->samples.add(metric::devlink_health_state, {device().name, name}, sum.in_error);
      part->samples.add(metric::devlink_health_errors, {device().name, name}, sum.errors);
      part->samples.add(metric::devlink_health_recoveries, {device().name, name}, sum.recoveries);
    }
    out.parts.push_back(std::move(part));
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_devlink_collector(const CollectorContext& context) {
  return std::make_unique<DevlinkCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/cpu_power.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/cpu_tables.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Kinds of governors and preferences that are told apart; the kernel knows fewer.
constexpr std::size_t kMostKinds = 8;

class CpuPowerCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "sysfs_cpu", "");
    const std::string root = host().sysfs + "/devices/system/cpu";
    const auto entries = list_directory(root);
    if (!entries) {
      if (entries.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(entries.error());
    }
    auto part = std::make_shared<Part>();
    error_.reset();
    std::optional<std::uint64_t> deepest;
    std::map<std::pair<std::string, std::string>, std::uint64_t> governors;
    std::map<std::string, std::uint64_t> preferences;
    std::vector<std::uint32_t> online;
    if (const auto list = read_attribute(root + "/online")) online = parse_cpu_list(*list);
    for (const std::string& entry : *entries) {
      if (!entry.starts_with("cpu")) continue;
      const auto number = parse_u64(std::string_view(entry).substr(3));
      if (!number || (!online.empty() && !std::binary_search(online.begin(), online.end(), *number))) continue;
      const std::string dir = root + "/" + entry;
      if (const auto latency = deepest_enabled(dir + "/cpuidle")) deepest = std::max(deepest.value_or(0), *latency);
      if (auto governor = text_of(dir + "/cpufreq/scaling_governor"))
        if (auto driver = text_of(dir + "/cpufreq/scaling_driver").value_or("");
            governors.size() < kMostKinds || governors.contains({driver, *governor}))
          ++governors[{std::move(driver), std::move(*governor)}];
      if (auto preference = text_of(dir + "/cpufreq/energy_performance_preference");
          preference && (preferences.size() < kMostKinds || preferences.contains(*preference)))
        ++preferences[std::move(*preference)];
    }
    if (deepest) part->samples.add(metric::cpu_idle_latency, {}, static_cast<double>(*deepest) / 1e6);
    for (const auto& [kind, count] : governors)
      part->samples.add(metric::cpu_governor_cpus, {kind.first, kind.second}, count);
    for (const auto& [preference, count] : preferences)
      part->samples.add(metric::cpu_preference_cpus, {preference}, count);
    if (const auto driver = text_of(root + "/cpuidle/current_driver"))
      part->samples.add(metric::cpu_idle_info,
                        {*driver, text_of(root + "/cpuidle/current_governor")
                                      .value_or(text_of(root + "/cpuidle/current_governor_ro").value_or(""))},
                        1);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (error_) return tl::unexpected(*error_);
    return {};
  }

 private:
  void note(const Error& error) {
    // A CPU that is being unplugged has no files or answers busy; the next run tells.
    if (error.kind != ErrorKind::kAbsent && error.kind != ErrorKind::kUnsupported && error.kind != ErrorKind::kBusy &&
        !error_)
      error_ = error;
  }

  std::optional<std::string> text_of(const std::string& path) {
    auto text = read_attribute(path);
    if (text) return std::move(*text);
    note(text.error());
    return std::nullopt;
  }

  // Microseconds to leave the deepest state that is not disabled.
  std::optional<std::uint64_t> deepest_enabled(const std::string& dir) {
    const auto states = list_directory(dir);
    if (!states) {
      note(states.error());
      return std::nullopt;
    }
    std::optional<std::uint64_t> deepest;
    for (const std::string& state : *states) {
      if (!state.starts_with("state")) continue;
      const auto latency = read_u64(dir + "/" + state + "/latency");
      const auto disabled = read_u64(dir + "/" + state + "/disable");
      if (!latency) note(latency.error());
      if (!disabled) note(disabled.error());
      if (!latency || (disabled && *disabled != 0)) continue;
      deepest = std::max(deepest.value_or(0), *latency);
    }
    return deepest;
  }

  std::optional<Error> error_;
};

}  // namespace

std::unique_ptr<Collector> make_cpu_power_collector(const CollectorContext& context) {
  return std::make_unique<CpuPowerCollector>(context);
}

}  // namespace roce

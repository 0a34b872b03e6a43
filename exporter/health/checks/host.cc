// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

constexpr double kPinnedShare = 0.8;
constexpr double kSmallDefault = 64.0 * 1024 * 1024;
constexpr double kSegmentsShare = 0.95;
constexpr double kDeepIdle = 50e-6;

std::string process_text(const Series& s) {
  return s.label("comm").empty() ? fmt::format("pid {}", s.label("pid"))
                                 : fmt::format("pid {} {}", s.label("pid"), s.label("comm"));
}

const Series* of_process(CheckContext& context, const MetricDesc& metric, const Series& s) {
  return context.page().find(metric, {{"pid", s.label("pid")}});
}

}  // namespace

void memlock_headroom(CheckContext& context) {
  for (const Series& limited : context.of(metric::process_memlock_limited)) {
    if (limited.value() != 1) continue;
    const Series* limit =
        context.page().find(metric::process_memlock_limit, {{"pid", limited.label("pid")}, {"limit", "soft"}});
    const Series* pinned = of_process(context, metric::process_pinned, limited);
    if (limit == nullptr || pinned == nullptr || std::isinf(limit->value())) continue;
    if (pinned->value() <= kPinnedShare * limit->value() || pinned->value() == 0) continue;
    std::string found = fmt::format("{} of {} pinned", bytes_text(pinned->value()), bytes_text(limit->value()));
    if (const Series* info = of_process(context, metric::process_info, limited);
        info != nullptr && !info->label("unit").empty())
      found += fmt::format(", unit {}", info->label("unit"));
    context.report(process_text(limited), found);
  }
}

void memlock_default_low(CheckContext& context) {
  for (const Series& limit : context.of(metric::service_memlock_default))
    if (limit.label("limit") == "soft" && limit.value() < kSmallDefault)
      context.report("host", fmt::format("{} for a service that asks for none", bytes_text(limit.value())));
}

void hugepages_exhausted(CheckContext& context) {
  for (const Series& pool : context.of(metric::hugepages_allocated)) {
    if (pool.value() == 0) continue;
    const std::string_view size = pool.label("size");
    const Series* free = context.page().find(metric::hugepages_free, {{"size", size}});
    const Series* reserved = context.page().find(metric::hugepages_reserved, {{"size", size}});
    if (free == nullptr || free->value() - (reserved == nullptr ? 0 : reserved->value()) > 0) continue;
    // Beyond the pool the kernel makes surplus pages, up to a limit.
    const Series* surplus = context.page().find(metric::hugepages_surplus, {{"size", size}});
    const Series* overcommit = context.page().find(metric::hugepages_overcommit_limit, {{"size", size}});
    if (overcommit != nullptr && overcommit->value() > (surplus == nullptr ? 0 : surplus->value())) continue;
    context.report(std::string(size), fmt::format("0 of {} pages can still be had", short_number(pool.value())));
  }
}

// The pages are there, but beside another NUMA node than the devices.
void hugepages_remote(CheckContext& context) {
  std::set<std::string_view> device_nodes;
  for (const Series& info : context.of(metric::numa_device_info)) device_nodes.insert(info.label("node"));
  std::map<std::string_view, double> most;  // size: most pages of a node
  for (const Series& pages : context.of(metric::numa_hugepages_allocated))
    most[pages.label("size")] = std::max(most[pages.label("size")], pages.value());
  for (const Series& pages : context.of(metric::numa_hugepages_allocated)) {
    if (pages.value() != 0 || most[pages.label("size")] == 0 || !device_nodes.contains(pages.label("node"))) continue;
    context.report(fmt::format("{} node {}", pages.label("size"), pages.label("node")),
                   fmt::format("0 pages, another node has {}", short_number(most[pages.label("size")])));
  }
}

void hugepages_cgroup(CheckContext& context) {
  report_moving(context, metric::cgroup_hugetlb_failures, {1, 0, seconds(180)}, "allocations failed at the limit");
}

void shm_segments(CheckContext& context) {
  const auto used = context.of(metric::sysv_shm_segments);
  const auto limit = context.of(metric::sysv_shm_segments_limit);
  if (used.empty() || limit.empty() || limit[0].value() <= 0) return;
  if (used[0].value() <= kSegmentsShare * limit[0].value()) return;
  std::string found = fmt::format("{} of {} segments", short_number(used[0].value()), short_number(limit[0].value()));
  if (const auto orphaned = context.of(metric::sysv_shm_orphaned); !orphaned.empty() && orphaned[0].value() > 0)
    found += fmt::format(", {} of them attached by nobody", short_number(orphaned[0].value()));
  context.report("host", found);
}

void cpu_interrupts(CheckContext& context) {
  for (const Series& busiest : context.of(metric::cpu_busiest_interrupt)) {
    if (busiest.value() < 0.9) continue;
    const auto least = context.least(busiest, seconds(30));
    if (least && *least >= 0.9)
      context.report("host", fmt::format("a CPU spends {} of its time on interrupts", percent(*least)));
  }
}

void interrupts_remote(CheckContext& context) {
  struct Share {
    double remote = 0;
    double all = 0;
    double seconds = 0;
  };
  std::map<std::string_view, Share> devices;
  for (const Series& s : context.of(metric::completion_interrupts)) {
    const auto growth = context.growth(s, seconds(60));
    if (!growth) continue;
    Share& share = devices[s.label("device")];
    share.all += growth->increase;
    share.seconds = growth->seconds;
    if (s.label("locality") == "remote") share.remote += growth->increase;
  }
  for (const auto& [device, share] : devices)
    if (share.all >= 1000 && share.remote > 0.5 * share.all)
      context.report(std::string(device),
                     fmt::format("{} of {} completion interrupts ran on another NUMA node {}",
                                 percent(share.remote / share.all), short_number(share.all), in_last(share.seconds)));
}

void idle_states(CheckContext& context) {
  for (const Series& latency : context.of(metric::cpu_idle_latency))
    if (latency.value() > kDeepIdle)
      context.report("host", fmt::format("deepest idle state takes {:.0f} us to leave", latency.value() * 1e6));
}

void governor(CheckContext& context) {
  for (const Series& cpus : context.of(metric::cpu_governor_cpus)) {
    const std::string_view driver = cpus.label("driver");
    // With these two drivers the name powersave stands for the normal, dynamic choice.
    if (cpus.label("governor") != "powersave" || driver.starts_with("intel_pstate") ||
        driver.starts_with("amd-pstate-epp"))
      continue;
    context.report("host", fmt::format("governor powersave with {} on {} CPUs", driver, short_number(cpus.value())));
  }
}

void numa_balancing(CheckContext& context) {
  for (const Series& setting : context.of(metric::kernel_setting))
    if (setting.label("setting").find("numa_balancing") != std::string_view::npos && setting.value() != 0)
      context.report("host", fmt::format("{} = {}", setting.label("setting"), short_number(setting.value())));
}

}  // namespace roce::checks

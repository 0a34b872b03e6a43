// SPDX-License-Identifier: Apache-2.0
#include "exporter/capture_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "exporter/daemon.h"
#include "exporter/kernel/capture.h"
#include "exporter/kernel/inventory.h"

namespace roce {
namespace {

Result<CaptureReport> record(const Options& options) {
  ROCE_TRY(auto host, open_host(options));
  // Opened first: what cannot be written is no reason to read a host.
  ROCE_TRY(const auto sink, CaptureSink::open(options.capture_target));
  const EngineConfig config = engine_config(options);
  Inventory inventory(host, config.device_wanted, config.netdev_wanted);
  ROCE_TRY(DeviceList objects, inventory.refresh());
  for (const auto& other : inventory.others()) objects.push_back(other);
  CaptureOptions wanted{{}, options.qp_max, config.device_wanted, config.netdev_wanted};
  char name[256] = "";
  if (host->live && ::gethostname(name, sizeof name - 1) == 0) wanted.host_names.emplace_back(name);
  return capture(*host, objects, wanted, *sink);
}

}  // namespace

void capture_once(const Options& options) {
  const auto report = record(options);
  if (!report) {
    fmt::print(stderr, "roce_exporter: capture: {}\n", report.error().message());
    leave(2);
  }
  if (report->files == 0) {
    fmt::print(stderr, "roce_exporter: capture: nothing was found that could be recorded\n");
    leave(2);
  }
  fmt::print("{}: {} files", options.capture_target, report->files);
  if (report->unreadable != 0) {
    fmt::print("; {} more are there but the kernel gave no text for them ({})", report->unreadable,
               ::geteuid() == 0 ? "their drivers tell nothing now" : "root can read more of them");
  }
  fmt::print(
      "\nAddresses, GUIDs, serial numbers, NQNs, names of hosts, processes and cgroups are replaced, also in names of "
      "devices (enx..., "
      "rocex...). Of IP addresses it stays which of them share a network and which are private, link-local or "
      "multicast; all others become 240/4 and 3fff::/20. Other names of devices, drivers and modules, versions and "
      "counters are as they are: look through the recording before it leaves your hands.\n");
  leave(0);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

constexpr double kGuidesLeast = 512;  // bytes of a read request below which every guide calls the link slow

std::string link_text(const Series& link) {
  const std::string_view upstream = link.label("upstream_address");
  return upstream.empty() ? std::string(link.label("pci_address"))
                          : fmt::format("{} below {}", link.label("pci_address"), upstream);
}

const Series* same_link(CheckContext& context, const MetricDesc& metric, const Series& link) {
  return context.page().find(metric, {{"device", link.label("device")},
                                      {"pci_address", link.label("pci_address")},
                                      {"upstream_address", link.label("upstream_address")}});
}

}  // namespace

void device_lost(CheckContext& context) {
  for (const Series& lost : context.of(metric::pcie_device_lost))
    if (lost.value() == 1) context.report(std::string(lost.label("device")), "its PCI registers read as all ones");
}

void pcie_degraded(CheckContext& context) {
  std::map<std::string, std::pair<std::string, std::string>> links;  // device: found, expected
  const auto note = [&](const Series& link, const std::string& found, const std::string& expected) {
    auto& [f, e] = links[std::string(link.label("device"))];
    f += fmt::format("{}{} at {}", f.empty() ? "" : "; ", found, link_text(link));
    e += fmt::format("{}{}", e.empty() ? "" : "; ", expected);
  };
  for (const Series& lanes : context.of(metric::pcie_link_lanes)) {
    const Series* could = same_link(context, metric::pcie_link_expected_lanes, lanes);
    if (could != nullptr && lanes.value() < could->value())
      note(lanes, fmt::format("x{}", short_number(lanes.value())), fmt::format("x{}", short_number(could->value())));
  }
  for (const Series& speed : context.of(metric::pcie_link_transfers)) {
    const Series* could = same_link(context, metric::pcie_link_expected_transfers, speed);
    if (could != nullptr && speed.value() < could->value() * 0.999)
      note(speed, fmt::format("{:g} GT/s", speed.value() / 1e9), fmt::format("{:g} GT/s", could->value() / 1e9));
  }
  for (const auto& [device, text] : links)
    context.report(device, text.first).expected = fmt::format("{}, which both ends of the link can do", text.second);
}

// The card may well have more line rate than its slot carries; then the slot is the limit, and pause frames follow.
void pcie_bottleneck(CheckContext& context) {
  std::map<std::string_view, double> line;  // device: active ports together
  for (const Series& rate : context.of(metric::port_rate)) {
    const Series* state =
        context.page().find(metric::port_state, {{"device", rate.label("device")}, {"port", rate.label("port")}});
    if (state != nullptr && state->value() >= kActive && !context.is_representor(*state))
      line[rate.label("device")] = std::max(line[rate.label("device")], rate.value());
  }
  for (const Series& path : context.of(metric::pcie_path_bandwidth)) {
    const auto at = line.find(path.label("device"));
    if (at == line.end() || path.value() >= 0.9 * at->second) continue;
    // A link that trained low is another finding.
    const Series* could = context.page().find(metric::pcie_path_expected_bandwidth, {{"device", path.label("device")}});
    if (could != nullptr && could->value() > path.value() * 1.001) continue;
    context.report(std::string(path.label("device")), fmt::format("PCIe path {:.0f} Gb/s, port {:.0f} Gb/s",
                                                                  path.value() * 8 / 1e9, at->second * 8 / 1e9));
  }
}

void pcie_stalled(CheckContext& context) {
  for (const Series& stalled : context.of(metric::pcie_stalled)) {
    if (stalled.value() < 0.3) continue;
    const auto least = context.least(stalled, seconds(15));
    if (!least || *least < 0.3) continue;
    context.report(fmt::format("{} {}", port_of(stalled), stalled.label("direction")),
                   fmt::format("the NIC waits for PCIe {} of the time", percent(*least)));
  }
}

void pcie_errors(CheckContext& context) {
  for (const std::string_view severity : {"fatal", "nonfatal"}) {
    for (const Series& errors : context.of(metric::pcie_aer_errors)) {
      if (errors.label("severity") != severity) continue;
      const auto growth = context.growth(errors, seconds(180));
      if (!growth || growth->increase < 1) continue;
      Finding& finding = context.report(
          object_of(errors),
          fmt::format("{} {} errors {}", short_number(growth->increase), severity, in_last(growth->seconds)));
      if (severity == "fatal") finding.severity = Status::kCritical;
    }
  }
  report_moving(context, metric::pcie_aer_errors, {20, 0.1, seconds(180)}, "corrected errors",
                [](const Series& s) { return s.label("severity") == "correctable"; });
  report_moving(context, metric::pcie_overflows, {1, 0, seconds(60)}, "packets dropped since PCIe was too slow");
}

void max_read_request(CheckContext& context) {
  for (const Series& size : context.of(metric::pcie_max_read_request)) {
    const DeviceExpectation* declared = context.expected(size.label("device"));
    if (declared != nullptr && declared->max_read_request) continue;
    if (size.value() < kGuidesLeast)
      context.report(std::string(size.label("device")), fmt::format("MaxReadReq {}", short_number(size.value())));
  }
}

void max_payload(CheckContext& context) {
  for (const Series& link : context.of(metric::pcie_link_lanes)) {
    const auto payload = [&](std::string_view address) {
      return context.page().find(metric::pcie_max_payload,
                                 {{"device", link.label("device")}, {"pci_address", address}});
    };
    const Series* low = payload(link.label("pci_address"));
    const Series* high = payload(link.label("upstream_address"));
    // A device may send less than the port takes; more is what breaks.
    if (low == nullptr || high == nullptr || low->value() <= high->value()) continue;
    context.report(std::string(link.label("device")),
                   fmt::format("MaxPayload {} at {}, {} at {}", short_number(low->value()), link.label("pci_address"),
                               short_number(high->value()), link.label("upstream_address")));
  }
}

void device_health(CheckContext& context) {
  for (const Series& state : context.of(metric::devlink_health_state))
    if (state.value() == 1)
      context.report(object_of(state), fmt::format("health reporter {} is in error", state.label("reporter")));
}

void temperature(CheckContext& context) {
  for (const Series& now : context.of(metric::temperature)) {
    const auto limit = [&](std::string_view name) {
      return context.page().find(metric::temperature_limit, {{"device", now.label("device")},
                                                             {"sensor", now.label("sensor")},
                                                             {"label", now.label("label")},
                                                             {"limit", name}});
    };
    const Series* crit = limit("crit");
    const Series* max = limit("max");
    // A limit of 0 is none: the module or the firmware does not tell one.
    const auto reached = [&](const Series* of) {
      return of != nullptr && of->value() > 0 && now.value() >= of->value();
    };
    const Series* over = reached(crit) ? crit : reached(max) ? max : nullptr;
    if (over == nullptr) continue;
    Finding& finding =
        context.report(object_of(now), fmt::format("{} degrees Celsius, limit {} ({})", short_number(now.value()),
                                                   short_number(over->value()), over->label("limit")));
    if (over == crit) finding.severity = Status::kCritical;
  }
  report_moving(context, metric::module_events, {1, 0, seconds(600)}, "events of the transceiver",
                [](const Series& s) { return s.label("reason") != "unplugged"; });
}

void firmware_spread(CheckContext& context) {
  std::map<std::string, std::map<std::string_view, std::string>> by_board;  // board: firmware: devices
  for (const Series& info : context.of(metric::device_info)) {
    if (info.label("firmware").empty() || info.label("hca_type").empty()) continue;
    const std::string board =
        fmt::format("{} {} {}", info.label("driver"), info.label("hca_type"), info.label("board_id"));
    std::string& devices = by_board[board][info.label("firmware")];
    devices += fmt::format("{}{}", devices.empty() ? "" : ", ", info.label("device"));
  }
  for (const auto& [board, versions] : by_board) {
    if (versions.size() < 2) continue;
    std::string found;
    for (const auto& [version, devices] : versions)
      found += fmt::format("{}{} on {}", found.empty() ? "" : "; ", version, devices);
    context.report("host", found);
  }
}

// Names the device whose firmware holds: the longest call of each device.
void kernel_call_stuck(CheckContext& context) {
  std::map<std::string, const Series*> longest;
  for (const Series& call : context.of(metric::kernel_call_in_flight)) {
    const Series*& is = longest[std::string(call.label("device"))];
    if (is == nullptr || is->value() < call.value()) is = &call;
  }
  for (const auto& [device, call] : longest) {
    if (call->value() < 2) continue;
    Finding& finding = context.report(device.empty() ? "host" : device,
                                      fmt::format("{} has waited for {:.0f} s", call->label("call"), call->value()));
    if (call->value() >= 60) finding.severity = Status::kCritical;
  }
}

}  // namespace roce::checks

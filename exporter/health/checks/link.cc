// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

constexpr double kBytesPerGigabit = 1e9 / 8;

std::string_view state_text(double state) {
  if (state == 1) return "down";
  if (state == 2) return "initialising";
  if (state == 3) return "armed";
  return "not active";
}

// Ports that are of one kind: same hardware, so that their links should be alike.
std::string kind_of(CheckContext& context, std::string_view device) {
  const Series* info = context.page().find(metric::device_info, {{"device", device}});
  if (info == nullptr || info->label("hca_type").empty()) return {};
  return fmt::format("{} {} {}", info->label("driver"), info->label("hca_type"), info->label("board_id"));
}

}  // namespace

// A port that nobody ever cabled says nothing: only one that had a link, or that somebody needs, is a finding.
void port_down(CheckContext& context) {
  for (const Series& state : context.of(metric::port_state)) {
    if (state.value() >= kActive || context.is_representor(state)) continue;
    const std::string_view device = state.label("device");
    const bool sessions = context.carries_sessions(state);
    if (!sessions && !context.expects_port(state)) continue;
    const std::string_view netdev = context.netdev_of(state);
    std::string found = fmt::format("state {}", state_text(state.value()));
    if (const Series* reason =
            context.page().find(metric::netdev_link_reason, {{"device", device}, {"port", state.label("port")}}))
      found += fmt::format(": {} {}", reason->label("reason"), reason->label("detail"));
    if (!netdev.empty()) found += fmt::format(", netdev {}", netdev);
    Finding& finding = context.report(object_of(state), found);
    if (sessions || context.role_of(device) == "storage") finding.severity = Status::kCritical;
  }
}

// One loss of the link shows in up to three counts, by driver and kernel: the greatest of them tells.
void link_flapping(CheckContext& context) {
  struct Losses {
    std::array<double, 3> by_count{};
    double seconds = 0;
  };
  std::map<std::string, Losses> ports;
  const auto add = [&](std::size_t count, const MetricDesc& metric, double steps) {
    for (const Series& s : context.of(metric)) {
      const auto growth = context.growth(s, seconds(600));
      if (!growth || growth->increase < steps) continue;
      Losses& losses = ports[port_of(s)];
      losses.by_count[count] += std::floor(growth->increase / steps);
      losses.seconds = std::max(losses.seconds, growth->seconds);
    }
  };
  add(0, metric::netdev_carrier_down, 1);
  add(1, metric::netdev_carrier_changes, 2);  // down and up
  add(2, metric::port_link_downed, 1);
  for (const auto& [port, losses] : ports)
    if (const double most = *std::max_element(losses.by_count.begin(), losses.by_count.end()); most >= 2)
      context.report(port, fmt::format("{} times down {}", short_number(most), in_last(losses.seconds)));
}

void link_errors(CheckContext& context) {
  report_moving(context, metric::fec_blocks, {1, 0, seconds(60)}, "FEC blocks lost",
                [](const Series& s) { return s.label("result") == "uncorrectable"; });
  // Each other spelling of the same trouble only where the first does not tell it already.
  const auto told = [&](const Series& s) { return context.reported(object_of(s)); };
  const auto untold = [&](const Series& s) { return !told(s); };
  report_moving(context, metric::physical_port_errors, {1, 0, seconds(60)}, "bad packets", [&](const Series& s) {
    const std::string_view reason = s.label("reason");
    return (reason == "crc" || reason == "symbol") && !told(s);
  });
  report_moving(context, metric::physical_port_symbol_errors, {1, 0, seconds(60)}, "symbol errors", untold);
  report_moving(context, metric::port_symbol_errors, {1, 0, seconds(60)}, "symbol errors", untold);
  report_moving(context, metric::port_link_error_recoveries, {1, 0, seconds(60)}, "link recoveries", untold);
  report_moving(context, metric::port_receive_errors, {1, 0, seconds(60)}, "packets received with an error", untold);
}

void gid_missing(CheckContext& context) {
  std::map<std::pair<std::string_view, std::string_view>, double> routable;
  for (const Series& s : context.of(metric::port_gid_routable_entries))
    routable[{s.label("device"), s.label("port")}] += s.value();
  for (const auto& [port, count] : routable) {
    if (count != 0) continue;
    const Series* state = context.page().find(metric::port_state, {{"device", port.first}, {"port", port.second}});
    if (state == nullptr || state->value() < kActive || context.is_representor(*state)) continue;
    Finding& finding = context.report(object_of(*state), "0 routable RoCE v2 entries in the GID table");
    if (context.role_of(port.first) == "storage") finding.severity = Status::kCritical;
  }
}

void rate_uneven(CheckContext& context) {
  struct Port {
    const Series* rate;
    double value;
  };
  std::map<std::string, std::vector<Port>> by_kind;
  for (const Series& rate : context.of(metric::port_rate)) {
    const std::string_view device = rate.label("device");
    const DeviceExpectation* declared = context.expected(device);
    if (declared != nullptr && declared->rate_gbps) continue;  // then the profile judges
    const Series* state = context.page().find(metric::port_state, {{"device", device}, {"port", rate.label("port")}});
    if (state == nullptr || state->value() < kActive || context.is_representor(*state)) continue;
    std::string kind = kind_of(context, device);
    if (kind.empty()) continue;
    // One card may have ports of two kinds of network.
    if (const Series* info = context.page().find(metric::port_info, {{"device", device}, {"port", rate.label("port")}}))
      kind += fmt::format(" {}", info->label("link_layer"));
    by_kind[kind].push_back({&rate, rate.value()});
  }
  for (const auto& [kind, ports] : by_kind) {
    double best = 0;
    for (const Port& port : ports) best = std::max(best, port.value);
    for (const Port& port : ports) {
      if (port.value >= best * 0.999) continue;
      Finding& finding = context.report(object_of(*port.rate), fmt::format("{:g} Gb/s", port.value / kBytesPerGigabit));
      finding.expected = fmt::format("{:g} Gb/s, as its siblings of the same card type", best / kBytesPerGigabit);
    }
  }
}

void mtu_mismatch(CheckContext& context) {
  struct Port {
    const Series* mtu;
    double value;
  };
  std::map<std::string, std::vector<Port>> groups;  // of one kind and rate: most likely one network
  for (const Series& mtu : context.of(metric::path_mtu)) {
    const std::string_view device = mtu.label("device");
    const DeviceExpectation* declared = context.expected(device);
    if (device.empty() || (declared != nullptr && (declared->mtu || declared->path_mtu))) continue;
    const Series* state = context.page().find(metric::port_state, {{"device", device}, {"port", mtu.label("port")}});
    const Series* rate = context.page().find(metric::port_rate, {{"device", device}, {"port", mtu.label("port")}});
    if (state == nullptr || rate == nullptr || state->value() < kActive || context.is_representor(*state)) continue;
    const std::string kind = kind_of(context, device);
    if (!kind.empty()) groups[fmt::format("{} {}", kind, rate->value())].push_back({&mtu, mtu.value()});
  }
  for (const auto& [kind, ports] : groups) {
    double best = 0;
    for (const Port& port : ports) best = std::max(best, port.value);
    for (const Port& port : ports) {
      if (port.value >= best) continue;
      Finding& finding = context.report(
          object_of(*port.mtu),
          fmt::format("RoCE path MTU {} (netdev {})", short_number(port.value), port.mtu->label("netdev")));
      finding.expected = fmt::format("{}, as its siblings of the same card type", short_number(best));
    }
  }
}

void path_mtu_small(CheckContext& context) {
  for (const Series& mtu : context.of(metric::path_mtu)) {
    const std::string_view device = mtu.label("device");
    if (device.empty() || mtu.value() >= 4096) continue;
    const DeviceExpectation* declared = context.expected(device);
    if (declared != nullptr && (declared->mtu || declared->path_mtu)) continue;
    const Series* state = context.page().find(metric::port_state, {{"device", device}, {"port", mtu.label("port")}});
    if (state == nullptr || state->value() < kActive || context.is_representor(*state)) continue;
    context.report(object_of(mtu),
                   fmt::format("RoCE path MTU {} on netdev {}", short_number(mtu.value()), mtu.label("netdev")));
  }
}

void bond_degraded(CheckContext& context) {
  for (const Series& members : context.of(metric::bond_members)) {
    const Series* active = context.page().find(metric::bond_active_members, {{"netdev", members.label("netdev")}});
    if (active == nullptr || active->value() >= members.value()) continue;
    std::string object = object_of(members);
    if (object != members.label("netdev")) object += fmt::format(" {}", members.label("netdev"));
    Finding& finding =
        context.report(std::move(object), fmt::format("{} of {} members can carry traffic",
                                                      short_number(active->value()), short_number(members.value())));
    if (active->value() == 0) finding.severity = Status::kCritical;
  }
}

void counter_saturated(CheckContext& context) {
  std::map<std::string, std::string> counters;  // by port
  for (const MetricDesc* support : {&metric::counter_support, &metric::netdev_statistic_support})
    for (const Series& s : context.of(*support)) {
      // Ticks of waiting reach their top on every link that was ever busy, and tell of no fault.
      if (s.label("state") != "saturated" || s.label("counter") == "port_xmit_wait") continue;
      std::string& text = counters[object_of(s)];
      text += fmt::format("{}{}", text.empty() ? "" : ", ", s.label("counter"));
    }
  for (const auto& [object, text] : counters) context.report(object, fmt::format("at their top: {}", text));
}

}  // namespace roce::checks

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

constexpr seconds kShort{15};
constexpr double kStorm = 0.5;  // share of the time that a priority stands still
constexpr double kNoticed = 0.05;
constexpr double kManyFrames = 1000;  // a second; the alerts say why

// What a pause stops: a priority, or with 802.3x the whole port.
std::string paused_object(const Series& s) {
  const std::string_view priority = s.label("priority");
  return priority.empty() ? port_of(s) : fmt::format("{} priority {}", port_of(s), priority);
}

std::string_view kind(const Series& s) { return s.label("priority").empty() ? " (802.3x)" : ""; }

// Priorities and ports that were paused for a share of the time between the two bounds.
void report_paused(CheckContext& context, std::string_view direction, double from, double below) {
  for (const MetricDesc* paused : {&metric::pfc_pause_seconds, &metric::pause_seconds})
    for (const Series& s : context.of(*paused)) {
      if (s.label("direction") != direction) continue;
      const auto growth = context.growth(s, kShort);
      if (!growth || growth->per_second() < from || growth->per_second() >= below) continue;
      context.report(paused_object(s),
                     fmt::format("paused {} of the time {}{}", percent(std::min(growth->per_second(), 1.0)),
                                 in_last(growth->seconds), kind(s)));
    }
}

// Whether the device also counts the time of what the frames stop.
bool counts_time(CheckContext& context, const Series& frames) {
  const std::string_view netdev = frames.label("netdev");
  const std::string_view priority = frames.label("priority");
  if (priority.empty())
    return context.page().find(metric::pause_seconds, {{"netdev", netdev}, {"direction", frames.label("direction")}}) !=
           nullptr;
  return context.page().find(metric::pfc_pause_seconds, {{"netdev", netdev}, {"priority", priority}}) != nullptr;
}

// Devices that count frames and no time.
void report_frames(CheckContext& context, std::string_view direction) {
  for (const MetricDesc* frames : {&metric::pfc_frames, &metric::dcb_pfc_frames, &metric::pause_frames})
    for (const Series& s : context.of(*frames)) {
      if (s.label("direction") != direction || s.label("frame") == "xon" || counts_time(context, s)) continue;
      const auto growth = context.growth(s, seconds(60));
      if (!growth || growth->per_second() <= kManyFrames) continue;
      std::string object = paused_object(s);
      if (context.reported(object)) continue;
      context.report(std::move(object), fmt::format("{:.0f} pause frames a second {}{}", growth->per_second(),
                                                    in_last(growth->seconds), kind(s)));
    }
}

bool pfc_on(CheckContext& context, std::string_view netdev, std::string_view priority) {
  const Series* pfc = context.page().find(metric::pfc_enabled, {{"netdev", netdev}, {"priority", priority}});
  return pfc != nullptr && pfc->value() == 1;
}

bool any_pfc(CheckContext& context, std::string_view netdev) {
  const auto all = context.page().with(metric::pfc_enabled, "netdev", netdev);
  return std::any_of(all.begin(), all.end(), [](const Series* pfc) { return pfc->value() == 1; });
}

}  // namespace

// Either half of the time or more, or the NIC's own watchdog: it kept sending pause for too long.
void pause_storm(CheckContext& context) {
  report_paused(context, "receive", kStorm, 1e9);
  report_moving(context, metric::pause_storms, {1, 0, seconds(60)}, "storms by the NIC's watchdog",
                [&](const Series& s) { return s.label("level") != "warning" && s.label("level") != "continuous"; });
}

void pause_received(CheckContext& context) {
  report_paused(context, "receive", kNoticed, kStorm);
  report_frames(context, "receive");
}

void pause_sent(CheckContext& context) {
  report_paused(context, "transmit", kNoticed, 1e9);
  report_frames(context, "transmit");
}

void lossless_drops(CheckContext& context) {
  report_moving(context, metric::priority_discards, {1, 0, seconds(60)}, "packets dropped",
                [&](const Series& s) { return pfc_on(context, s.label("netdev"), s.label("priority")); });
}

void port_discards(CheckContext& context) {
  report_moving(context, metric::physical_port_discards, {1, 0.1, seconds(60)}, "packets dropped");
  // What the physical port tells of the same direction counts for both.
  for (const auto& [metric, direction] : {std::pair(&metric::port_receive_discards, std::string_view("receive")),
                                          std::pair(&metric::port_transmit_discards, std::string_view("transmit"))})
    report_moving(context, *metric, {1, 0.1, seconds(60), direction}, "RDMA packets dropped",
                  [&](const Series& s) { return !context.reported(part_of(s, direction)); });
}

void pfc_mismatch(CheckContext& context) {
  std::map<std::string, std::string> differences;  // by port
  for (const Series& peer : context.of(metric::pfc_peer_enabled)) {
    const std::string_view netdev = peer.label("netdev");
    const std::string_view priority = peer.label("priority");
    if (context.page().find(metric::pfc_enabled, {{"netdev", netdev}, {"priority", priority}}) == nullptr) continue;
    const bool here = pfc_on(context, netdev, priority);
    if (here == (peer.value() == 1)) continue;
    std::string& text = differences[port_of(peer)];
    text += fmt::format("{}priority {} {} here, {} at the switch", text.empty() ? "" : "; ", priority,
                        here ? "on" : "off", here ? "off" : "on");
  }
  for (const auto& [port, text] : differences) context.report(port, text);
}

void pfc_with_global_pause(CheckContext& context) {
  for (const Series& pause : context.of(metric::netdev_pause_enabled))
    if (pause.value() == 1 && any_pfc(context, pause.label("netdev")) && !context.reported(port_of(pause)))
      context.report(port_of(pause), fmt::format("802.3x pause ({}) and PFC are both on, netdev {}",
                                                 pause.label("direction"), pause.label("netdev")));
}

void pfc_without_buffer(CheckContext& context) {
  for (const Series& buffer : context.of(metric::pfc_buffer))
    if (buffer.value() == 0 && pfc_on(context, buffer.label("netdev"), buffer.label("priority")))
      context.report(fmt::format("{} priority {}", port_of(buffer), buffer.label("priority")),
                     "PFC is on, the receive buffer of the priority has 0 bytes");
}

// Where connections get a type of service, that must end in a priority with flow control, if the port has any such.
void dscp_not_lossless(CheckContext& context) {
  for (const Series& tos : context.of(metric::default_tos)) {
    const auto dscp = static_cast<unsigned>(tos.value()) / 4;
    for (const Series& entries : context.of(metric::dscp_entries)) {
      if (entries.label("device") != tos.label("device") || entries.label("port") != tos.label("port")) continue;
      const std::string_view netdev = entries.label("netdev");
      if (entries.value() == 0 || !any_pfc(context, netdev)) continue;
      const std::string priority = short_number(priority_of_dscp(context, entries, dscp));
      if (!pfc_on(context, netdev, priority))
        context.report(port_of(tos),
                       fmt::format("default DSCP {} maps to priority {}, which has no PFC", dscp, priority));
    }
  }
}

void ecn_off(CheckContext& context) {
  for (const Series& ecn : context.of(metric::ecn_enabled)) {
    const std::string_view priority = ecn.label("priority");  // none: one switch for the port
    const std::string_view netdev = ecn.label("netdev");
    if (ecn.value() != 0 || !(priority.empty() ? any_pfc(context, netdev) : pfc_on(context, netdev, priority)))
      continue;
    context.report(priority.empty() ? port_of(ecn) : fmt::format("{} priority {}", port_of(ecn), priority),
                   fmt::format("congestion control is off at the {} point", ecn.label("point")));
  }
}

void cnp_ignored(CheckContext& context) {
  report_moving(context, metric::cnp_ignored, {1, 0.1, seconds(60)}, "congestion notifications ignored");
}

void ecn_without_cnp(CheckContext& context) {
  for (const Series& marked : context.of(metric::receive_ecn_marked)) {
    const Series* sent =
        context.page().find(metric::cnp_sent, {{"device", marked.label("device")}, {"port", marked.label("port")}});
    if (sent == nullptr) continue;
    const auto marks = context.growth(marked, seconds(60));
    const auto answers = context.growth(*sent, seconds(60));
    if (!marks || !answers || marks->increase < 100 || answers->increase > 0) continue;
    context.report(object_of(marked),
                   fmt::format("{} packets came with the congestion mark {}, 0 notifications went out",
                               short_number(marks->increase), in_last(marks->seconds)));
  }
}

void congestion(CheckContext& context) {
  for (const Series& marked : context.of(metric::receive_ecn_marked)) {
    const Series* packets = context.page().find(metric::port_receive_packets,
                                                {{"device", marked.label("device")}, {"port", marked.label("port")}});
    if (packets == nullptr) continue;
    const auto marks = context.growth(marked, seconds(60));
    const auto all = context.growth(*packets, seconds(60));
    if (!marks || !all || marks->increase < 1000 || all->increase <= 0) continue;
    const double share = std::min(1.0, marks->increase / all->increase);
    if (share < 0.1) continue;
    context.report(object_of(marked), fmt::format("{} of the received RDMA packets carry the congestion mark {}",
                                                  percent(share), in_last(marks->seconds)));
  }
}

}  // namespace roce::checks

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"
#include "exporter/health/checks/checks.h"

namespace roce::checks {
namespace {

using std::chrono::seconds;

// "nvme1 (mlx5_0/1)": the controller with the port that carries it, where that is known.
std::string controller_text(CheckContext& context, std::string_view controller) {
  const Series* link = context.page().find(metric::nvme_controller_link_info, {{"controller", controller}});
  if (link == nullptr) return std::string(controller);
  const std::string port = port_of(*link);
  return port.empty() ? std::string(controller) : fmt::format("{} ({})", controller, port);
}

// ", 3 of 4 paths to pool-b live": whether I/O goes on. Empty where the page does not tell.
std::string other_paths(CheckContext& context, std::string_view subsystem) {
  const Series* paths = context.page().find(metric::nvme_subsystem_paths, {{"subsystem", subsystem}});
  const Series* live = context.page().find(metric::nvme_subsystem_paths_live, {{"subsystem", subsystem}});
  if (subsystem.empty() || paths == nullptr || live == nullptr) return {};
  const Series* info = context.page().find(metric::nvme_subsystem_info, {{"subsystem", subsystem}});
  const std::string_view nqn = info == nullptr ? std::string_view() : info->label("nqn");
  // Of an NQN the part after the last colon tells one pool from another.
  const std::string_view name = nqn.empty() ? subsystem : nqn.substr(nqn.rfind(':') + 1);
  return fmt::format(", {} of {} paths to {} live", short_number(live->value()), short_number(paths->value()),
                     name.empty() ? subsystem : name);
}

std::string_view or_unknown(std::string_view subsystem) {
  return subsystem.empty() ? std::string_view("unknown subsystem") : subsystem;
}

// An operator disconnects it: all its controllers are on their way out.
bool being_disconnected(CheckContext& context, std::string_view subsystem) {
  bool any = false;
  for (const Series& state : context.of(metric::nvme_controller_state)) {
    if (state.value() != 1 || state.label("subsystem") != subsystem) continue;
    if (!state.label("state").starts_with("deleting")) return false;
    any = true;
  }
  return any;
}

bool over_fabrics(CheckContext& context, std::string_view controller) {
  return context.page().find(metric::nvme_controller_io_queues, {{"controller", controller}}) != nullptr;
}

}  // namespace

void nvme_no_path(CheckContext& context) {
  for (const Series& paths : context.of(metric::nvme_namespace_paths)) {
    const Series* usable =
        context.page().find(metric::nvme_namespace_paths_usable,
                            {{"subsystem", paths.label("subsystem")}, {"namespace", paths.label("namespace")}});
    if (usable == nullptr || usable->value() != 0 || being_disconnected(context, paths.label("subsystem"))) continue;
    // Without any path too: the namespace stays when the kernel has given its last controller up.
    context.report(
        fmt::format("{} namespace {}", or_unknown(paths.label("subsystem")), paths.label("namespace")),
        paths.value() == 0 ? std::string("no path") : fmt::format("0 of {} paths usable", short_number(paths.value())));
  }
  for (const Series& paths : context.of(metric::nvme_subsystem_paths)) {
    const std::string_view subsystem = paths.label("subsystem");
    const Series* live = context.page().find(metric::nvme_subsystem_paths_live, {{"subsystem", subsystem}});
    if (live == nullptr || live->value() != 0 || paths.value() == 0 || being_disconnected(context, subsystem)) continue;
    if (context.page().find(metric::nvme_namespace_paths, {{"subsystem", subsystem}}) != nullptr) continue;
    context.report(std::string(or_unknown(subsystem)),
                   fmt::format("0 of {} controllers live", short_number(paths.value())));
  }
}

// A controller that an operator disconnects is deleting, not connecting.
void nvme_path_lost(CheckContext& context) {
  for (const Series& state : context.of(metric::nvme_controller_state)) {
    const std::string_view name = state.label("state");
    if (state.value() != 1 || (name != "connecting" && name != "resetting" && name != "dead")) continue;
    const std::string_view controller = state.label("controller");
    if (!over_fabrics(context, controller) && state.label("transport") == "pcie") continue;
    std::string found = fmt::format("state {}", name);
    if (const Series* left =
            context.page().find(metric::nvme_controller_loss_timeout_remaining, {{"controller", controller}}))
      found += std::isinf(left->value()) ? ", the kernel never gives it up"
                                         : fmt::format(", the kernel gives it up in {}", seconds_text(left->value()));
    found += other_paths(context, state.label("subsystem"));
    context.report(controller_text(context, controller), found);
  }
  for (const Series& ana : context.of(metric::nvme_path_ana_state)) {
    const std::string_view state = ana.label("state");
    if (ana.value() != 1 || (state != "inaccessible" && state != "persistent-loss")) continue;
    // Of an array that serves a namespace by one side the other may be inaccessible for good.
    const Series* optimized =
        context.page().find(metric::nvme_namespace_paths_optimized, {{"namespace", ana.label("namespace")}});
    if (state == "inaccessible" && optimized != nullptr && optimized->value() > 0) continue;
    context.report(
        fmt::format("{} namespace {}", controller_text(context, ana.label("controller")), ana.label("namespace")),
        fmt::format("ANA state {}", state));
  }
}

void nvme_queues_uneven(CheckContext& context) {
  for (const auto& [metric, what] : {std::pair(&metric::nvme_controller_io_queues, "I/O queues"),
                                     std::pair(&metric::nvme_controller_queue_depth, "commands a queue")}) {
    std::map<std::string_view, double> most;
    for (const Series& s : context.of(*metric))
      most[s.label("subsystem")] = std::max(most[s.label("subsystem")], s.value());
    for (const Series& s : context.of(*metric)) {
      const double best = most[s.label("subsystem")];
      if (s.label("subsystem").empty() || s.value() >= best) continue;
      const std::string object = controller_text(context, s.label("controller"));
      if (context.reported(object)) continue;
      context.report(object, fmt::format("{} {}", short_number(s.value()), what)).expected =
          fmt::format("{}, as the other controllers of the subsystem", short_number(best));
    }
  }
}

void nvme_keep_alive_off(CheckContext& context) {
  for (const Series& s : context.of(metric::nvme_controller_keep_alive)) {
    if (s.value() == 0) context.report(controller_text(context, s.label("controller")), "keep-alive 0: off");
  }
}

void nvme_reconnect_slow(CheckContext& context) {
  for (const Series& s : context.of(metric::nvme_controller_reconnect_delay)) {
    if (context.profile() != nullptr && context.profile()->nvme.reconnect_delay) return;
    if (s.value() > 30)
      context.report(controller_text(context, s.label("controller")),
                     std::isinf(s.value()) ? "it does not reconnect"
                                           : fmt::format("{} between attempts", seconds_text(s.value())));
  }
}

void nfs_errors(CheckContext& context) {
  report_moving(context, metric::nfs_transport_errors, {1, 0, seconds(60)}, "errors of the transport");
  // What was sent more often than asked for was sent again.
  std::map<std::string_view, std::pair<double, double>> again;  // mount: count, seconds
  for (const Series& sent : context.of(metric::nfs_operation_transmissions)) {
    const Series* asked = context.page().find(metric::nfs_operations,
                                              {{"mount", sent.label("mount")}, {"operation", sent.label("operation")}});
    if (asked == nullptr) continue;
    const auto a = context.growth(sent, seconds(60));
    const auto b = context.growth(*asked, seconds(60));
    if (!a || !b) continue;
    again[sent.label("mount")].first += std::max(0.0, a->increase - b->increase);
    again[sent.label("mount")].second = a->seconds;
  }
  for (const auto& [mount, count] : again)
    if (count.first >= 3 && !context.reported(mount))
      context.report(std::string(mount),
                     fmt::format("{} operations sent again {}", short_number(count.first), in_last(count.second)));
}

void iser_session_down(CheckContext& context) {
  for (const Series& state : context.of(metric::iser_session_state))
    if (state.value() == 1 && (state.label("state") == "failed" || state.label("state") == "free"))
      context.report(std::string(state.label("session")), fmt::format("state {}", state.label("state")));
}

void gds_fallback(CheckContext& context) {
  report_moving(context, metric::gds_fallbacks, {1, 0, seconds(60)}, "requests left the direct path");
}

}  // namespace roce::checks

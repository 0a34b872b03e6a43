// SPDX-License-Identifier: Apache-2.0
#include "probes/web/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exporter/base/version.h"
#include "exporter/web/html.h"
#include "probes/web/blame.h"

namespace roce::probe {

const std::string_view kStyle = R"(
:root{color-scheme:light dark;--line:#8886;--bad:#b3261e;--warn:#8a5a00;--good:#1b6e3a}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--warn:#ffc46b;--good:#7ddc9a}}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:1.4rem 0 .4rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}
.wide{overflow-x:auto}.ok,.none{color:var(--good)}.degraded,.lossy,.host,.peers{color:var(--warn)}.down,.my_side{color:var(--bad)}
nav a{margin-right:1rem}
)";

namespace {

using Json = nlohmann::ordered_json;

std::uint64_t timeouts(const PairStats& pair) { return pair.failures[static_cast<std::size_t>(Failure::kTimeout)]; }

std::string microseconds(std::uint64_t ns) { return fmt::format("{:.1f}", static_cast<double>(ns) / 1000); }

void append_peers(std::string& out, const EngineStats& stats) {
  out +=
      "<h2>Peers</h2>\n<div class=\"wide\"><table><thead><tr><th scope=\"col\">Peer</th><th scope=\"col\">From</th>"
      "<th scope=\"col\">State</th><th scope=\"col\">Class</th><th scope=\"col\">Sent</th><th scope=\"col\">Lost</th>"
      "<th scope=\"col\">Median, µs</th><th scope=\"col\">p99, µs</th><th "
      "scope=\"col\">Hops</th></tr></thead><tbody>\n";
  for (const PeerStats& peer : stats.peers) {
    bool first = true;
    for (const PairStats& pair : peer.classes) {
      const std::string state(to_string(peer.state));
      out += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
          "<td>{}</td><td>{}</td></tr>\n",
          first ? html_escape(peer.peer.name) : "", first ? html_escape(peer.peer.device) : "", state,
          first ? state : "", html_escape(pair.qos), pair.sent, timeouts(pair), microseconds(pair.rtt.quantile_ns(0.5)),
          microseconds(pair.rtt.quantile_ns(0.99)), first && peer.hops > 0 ? fmt::to_string(peer.hops) : "");
      first = false;
    }
  }
  out += "</tbody></table></div>\n";
}

Json quantiles(const HistogramSnapshot& h) {
  if (h.count == 0) return nullptr;
  const auto seconds = [&](double q) { return static_cast<double>(h.quantile_ns(q)) / 1e9; };
  return {{"count", h.count}, {"p50", seconds(0.5)}, {"p99", seconds(0.99)}, {"p999", seconds(0.999)}};
}

Json failures_json(const std::array<std::uint64_t, static_cast<std::size_t>(Failure::kCount_)>& failures) {
  Json out = Json::object();
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (failures[i] != 0) out[std::string(to_string(static_cast<Failure>(i)))] = failures[i];
  return out;
}

}  // namespace

std::string render_status(const EngineStats& stats, std::string_view telemetry_path, bool details) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>roce_prober</title><style>";
  out += kStyle;
  out += fmt::format(
      "</style></head><body>\n<header><h1>roce_prober</h1>\n<p>Probes of the RDMA fabric, version {}.</p>\n"
      "<nav><a href=\"{}\">Metrics</a><a href=\"/peers.json\">Peers</a><a href=\"/-/ready\">Ready</a></nav></header>\n"
      "<main>\n<h2>Devices</h2>\n",
      kVersion, html_escape(telemetry_path));
  if (stats.devices.empty()) out += "<p>No RDMA device.</p>\n";
  const auto blames = judge(stats);
  for (std::size_t i = 0; i < stats.devices.size(); ++i) {
    const DeviceStats& device = stats.devices[i];
    const DeviceBlame& blame = blames[i];
    out +=
        fmt::format("<p>{}: {}{}. <strong class=\"{}\">{}</strong> {} of {} peers bad.</p>\n",
                    details ? html_escape(device.device) : fmt::format("Device {}", i + 1), html_escape(device.state),
                    details && !device.error.empty() ? fmt::format(" ({})", html_escape(device.error)) : "",
                    to_string(blame.blame), advice(blame.blame), blame.bad, blame.judged);
  }
  if (details)
    append_peers(out, stats);
  else
    out +=
        "<p>Names are shown to this host itself, or to who logs in once a web configuration file guards the server."
        "</p>\n";
  out += "</main></body></html>\n";
  return out;
}

std::string peers_json(const EngineStats& stats) {
  Json devices = Json::array();
  const auto blames = judge(stats);
  for (std::size_t i = 0; i < stats.devices.size(); ++i) {
    const DeviceStats& d = stats.devices[i];
    devices.push_back({{"device", d.device},
                       {"port", d.port},
                       {"state", d.state},
                       {"error", d.error},
                       {"blame", to_string(blames[i].blame)},
                       {"bad_peers", blames[i].names},
                       {"timestamps", d.hardware_timestamps ? "hardware" : "software"},
                       {"throttle", d.throttle},
                       {"interval_seconds", d.interval_seconds},
                       {"loopback_rtt_seconds", quantiles(d.loopback_rtt)},
                       {"scheduler_lag_seconds", quantiles(d.scheduler_lag)}});
  }
  Json peers = Json::array();
  for (const PeerStats& p : stats.peers) {
    Json classes = Json::array();
    for (const PairStats& pair : p.classes)
      classes.push_back({{"qos", pair.qos},
                         {"sent", pair.sent},
                         {"received", pair.received},
                         {"failures", failures_json(pair.failures)},
                         {"late", pair.late},
                         {"duplicates", pair.duplicates},
                         {"corrupt", pair.corrupt},
                         {"rtt_seconds", quantiles(pair.rtt)},
                         {"service_seconds", quantiles(pair.service)},
                         {"baseline_seconds", pair.baseline_seconds}});
    peers.push_back({{"device", p.peer.device},
                     {"port", p.peer.port},
                     {"peer", p.peer.name},
                     {"state", to_string(p.state)},
                     {"rotating", p.peer.rotating},
                     {"storage", p.peer.storage},
                     {"remote_node", p.remote_node},
                     {"remote_device", p.remote_device},
                     {"hops", p.hops},
                     {"last_success", p.last_success},
                     {"classes", std::move(classes)},
                     {"read_rtt_seconds", quantiles(p.read_rtt)},
                     {"read_failures", failures_json(p.read_failures)},
                     {"connect_seconds", quantiles(p.connect)}});
  }
  return Json{{"devices", std::move(devices)}, {"peers", std::move(peers)}}.dump(1, ' ', false,
                                                                                 Json::error_handler_t::replace) +
         "\n";
}

}  // namespace roce::probe

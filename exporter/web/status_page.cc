// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "exporter/base/version.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--line:#8886;--bad:#b3261e;--warn:#8a5a00;--good:#1b6e3a}
@media(prefers-color-scheme:dark){:root{--bad:#ff8a80;--warn:#ffc46b;--good:#7ddc9a}}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:1.4rem 0 .4rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line)}
.wide{overflow-x:auto}.ok{color:var(--good)}.warning{color:var(--warn)}.critical,.unknown{color:var(--bad)}
nav a{margin-right:1rem}
)";

struct Port {
  std::string state = "unknown";
  std::string netdev;
  double rate = 0;
};

std::string_view state_name(double state) {
  if (!(state >= 0 && state <= 5)) return "unknown";
  switch (static_cast<int>(state)) {
    case 0:
      return "none";
    case 1:
      return "down";
    case 2:
      return "initialising";
    case 3:
      return "armed";
    case 4:
      return "active";
    case 5:
      return "active, deferred";
    default:
      return "unknown";
  }
}

struct NaturalOrder {
  bool operator()(const std::string& a, const std::string& b) const { return natural_less(a, b); }
};

std::map<std::string, Port, NaturalOrder> ports_of(const Page& page) {
  std::map<std::string, Port, NaturalOrder> ports;
  for (const SampleBatch* batch : page.batches()) {
    for (const SampleBatch::Sample& s : batch->samples()) {
      const bool state = s.metric == &metric::port_state;
      const bool rate = s.metric == &metric::port_rate;
      const bool info = s.metric == &metric::port_info;
      if (!state && !rate && !info) continue;
      Port& port = ports[fmt::format("{}/{}", batch->label(s, 0), batch->label(s, 1))];
      if (state) port.state = state_name(s.value.as_double());
      if (rate) port.rate = s.value.as_double();
      if (info) port.netdev = batch->label(s, 2);
    }
  }
  return ports;
}

void append_findings(std::string& out, const Verdict& verdict, bool details) {
  out += "<h2>Findings</h2>\n";
  if (verdict.findings.empty()) {
    out += "<p>None.</p>\n";
    return;
  }
  out +=
      "<div class=\"wide\"><table><thead><tr><th scope=\"col\">Severity</th><th scope=\"col\">Finding</th>"
      "<th scope=\"col\">Where</th><th scope=\"col\">Found</th></tr></thead><tbody>\n";
  for (const Finding& f : verdict.findings)
    out += fmt::format("<tr><td class=\"{0}\">{0}</td><td>{1}</td><td>{2}</td><td>{3}</td></tr>\n",
                       to_string(f.severity), html_escape(details ? f.id + ": " + f.summary : f.id),
                       details ? html_escape(f.object) : "", details ? html_escape(f.found) : "");
  out += "</tbody></table></div>\n";
}

void append_ports(std::string& out, const Page& page) {
  const auto ports = ports_of(page);
  out += "<h2>Ports</h2>\n";
  if (ports.empty()) {
    out += "<p>This host shows no RDMA device.</p>\n";
    return;
  }
  out +=
      "<div class=\"wide\"><table><thead><tr><th scope=\"col\">Port</th><th scope=\"col\">State</th>"
      "<th scope=\"col\">Rate</th><th scope=\"col\">Netdev</th></tr></thead><tbody>\n";
  for (const auto& [name, port] : ports)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", html_escape(name),
                       html_escape(port.state), port.rate > 0 ? fmt::format("{:g} Gb/s", port.rate * 8 / 1e9) : "",
                       html_escape(port.netdev));
  out += "</tbody></table></div>\n";
}

void append_sources(std::string& out, const Page& page) {
  const auto failing =
      std::count_if(page.sources.begin(), page.sources.end(), [](const SourceState& s) { return !s.ok; });
  out += fmt::format("<h2>Sources</h2>\n<p>{} read, {} failing, on {} devices.</p>\n", page.sources.size(), failing,
                     page.devices);
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string render_status_page(const Page& page, const Verdict& verdict, std::string_view telemetry_path,
                               bool details) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>roce_exporter</title><style>";
  out += kStyle;
  out += "</style></head><body>\n<header><h1>roce_exporter</h1>\n";
  out += fmt::format("<p>RDMA links of this host, version {}. Verdict: <strong class=\"{}\">{}</strong></p>\n",
                     kVersion, to_string(verdict.status), to_string(verdict.status));
  out += fmt::format(
      "<nav><a href=\"{}\">Metrics</a><a href=\"/health\">Health</a><a "
      "href=\"/-/ready\">Ready</a></nav></header>\n<main>\n",
      html_escape(telemetry_path));
  append_findings(out, verdict, details);
  if (details) append_ports(out, page);
  append_sources(out, page);
  if (!details)
    out +=
        "<p>Names of devices and findings are shown to this host itself, or to everybody who may log in once a web "
        "configuration file guards the server.</p>\n";
  out += "</main></body></html>\n";
  return out;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

using PortKey = std::pair<std::string, std::string>;  // device, port

constexpr double kActive = 4;

// Active RoCE ports without any routable RoCE v2 GID: connections that leave the subnet cannot be made.
void find_missing_gids(const Page& page, Verdict& verdict) {
  std::set<PortKey> active;
  std::map<PortKey, double> routable;
  for (const SampleBatch* batch : page.batches()) {
    for (const SampleBatch::Sample& sample : batch->samples()) {
      if (sample.metric == &metric::port_state && sample.value.as_double() >= kActive)
        active.emplace(batch->label(sample, 0), batch->label(sample, 1));
      else if (sample.metric == &metric::port_gid_routable_entries)
        routable[{std::string(batch->label(sample, 0)), std::string(batch->label(sample, 1))}] +=
            sample.value.as_double();
    }
  }
  for (const auto& [port, count] : routable) {
    if (count != 0 || !active.contains(port)) continue;
    Finding finding;
    finding.id = "gid-missing";
    finding.finding_class = "fault";
    finding.severity = Status::kWarning;
    finding.object = port.first + "/" + port.second;
    finding.summary = "the active port has no routable RoCE v2 GID";
    finding.found = "0 routable RoCE v2 entries in the GID table";
    finding.expected = "at least one, from an IPv4 or a routable IPv6 address of the port's netdev";
    finding.next_step = "look at the addresses of the netdev: ip addr show";
    verdict.findings.push_back(std::move(finding));
  }
}

void find_failing_sources(const Page& page, Verdict& verdict) {
  for (const SourceState& source : page.sources) {
    if (source.ok) continue;
    Finding finding;
    finding.id = "source-failing";
    finding.finding_class = "unknown";
    finding.severity = Status::kWarning;
    finding.object = source.device.empty() ? source.collector : source.collector + "/" + source.device;
    finding.summary = "this source cannot be judged: it gave no complete answer";
    finding.found = source.reason;
    finding.expected = "an answer within the deadline";
    finding.next_step = source.detail;
    verdict.findings.push_back(std::move(finding));
  }
}

}  // namespace

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kWarning:
      return "warning";
    case Status::kCritical:
      return "critical";
    case Status::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Verdict judge(const Page& page) {
  Verdict verdict;
  verdict.sources = page.sources;
  find_missing_gids(page, verdict);
  find_failing_sources(page, verdict);
  for (const Finding& finding : verdict.findings) verdict.status = std::max(verdict.status, finding.severity);
  // With nothing readable there is no ground for any verdict, least of all a good one.
  const bool blind = !page.sources.empty() && std::none_of(page.sources.begin(), page.sources.end(),
                                                           [](const SourceState& source) { return source.ok; });
  if (blind) verdict.status = Status::kUnknown;
  return verdict;
}

std::string to_json(const Verdict& verdict, bool details) {
  using nlohmann::json;
  json findings = json::array();
  for (const Finding& f : verdict.findings) {
    json entry{{"id", f.id}, {"class", f.finding_class}, {"severity", to_string(f.severity)}};
    for (const auto& [key, value] :
         {std::pair("object", &f.object), std::pair("summary", &f.summary), std::pair("found", &f.found),
          std::pair("expected", &f.expected), std::pair("since", &f.since), std::pair("next_step", &f.next_step),
          std::pair("runbook", &f.runbook)})
      entry[key] = details ? *value : std::string();
    findings.push_back(std::move(entry));
  }
  json sources = json::array();
  for (const SourceState& s : verdict.sources)
    sources.push_back({{"collector", s.collector},
                       {"device", details ? s.device : std::string()},
                       {"state", s.ok ? "ok" : "failing"},
                       {"reason", s.reason}});
  const json result{
      {"status", to_string(verdict.status)}, {"findings", std::move(findings)}, {"sources", std::move(sources)}};
  return result.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace roce

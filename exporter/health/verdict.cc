// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace roce {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Status, std::string_view>, 5> kNames{{{Status::kOk, "ok"},
                                                                     {Status::kWarning, "warning"},
                                                                     {Status::kCritical, "critical"},
                                                                     {Status::kUnknown, "unknown"},
                                                                     {Status::kInfo, "info"}}};

int rank(Status status) {
  switch (status) {
    case Status::kOk:
      return 0;
    case Status::kInfo:
      return 1;
    case Status::kWarning:
      return 2;
    case Status::kUnknown:
      return 3;
    case Status::kCritical:
      return 4;
  }
  return 0;
}

std::string text_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// Calls f for each object of the array under `key`.
template <class F>
void each_object(const json& root, const char* key, F f) {
  const auto at = root.find(key);
  if (at == root.end() || !at->is_array()) return;
  for (const json& entry : *at)
    if (entry.is_object()) f(entry);
}

// Fields that name something of the host, with the member that holds each.
constexpr std::array<std::pair<const char*, std::string Finding::*>, 7> kDetails{{{"object", &Finding::object},
                                                                                  {"summary", &Finding::summary},
                                                                                  {"found", &Finding::found},
                                                                                  {"expected", &Finding::expected},
                                                                                  {"since", &Finding::since},
                                                                                  {"next_step", &Finding::next_step},
                                                                                  {"runbook", &Finding::runbook}}};

}  // namespace

std::string_view to_string(Status status) {
  for (const auto& [value, name] : kNames)
    if (value == status) return name;
  return "unknown";
}

std::optional<Status> parse_status(std::string_view text) {
  for (const auto& [value, name] : kNames)
    if (name == text) return value;
  return std::nullopt;
}

Status worse(Status a, Status b) { return rank(a) < rank(b) ? b : a; }

bool not_recorded(const SourceState& source) {
  return !source.ok && source.reason == to_string(ErrorKind::kNotRecorded);
}

SourceCounts count_sources(const Verdict& verdict) {
  SourceCounts counts;
  for (const SourceState& source : verdict.sources)
    ++(source.ok ? counts.read : not_recorded(source) ? counts.not_recorded : counts.failing);
  return counts;
}

std::string sources_text(const Verdict& verdict) {
  const SourceCounts counts = count_sources(verdict);
  std::string text = fmt::format("{} source{} read", counts.read, counts.read == 1 ? "" : "s");
  if (counts.failing != 0) text += fmt::format(", {} failing", counts.failing);
  if (counts.not_recorded != 0) text += fmt::format(", {} not in the recording", counts.not_recorded);
  return text;
}

std::string why_failing(const SourceState& source) {
  // An error without a number of the kernel ends with its kind.
  std::string_view detail = source.detail;
  if (detail == source.reason) return source.reason;
  if (const std::string end = ": " + source.reason; detail.ends_with(end)) detail.remove_suffix(end.size());
  return detail.empty() ? source.reason : fmt::format("{}: {}", source.reason, detail);
}

bool nothing_here(const Verdict& verdict) {
  return verdict.devices == 0 && verdict.status == Status::kOk && verdict.findings.empty();
}

void conclude(Verdict& verdict) {
  auto& findings = verdict.findings;
  // The position breaks ties, so that the order of the table and of the page stays.
  std::vector<std::size_t> order(findings.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int ra = rank(findings[a].severity);
    const int rb = rank(findings[b].severity);
    return ra != rb ? ra > rb : a < b;
  });
  std::vector<Finding> sorted;
  sorted.reserve(findings.size());
  for (const std::size_t i : order) sorted.push_back(std::move(findings[i]));
  findings = std::move(sorted);

  verdict.status = Status::kOk;
  for (const Finding& finding : findings)
    if (finding.severity != Status::kInfo) verdict.status = worse(verdict.status, finding.severity);
  // With nothing readable there is no ground for any verdict, least of all a good one.
  const bool blind = !verdict.sources.empty() && std::none_of(verdict.sources.begin(), verdict.sources.end(),
                                                              [](const SourceState& source) { return source.ok; });
  if (blind) verdict.status = worse(verdict.status, Status::kUnknown);
}

std::string to_json(const Verdict& verdict, bool details) {
  json findings = json::array();
  for (const Finding& f : verdict.findings) {
    json entry{{"id", f.id}, {"class", f.finding_class}, {"severity", to_string(f.severity)}};
    for (const auto& [key, member] : kDetails) entry[key] = details ? f.*member : std::string();
    findings.push_back(std::move(entry));
  }
  json sources = json::array();
  for (const SourceState& s : verdict.sources)
    sources.push_back({{"collector", s.collector},
                       {"device", details ? s.device : std::string()},
                       {"state", s.ok ? "ok" : "failing"},
                       {"reason", s.reason}});
  json waived = json::array();
  for (const Waived& w : verdict.waived)
    waived.push_back({{"id", w.id},
                      {"object", details ? w.object : std::string()},
                      {"reason", details ? w.reason : std::string()},
                      {"until", w.until}});
  json not_judged = json::array();
  for (const NotJudged& n : verdict.not_judged)
    not_judged.push_back(
        {{"id", n.id}, {"object", details ? n.object : std::string()}, {"reason", details ? n.reason : std::string()}});
  json result{{"status", to_string(verdict.status)},   {"findings", std::move(findings)},
              {"sources", std::move(sources)},         {"waived", std::move(waived)},
              {"not_judged", std::move(not_judged)},   {"devices", verdict.devices},
              {"second_sample", verdict.second_sample}};
  if (details) {
    result["names"] = verdict.names;
    result["declared"] = verdict.declared;
  }
  return result.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<Verdict> verdict_from_json(std::string_view text) {
  const json root = json::parse(text, nullptr, false);
  if (!root.is_object()) return std::nullopt;
  const auto status = parse_status(text_of(root, "status"));
  if (!status || !root.contains("findings") || !root.contains("sources")) return std::nullopt;
  Verdict verdict;
  verdict.status = *status;
  each_object(root, "findings", [&](const json& entry) {
    Finding f;
    f.id = text_of(entry, "id");
    f.finding_class = text_of(entry, "class");
    f.severity = parse_status(text_of(entry, "severity")).value_or(Status::kUnknown);
    for (const auto& [key, member] : kDetails) f.*member = text_of(entry, key);
    verdict.findings.push_back(std::move(f));
  });
  each_object(root, "sources", [&](const json& entry) {
    verdict.sources.push_back({text_of(entry, "collector"), text_of(entry, "device"), text_of(entry, "state") == "ok",
                               text_of(entry, "reason"), ""});
  });
  each_object(root, "waived", [&](const json& entry) {
    verdict.waived.push_back(
        {text_of(entry, "id"), text_of(entry, "object"), text_of(entry, "reason"), text_of(entry, "until")});
  });
  each_object(root, "not_judged", [&](const json& entry) {
    verdict.not_judged.push_back({text_of(entry, "id"), text_of(entry, "object"), text_of(entry, "reason")});
  });
  for (const auto& [key, list] : {std::pair("names", &verdict.names), std::pair("declared", &verdict.declared)})
    if (const auto at = root.find(key); at != root.end() && at->is_array())
      for (const json& name : *at)
        if (name.is_string()) list->push_back(name.get<std::string>());
  if (const auto at = root.find("devices"); at != root.end() && at->is_number_unsigned())
    verdict.devices = at->get<std::size_t>();
  if (const auto at = root.find("second_sample"); at != root.end() && at->is_boolean())
    verdict.second_sample = at->get<bool>();
  return verdict;
}

}  // namespace roce

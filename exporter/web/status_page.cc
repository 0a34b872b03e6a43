// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <initializer_list>
#include <iterator>
#include <map>

#include "exporter/base/version.h"
#include "exporter/web/html.h"
#include "exporter/web/status_assets.h"
#include "exporter/web/status_view.h"
#include "exporter/web/topology.h"

namespace roce {
namespace {

constexpr std::size_t kMaxCards = 40;    // findings of different checks
constexpr std::size_t kInBanner = 3;     // checks beside the verdict, where they are as bad
constexpr std::size_t kMaxObjects = 50;  // of one check
constexpr std::size_t kOpenObjects = 4;  // of them in sight
constexpr std::size_t kMaxLinks = 64;    // with their charts
constexpr std::size_t kMaxRows = 200;    // of tables without charts
constexpr int kChartWidth = 120;
constexpr int kChartHeight = 28;
constexpr auto kGapInChart = std::chrono::seconds(130);  // longer than any usual scrape interval

using Points = std::vector<StatusRing::Point>;

// --- numbers for people ---

std::string bits(double bytes_per_second) {
  double value = bytes_per_second * 8;
  std::string_view unit = "b/s";
  for (const std::string_view next : {"kb/s", "Mb/s", "Gb/s", "Tb/s"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 && unit != "b/s" ? 1 : 0, unit);
}

std::string each_second(double rate) {
  if (rate <= 0) return "0";
  if (rate < 0.01) return "under 0.01 /s";
  return fmt::format("{:.{}f} /s", rate, rate < 1 ? 2 : rate < 10 ? 1 : 0);
}

std::string share(double ratio) {
  const double percent = std::min(ratio, 1.0) * 100;
  if (percent <= 0) return "0 %";
  return percent < 0.1 ? "under 0.1 %" : fmt::format("{:.{}f} %", percent, percent < 10 ? 1 : 0);
}

std::string ago(std::chrono::seconds age) {
  if (age.count() < 2) return "now";
  if (age < std::chrono::minutes(2)) return fmt::format("{} s ago", age.count());
  if (age < std::chrono::hours(2)) return fmt::format("{} min ago", age.count() / 60);
  return age < std::chrono::hours(48) ? fmt::format("{} h ago", age.count() / 3600)
                                      : fmt::format("{} days ago", age.count() / 86400);
}

std::string utc(std::time_t time, const char* format) {
  std::tm parts{};
  char text[40];
  if (gmtime_r(&time, &parts) == nullptr) return {};
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

// The one form of times on the page.
std::string time_html(std::time_t time) {
  return fmt::format("<time datetime=\"{}\">{} UTC</time>", utc(time, "%Y-%m-%dT%H:%M:%SZ"),
                     utc(time, "%Y-%m-%d %H:%M:%S"));
}

// "since 2026-11-29 22:10:00 UTC (5 min ago)" of an RFC 3339 time.
std::string since_html(const std::string& since, std::time_t now) {
  std::tm parts{};
  const char* end = ::strptime(since.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return "since " + html_escape(since);
  const std::time_t time = ::timegm(&parts);
  return fmt::format("since {} ({})", time_html(time), ago(std::chrono::seconds(now - time)));
}

// Of text in the colour of a severity.
std::string_view tone(Status severity) {
  switch (severity) {
    case Status::kOk:
      return "good";
    case Status::kWarning:
      return "warn";
    case Status::kCritical:
      return "bad";
    case Status::kUnknown:
      return "doubt";
    case Status::kInfo:
      return "soft";
  }
  return "soft";
}

std::string_view mark(Status status) {
  switch (status) {
    case Status::kOk:
      return "✔";
    case Status::kWarning:
      return "▲";
    case Status::kCritical:
      return "✖";
    case Status::kUnknown:
      return "?";
    case Status::kInfo:
      return "i";
  }
  return "?";
}

std::string badge(Status status) {
  return fmt::format("<span class=\"badge {0}\"><span aria-hidden=\"true\">{1} </span>{0}</span>", to_string(status),
                     mark(status));
}

std::string counted(std::size_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

// A part of the page that the script exchanges; it is there, but hidden, where it has nothing to tell.
void append_section(std::string& out, std::string_view id, std::string_view title, bool filled) {
  fmt::format_to(std::back_inserter(out),
                 "<section id=\"{0}\" data-part aria-labelledby=\"{0}-title\"{1}><h2 id=\"{0}-title\">{2}</h2>\n", id,
                 filled ? "" : " hidden", title);
}

// --- verdict and findings ---

struct FindingGroup {
  const Finding* first;
  std::vector<const Finding*> all;
};

// Findings of one check and severity together, in their order.
std::vector<FindingGroup> grouped(const Verdict& verdict) {
  std::vector<FindingGroup> groups;
  for (const Finding& finding : verdict.findings) {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const FindingGroup& g) {
      return g.first->id == finding.id && g.first->severity == finding.severity;
    });
    if (at == groups.end()) at = groups.insert(at, FindingGroup{&finding, {}});
    at->all.push_back(&finding);
  }
  return groups;
}

// What a person has to know first of findings of one check.
std::string told(const FindingGroup& group, bool details) {
  const Finding& finding = *group.first;
  std::string text = details ? fmt::format("{}: {}", finding.object, finding.summary) : finding.id;
  if (group.all.size() > 1 && details) text += fmt::format(" (and {} more like it)", group.all.size() - 1);
  return text;
}

std::string headline(const StatusPage& status, const std::vector<FindingGroup>& groups) {
  if (!groups.empty()) return told(groups.front(), status.details);
  if (nothing_here(status.verdict)) return "No RDMA device here";
  return status.verdict.status == Status::kOk ? "No findings" : "Nothing could be read to judge by";
}

std::string counts(const Verdict& verdict) {
  std::string text;
  for (const Status severity : {Status::kCritical, Status::kUnknown, Status::kWarning}) {
    const auto n = std::count_if(verdict.findings.begin(), verdict.findings.end(),
                                 [&](const Finding& f) { return f.severity == severity; });
    if (n != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, to_string(severity));
  }
  return text;
}

void append_verdict(std::string& out, const StatusPage& status, const std::vector<FindingGroup>& groups) {
  const Verdict& verdict = status.verdict;
  const std::string head = headline(status, groups);
  const std::string numbers = counts(verdict);
  fmt::format_to(
      std::back_inserter(out),
      "<section id=\"verdict\" data-part class=\"verdict {3}\" aria-labelledby=\"word\" data-news=\"Verdict: "
      "{0}. {1}\"><h2 class=\"word\" id=\"word\"><span class=\"hidden\">Verdict: </span>"
      "<span aria-hidden=\"true\">{2} </span>{0}</h2><div class=\"why\"><strong>{1}</strong>",
      to_string(verdict.status), html_escape(head), mark(verdict.status),
      nothing_here(verdict) ? "idle" : to_string(verdict.status));
  // Others that are as bad are not to be found further down alone.
  for (std::size_t i = 1; i < groups.size() && i < kInBanner; ++i)
    if (groups[i].first->severity == groups.front().first->severity)
      fmt::format_to(std::back_inserter(out), "<strong>{}</strong>", html_escape(told(groups[i], status.details)));
  if (!numbers.empty()) fmt::format_to(std::back_inserter(out), "<p>Findings: {}</p>", numbers);
  if (nothing_here(verdict))
    out += "<p>Declare those that should be here in a profile: one that is missing is told then.</p>";
  fmt::format_to(std::back_inserter(out), "<p class=\"soft\">{}, {}{}</p></div></section>\n",
                 counted(verdict.devices, "RDMA device", "RDMA devices"), sources_text(verdict),
                 verdict.second_sample ? "" : "; how counters move is judged from the second look on");
}

void append_object(std::string& out, const StatusPage& status, const Finding& finding) {
  fmt::format_to(std::back_inserter(out), "<li>{}: {}", html_name(finding.object), html_escape(finding.found));
  if (!finding.since.empty())
    fmt::format_to(std::back_inserter(out), " <span class=\"soft\">{}</span>",
                   since_html(finding.since, status.wall_clock));
  out += "</li>";
}

void append_findings(std::string& out, const StatusPage& status, const std::vector<FindingGroup>& groups) {
  append_section(out, "findings", "Findings", !groups.empty());
  if (!groups.empty()) out += "<ol class=\"findings\">\n";
  for (std::size_t g = 0; g < groups.size() && g < kMaxCards; ++g) {
    const Finding& f = *groups[g].first;
    fmt::format_to(
        std::back_inserter(out), "<li class=\"finding {}\"><h3>{} {}{}</h3>\n", to_string(f.severity),
        badge(f.severity), html_escape(status.details ? f.summary : f.id),
        groups[g].all.size() > 1 ? fmt::format(" <span class=\"soft\">× {}</span>", groups[g].all.size()) : "");
    if (status.details) {
      out += "<ul>";
      const std::size_t shown = std::min(groups[g].all.size(), kMaxObjects);
      // One line more than the fold would hide is no reason for a fold.
      const std::size_t open = shown <= kOpenObjects + 1 ? shown : kOpenObjects;
      for (std::size_t i = 0; i < open; ++i) append_object(out, status, *groups[g].all[i]);
      out += "</ul>";
      if (open < shown) {
        fmt::format_to(std::back_inserter(out), "<details id=\"more-{}-{}\"><summary>{} more</summary><ul>",
                       html_escape(f.id), to_string(f.severity), groups[g].all.size() - open);
        for (std::size_t i = open; i < shown; ++i) append_object(out, status, *groups[g].all[i]);
        out += "</ul></details>";
      }
      if (!f.next_step.empty())
        fmt::format_to(std::back_inserter(out),
                       "<p><span class=\"soft\">Next:</span> <span class=\"next\">{}</span></p>",
                       html_escape(f.next_step));
      fmt::format_to(std::back_inserter(out),
                     "<details id=\"about-{0}-{1}\"><summary>Check {0}</summary><dl><dt>Expected</dt><dd>{2}</dd>"
                     "<dt>Kind</dt><dd>{3}</dd><dt>More</dt><dd>{4}</dd></dl></details>",
                     html_escape(f.id), to_string(f.severity), html_escape(f.expected), html_escape(f.finding_class),
                     html_escape(f.runbook.substr(f.runbook.rfind('/') + 1)));
    }
    out += "</li>\n";
  }
  if (!groups.empty()) out += "</ol>\n";
  if (groups.size() > kMaxCards)
    fmt::format_to(std::back_inserter(out),
                   "<p>{} more checks have findings; <a href=\"/health\">/health</a> has all."
                   "</p>\n",
                   groups.size() - kMaxCards);
  out += "</section>\n";
}

// --- links ---

double latest(const Points& points, Measure measure) {
  return points.empty() ? std::nan("") : static_cast<double>(points.back().at(measure));
}

double greatest(const Points& points, Measure measure) {
  double most = std::nan("");
  for (const auto& point : points)
    if (const double value = static_cast<double>(point.at(measure)); !std::isnan(value))
      most = std::isnan(most) ? value : std::max(most, value);
  return most;
}

// A chart of the last fifteen minutes from 0 to `top`. Where values are missing the line is too.
std::string chart(const Points& points, Measure measure, double top, StatusRing::Clock::time_point now, bool alarm) {
  std::string line;
  std::string area;
  const auto x_of = [&](const StatusRing::Point& point) {
    const double age = std::chrono::duration<double>(now - point.time).count();
    return kChartWidth * (1 - age / std::chrono::duration<double>(StatusRing::kSpan).count());
  };
  double begun = 0;
  double last_x = 0;
  const StatusRing::Point* last = nullptr;
  const auto close = [&] {
    if (last != nullptr)
      fmt::format_to(std::back_inserter(area), "L{:.1f} {}L{:.1f} {}Z", last_x, kChartHeight, begun, kChartHeight);
    last = nullptr;
  };
  for (const auto& point : points) {
    const double value = static_cast<double>(point.at(measure));
    if (std::isnan(value) || (last != nullptr && point.time - last->time > kGapInChart)) close();
    if (std::isnan(value)) continue;
    const double x = x_of(point);
    const double y = kChartHeight - (top > 0 ? std::min(value / top, 1.0) : 0) * (kChartHeight - 2);
    fmt::format_to(std::back_inserter(line), "{}{:.1f} {:.1f}", last == nullptr ? 'M' : 'L', x, y);
    fmt::format_to(std::back_inserter(area), "{}{:.1f} {:.1f}", last == nullptr ? 'M' : 'L', x, y);
    if (last == nullptr) begun = x;
    last = &point;
    last_x = x;
  }
  close();
  return fmt::format(
      "<svg class=\"spark{}\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\" "
      "focusable=\"false\"><path class=\"base\" d=\"M0 {}H{}\"/><path class=\"area\" d=\"{}\"/><path class=\"line\" "
      "d=\"{}\"/></svg>",
      alarm ? " alarm" : "", kChartWidth, kChartHeight, kChartHeight, kChartWidth, area, line);
}

void append_measure(std::string& out, std::string_view label, const Points& points, Measure measure, double top,
                    StatusRing::Clock::time_point now, std::string (*text)(double), bool alarming) {
  const double value = latest(points, measure);
  const double most = greatest(points, measure);
  fmt::format_to(std::back_inserter(out), "<td role=\"cell\" data-label=\"{}\">", label);
  if (std::isnan(most)) {
    out += points.empty() ? "<span class=\"soft\">not yet</span></td>" : "<span class=\"soft\">–</span></td>";
    return;
  }
  if (std::isnan(top)) top = most;
  out += chart(points, measure, top, now, alarming && most > 0);
  out += std::isnan(value) ? std::string("?") : text(value);
  if (most > 0) fmt::format_to(std::back_inserter(out), "<span class=\"soft\">15 min peak {}</span>", text(most));
  out += "</td>";
}

std::string_view row_class(const std::optional<Status>& trouble) { return trouble ? to_string(*trouble) : ""; }

std::string link_state(const LinkView& link) {
  std::string text = fmt::format("<span class=\"{}\">{}</span>",
                                 link.up == true ? "good"
                                 : link.trouble  ? tone(*link.trouble)
                                                 : "soft",
                                 html_escape(link.state));
  if (!link.reason.empty()) text += fmt::format("<span class=\"soft\">{}</span>", html_escape(link.reason));
  if (link.trouble) text += " " + badge(*link.trouble);
  return text;
}

void append_link(std::string& out, const StatusPage& status, const LinkView& link) {
  const Points points = status.ring.points(link.device, link.port, status.now);
  fmt::format_to(std::back_inserter(out), "<tr role=\"row\" class=\"{}\"><th role=\"rowheader\" scope=\"row\">{}",
                 row_class(link.trouble), html_name(link.name()));
  fmt::format_to(std::back_inserter(out), "<span class=\"soft\">{}{}{}</span></th>", html_name(link.netdev),
                 link.netdev.empty() || link.driver.empty() ? "" : ", ", html_escape(link.driver));
  fmt::format_to(std::back_inserter(out), "<td role=\"cell\" data-label=\"State\">{}</td>", link_state(link));
  fmt::format_to(std::back_inserter(out), "<td role=\"cell\" data-label=\"Rate\">{}",
                 link.rate > 0 ? bits(link.rate) : "–");
  if (link.mtu > 0) fmt::format_to(std::back_inserter(out), "<span class=\"soft\">MTU {:.0f}</span>", link.mtu);
  out += "</td>";
  const double receive = greatest(points, Measure::kReceive);
  const double transmit = greatest(points, Measure::kTransmit);
  // Both directions at one scale; fmax takes the number of a number and none.
  const double top = std::fmax(receive, transmit);
  append_measure(out, "Receive", points, Measure::kReceive, top, status.now, bits, false);
  append_measure(out, "Transmit", points, Measure::kTransmit, top, status.now, bits, false);
  append_measure(out, "Lost, resent", points, Measure::kLoss, std::nan(""), status.now, each_second, true);
  append_measure(out, "Marks, CNPs", points, Measure::kCongestion, std::nan(""), status.now, each_second, false);
  if (std::isnan(greatest(points, Measure::kPauseSeconds)))
    append_measure(out, "PFC pause", points, Measure::kPauseFrames, std::nan(""), status.now, each_second, false);
  else
    append_measure(out, "PFC pause", points, Measure::kPauseSeconds, 1, status.now, share, false);
  out += "</tr>\n";
}

void append_head(std::string& out, std::initializer_list<std::string_view> columns) {
  out += "<thead role=\"rowgroup\"><tr role=\"row\">";
  for (const std::string_view name : columns)
    fmt::format_to(std::back_inserter(out), "<th role=\"columnheader\" scope=\"col\">{}</th>", name);
  out += "</tr></thead><tbody role=\"rowgroup\">\n";
}

void append_links(std::string& out, const StatusPage& status, const StatusView& view) {
  append_section(out, "links", "Links", true);
  if (view.links.empty()) {
    out += "<p>This host shows no RDMA device.</p></section>\n";
    return;
  }
  // Those with a fault come before those that are one of many.
  std::vector<const LinkView*> shown;
  std::vector<const LinkView*> folded;
  for (const LinkView& link : view.links)
    if (link.trouble && shown.size() < kMaxLinks) shown.push_back(&link);
  for (const LinkView& link : view.links) {
    if (link.trouble && std::find(shown.begin(), shown.end(), &link) != shown.end()) continue;
    (link.function || shown.size() >= kMaxLinks ? folded : shown).push_back(&link);
  }
  // The addresses are those of one vector in its order.
  std::sort(shown.begin(), shown.end());
  out += "<table role=\"table\" class=\"cards\" aria-labelledby=\"links-title\">";
  append_head(out, {"Link", "State", "Rate", "Receive", "Transmit", "Lost, resent", "Marks, CNPs", "PFC pause"});
  for (const LinkView* link : shown) append_link(out, status, *link);
  out +=
      "</tbody></table>\n<details id=\"legend\"><summary>What the columns mean</summary><dl><dt>Charts</dt><dd>The "
      "last "
      "15 minutes, from 0 up; receive and transmit of a link at one scale.</dd><dt>Lost, resent</dt><dd>Packets out of "
      "sequence, triggers of retransmission, retries exceeded, discards, receiver not ready.</dd><dt>Marks, CNPs</dt>"
      "<dd>ECN-marked packets received and congestion notifications handled.</dd><dt>PFC pause</dt><dd>Share of the "
      "time in pause, of the priority and direction that has most; or pause frames of all, both directions, where the "
      "device tells no time.</dd></dl></details>\n";
  if (!folded.empty()) {
    const auto up = std::count_if(folded.begin(), folded.end(), [](const LinkView* l) { return l->up == true; });
    fmt::format_to(std::back_inserter(out),
                   "<details id=\"functions\"><summary>{} more links, functions and representors among them: {} active"
                   "</summary><div class=\"wide\"><table>",
                   folded.size(), up);
    append_head(out, {"Link", "Network device", "State"});
    for (std::size_t i = 0; i < folded.size() && i < kMaxRows; ++i)
      fmt::format_to(std::back_inserter(out), "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>\n",
                     html_name(folded[i]->name()), html_name(folded[i]->netdev), html_escape(folded[i]->state));
    out += "</tbody></table></div>";
    if (folded.size() > kMaxRows)
      fmt::format_to(std::back_inserter(out), "<p>{} more are left out.</p>", folded.size() - kMaxRows);
    out += "</details>\n";
  }
  out += "</section>\n";
}

void append_sessions(std::string& out, const StatusView& view) {
  append_section(out, "storage", "Storage sessions", !view.sessions.empty());
  if (view.sessions.empty()) {
    out += "</section>\n";
    return;
  }
  // What is wrong comes first.
  std::vector<const SessionView*> shown;
  for (const bool good : {false, true})
    for (const SessionView& session : view.sessions)
      if ((session.good && !session.trouble) == good) shown.push_back(&session);
  const std::size_t all = shown.size();
  if (shown.size() > kMaxRows) shown.resize(kMaxRows);
  out += "<table role=\"table\" class=\"cards\" aria-labelledby=\"storage-title\">";
  append_head(out, {"Session", "State", "Peer", "Over", "Target"});
  for (const SessionView* session : shown) {
    fmt::format_to(std::back_inserter(out),
                   "<tr role=\"row\" class=\"{}\"><th role=\"rowheader\" scope=\"row\">{}<span class=\"soft\">{}</span>"
                   "</th><td role=\"cell\" data-label=\"State\">",
                   session->trouble ? row_class(session->trouble)
                   : session->good  ? ""
                                    : "warning",
                   html_name(session->name), html_escape(session->kind));
    if (session->state.empty())
      out += "<span class=\"soft\">not told</span>";
    else
      fmt::format_to(std::back_inserter(out), "<span class=\"{}\">{}</span>",
                     session->good ? "good" : tone(session->trouble.value_or(Status::kWarning)),
                     html_escape(session->state));
    if (session->trouble) out += " " + badge(*session->trouble);
    std::string over = session->link ? html_name(view.links[*session->link].name()) : std::string();
    if (!session->netdev.empty())
      over += session->link ? fmt::format("<span class=\"soft\">{}</span>", html_name(session->netdev))
                            : html_name(session->netdev) + "<span class=\"soft\">no RDMA port</span>";
    fmt::format_to(
        std::back_inserter(out),
        "</td><td role=\"cell\" class=\"names\" data-label=\"Peer\">{}</td><td role=\"cell\" data-label=\"Over\">"
        "{}</td><td role=\"cell\" class=\"names target\" data-label=\"Target\">{}</td></tr>\n",
        html_long_name(session->peer), over.empty() ? "<span class=\"soft\">not known</span>" : over,
        html_long_name(session->target));
  }
  out += "</tbody></table>\n";
  if (all > shown.size()) fmt::format_to(std::back_inserter(out), "<p>{} more are left out.</p>\n", all - shown.size());
  out += "</section>\n";
}

void append_sources(std::string& out, const StatusPage& status) {
  const auto& sources = status.verdict.sources;
  const std::size_t failing = count_sources(status.verdict).failing;
  append_section(out, "sources", "Sources", true);
  fmt::format_to(std::back_inserter(out), "<p>{}, on {}.</p>\n", sources_text(status.verdict),
                 counted(status.verdict.devices, "device", "devices"));
  if (failing != 0 && status.details) {
    out += "<ul>";
    std::size_t n = 0;
    for (const SourceState& source : sources) {
      if (source.ok || not_recorded(source) || ++n > kMaxObjects) continue;
      fmt::format_to(std::back_inserter(out), "<li>{}{}{}: {}</li>", html_escape(source.collector),
                     source.device.empty() ? "" : " of ", html_name(source.device), html_escape(why_failing(source)));
    }
    out += "</ul>";
    if (failing > kMaxObjects)
      fmt::format_to(std::back_inserter(out), "<p>{} more are left out.</p>", failing - kMaxObjects);
    out += "\n";
  }
  const Verdict& verdict = status.verdict;
  if (status.details && !verdict.waived.empty()) {
    fmt::format_to(std::back_inserter(out), "<details id=\"waived\"><summary>{} waived</summary><ul>",
                   counted(verdict.waived.size(), "finding", "findings"));
    for (std::size_t i = 0; i < verdict.waived.size() && i < kMaxObjects; ++i) {
      const Waived& w = verdict.waived[i];
      fmt::format_to(std::back_inserter(out), "<li>{} on {} until {}: {}</li>", html_escape(w.id), html_name(w.object),
                     html_escape(w.until), html_escape(w.reason));
    }
    out += "</ul></details>\n";
  }
  if (status.details && !verdict.not_judged.empty()) {
    fmt::format_to(std::back_inserter(out), "<details id=\"open\"><summary>{} not judged</summary><ul>",
                   counted(verdict.not_judged.size(), "check", "checks"));
    for (std::size_t i = 0; i < verdict.not_judged.size() && i < kMaxObjects; ++i) {
      const NotJudged& n = verdict.not_judged[i];
      fmt::format_to(std::back_inserter(out), "<li>{} {}: {}</li>", html_escape(n.id), html_name(n.object),
                     html_escape(n.reason));
    }
    out += "</ul></details>\n";
  }
  out += "</section>\n";
}

}  // namespace

std::string render_status_page(const StatusPage& status) {
  const Verdict& verdict = status.verdict;
  std::string verdict_word(to_string(verdict.status));
  std::transform(verdict_word.begin(), verdict_word.end(), verdict_word.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  const std::string_view name = status.details ? status.host_name : std::string_view();
  std::string out;
  out.reserve(32768);
  out +=
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>";
  fmt::format_to(std::back_inserter(out), "{} {}{}RDMA links</title><style>", verdict_word, html_escape(name),
                 name.empty() ? "" : ": ");
  out += kStatusStyle;
  out += "</style></head><body>\n<a class=\"skip\" href=\"#verdict\">To the verdict</a>\n<header><h1>";
  if (name.empty())
    out += "RDMA links of this host";
  else
    out += "RDMA links of " + html_name(name);
  fmt::format_to(std::back_inserter(out),
                 "</h1>\n<nav aria-label=\"Other pages\"><a href=\"{}\">Metrics</a><a href=\"/health\">Health</a>"
                 "</nav></header>\n",
                 html_escape(status.telemetry_path));
  if (!status.recording.empty())
    fmt::format_to(std::back_inserter(out), "<p class=\"recording\">{}</p>\n",
                   html_escape(status.details ? status.recording : "A recording, not this host."));
  out += "<p class=\"hidden\" id=\"said\" role=\"status\"></p>\n<main>\n";
  const auto groups = grouped(verdict);
  append_verdict(out, status, groups);
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(status.now - status.collected);
  const std::time_t collected = status.wall_clock - static_cast<std::time_t>(age.count());
  fmt::format_to(std::back_inserter(out),
                 "<div class=\"bar\" id=\"bar\"><span id=\"age\" data-part>Read {} ({})"
                 "</span><noscript>Load the page again to see what is new.</noscript></div>\n",
                 ago(age), time_html(collected));
  append_findings(out, status, groups);
  if (status.details) {
    const PageView page(status.batches);
    const StatusView view(page, verdict);
    append_links(out, status, view);
    const std::string picture = topology_html(view);
    append_section(out, "topology", "What hangs on what", !picture.empty());
    out += picture + "</section>\n";
    append_sessions(out, view);
  }
  append_sources(out, status);
  if (!status.details)
    out +=
        "<p>Names of devices and findings are shown to this host itself, or to everybody who may log in once a web "
        "configuration file guards the server.</p>\n";
  fmt::format_to(std::back_inserter(out), "</main>\n<footer>roce_exporter {}</footer>\n<script>", kVersion);
  out += kStatusScript;
  out += "</script></body></html>\n";
  return out;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "exporter/config/text.h"
#include "exporter/health/check.h"

namespace roce {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kNotJudgedShown = 12;
constexpr std::size_t kNagiosLength = 900;
constexpr std::size_t kNpdLength = 80;

bool listed(const std::vector<std::string>& list, std::string_view word) {
  return list.empty() || std::find(list.begin(), list.end(), word) != list.end();
}

// Whether one of the names stands in an object such as "nvme1 (mlx5_0/1) namespace 3".
bool names_one(std::string_view object, const std::vector<std::string>& names) {
  if (names.empty()) return true;
  constexpr std::string_view kParts = " /(),";
  while (!object.empty()) {
    const std::size_t end = std::min(object.find_first_of(kParts), object.size());
    if (end != 0 && std::find(names.begin(), names.end(), object.substr(0, end)) != names.end()) return true;
    object.remove_prefix(std::min(object.size(), end + 1));
  }
  return false;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// Of a well-formed sequence of UTF-8.
std::uint32_t code_point(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  std::uint32_t code = sequence.size() == 1 ? first : first & (0xFFU >> (sequence.size() + 1));
  for (const char c : sequence.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3FU);
  return code;
}

// Characters that a terminal obeys, or does not show, or by which it shows others in another order.
bool unseen(std::uint32_t code) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kRanges[] = {
      {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E},  {0x200B, 0x200F},
      {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) { return code >= range.first && code <= range.second; });
}

// Foreign text with a blank for each of these, and for bytes that are no text.
std::string plain(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = config::utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    out += length == 0 || unseen(code_point(sequence)) ? " " : sequence;
    text.remove_prefix(sequence.size());
  }
  return out;
}

// Words broken into lines; the first begins with `lead`, the others with as many blanks.
std::string wrapped(std::string_view lead, std::string_view text) {
  const std::string safe = plain(text);
  std::string_view rest = safe;
  std::string out(lead);
  std::size_t column = lead.size();
  bool fresh = true;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (word.empty()) continue;
    if (!fresh && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(lead.size(), ' ');
      column = lead.size();
      fresh = true;
    }
    if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    fresh = false;
  }
  return out + "\n";
}

std::string cut(std::string text, std::size_t max) {
  if (text.size() <= max) return text;
  text.resize(max - 3);
  // Not within a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0U) text.pop_back();
  return text + "...";
}

std::string plural(std::size_t n, std::string_view word) { return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s"); }

std::size_t count_of(const Verdict& verdict, Status severity) {
  return static_cast<std::size_t>(std::count_if(verdict.findings.begin(), verdict.findings.end(),
                                                [&](const Finding& f) { return f.severity == severity; }));
}

constexpr std::string_view kNothingHere = "no RDMA device here; declare those that should be here in a profile";

std::string headline(const Verdict& verdict) {
  if (nothing_here(verdict)) return fmt::format("OK: {}", kNothingHere);
  return fmt::format("{}: {} on {}, {}", upper(to_string(verdict.status)),
                     verdict.findings.empty() ? "no finding" : plural(verdict.findings.size(), "finding"),
                     plural(verdict.devices, "RDMA device"), sources_text(verdict));
}

// The first finding that makes the status, for formats with room for one.
std::string first_finding(const Verdict& verdict) {
  for (const Finding& f : verdict.findings)
    if (f.severity != Status::kInfo) return fmt::format("{} {}: {}", f.id, f.object, f.found);
  return {};
}

}  // namespace

void apply_filter(Verdict& verdict, const VerdictFilter& filter) {
  const auto in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  // The page tells nothing of a device that is missing, not even by which of its names it is declared.
  const bool of_missing = std::any_of(filter.devices.begin(), filter.devices.end(), [&](const std::string& device) {
    return in(verdict.declared, device) && !in(verdict.names, device);
  });
  std::set<std::string_view> wanted_collectors;
  for (const std::string& id : filter.checks)
    if (const Check* check = find_check(id)) wanted_collectors.merge(collectors_of(*check));
  const auto is_failing_source = [](const Finding& f) { return f.id == "source-failing"; };
  for (Finding& f : verdict.findings)
    if (is_failing_source(f) && wanted_collectors.contains(std::string_view(f.object).substr(0, f.object.find('/'))))
      f.severity = worse(f.severity, Status::kUnknown);
  std::erase_if(verdict.findings, [&](const Finding& f) {
    if (f.id == "device-missing") return !of_missing && !names_one(f.object, filter.devices);
    // Without a device in its name it is of all of them.
    if (is_failing_source(f) && f.severity == Status::kUnknown)
      return f.object.find('/') != std::string::npos && !names_one(f.object, filter.devices);
    return !listed(filter.checks, f.id) || !listed(filter.classes, f.finding_class) ||
           !names_one(f.object, filter.devices);
  });
  verdict.sources.erase_if([&](const SourceState& s) {
    return !s.device.empty() && !filter.devices.empty() && !listed(filter.devices, s.device);
  });
  std::erase_if(verdict.waived,
                [&](const Waived& w) { return !listed(filter.checks, w.id) || !names_one(w.object, filter.devices); });
  std::erase_if(verdict.not_judged, [&](const NotJudged& n) {
    return !listed(filter.checks, n.id) || (!n.object.empty() && !names_one(n.object, filter.devices));
  });
  conclude(verdict);
}

std::optional<std::string> unknown_device(const Verdict& verdict, const VerdictFilter& filter) {
  for (const std::string& device : filter.devices)
    if (std::find(verdict.names.begin(), verdict.names.end(), device) == verdict.names.end() &&
        std::find(verdict.declared.begin(), verdict.declared.end(), device) == verdict.declared.end() &&
        std::none_of(verdict.findings.begin(), verdict.findings.end(),
                     [&](const Finding& f) { return names_one(f.object, {device}); }))
      return device;
  return std::nullopt;
}

std::string render_verdict_text(const Verdict& verdict, const std::vector<std::string>& notes) {
  std::string out = headline(verdict) + "\n";
  for (const std::string& note : notes) out += wrapped("note: ", note);
  for (const Finding& f : verdict.findings) {
    out += "\n" + wrapped(fmt::format("{:<9}", upper(to_string(f.severity))),
                          f.object.empty() ? f.id : fmt::format("{} on {}", f.id, f.object));
    out += wrapped("  ", f.summary);
    for (const auto& [lead, text] : {std::pair("  found:    ", &f.found), std::pair("  expected: ", &f.expected),
                                     std::pair("  since:    ", &f.since), std::pair("  next:     ", &f.next_step)})
      if (!text->empty()) out += wrapped(lead, *text);
    // The document is installed with some packages only; the program has it always.
    if (!f.runbook.empty())
      out += wrapped("  more:     ", f.runbook.substr(f.runbook.rfind('/') + 1) + " (roce_exporter checks-reference)");
  }
  if (!verdict.waived.empty()) out += "\nWaived by the profile\n";
  for (const Waived& w : verdict.waived)
    out += wrapped("  ", fmt::format("{} on {} until {}: {}", w.id, w.object, w.until, w.reason));
  if (!verdict.not_judged.empty()) out += "\nNot judged\n";
  for (std::size_t i = 0; i < verdict.not_judged.size(); ++i) {
    const NotJudged& n = verdict.not_judged[i];
    if (i == kNotJudgedShown) {
      out += fmt::format("  and {} more\n", verdict.not_judged.size() - i);
      break;
    }
    out += wrapped("  ", n.object.empty() ? fmt::format("{}: {}", n.id, n.reason)
                                          : fmt::format("{} on {}: {}", n.id, n.object, n.reason));
  }
  return out;
}

std::string render_verdict_nagios(const Verdict& verdict) {
  std::string line = fmt::format("ROCE {} - ", upper(to_string(verdict.status)));
  const std::string first = first_finding(verdict);
  const std::size_t findings = verdict.findings.size() - count_of(verdict, Status::kInfo);
  if (nothing_here(verdict))
    line += kNothingHere;
  else if (first.empty())
    line += fmt::format("no finding on {}", plural(verdict.devices, "RDMA device"));
  else
    line += first;
  if (findings > 1) line += fmt::format("; and {} more", findings - 1);
  line = cut(plain(line), kNagiosLength);
  // The bar parts text from data.
  std::replace(line.begin(), line.end(), '|', '/');
  return fmt::format(
      "{} | findings={} critical={} warning={} unknown={} failing_sources={} not_judged={} rdma_devices={}\n", line,
      findings, count_of(verdict, Status::kCritical), count_of(verdict, Status::kWarning),
      count_of(verdict, Status::kUnknown), count_sources(verdict).failing, verdict.not_judged.size(), verdict.devices);
}

std::string render_verdict_npd(const Verdict& verdict) {
  const std::string first = first_finding(verdict);
  std::string line = first.empty() ? fmt::format("{}: no finding", to_string(verdict.status)) : first;
  return cut(plain(line), kNpdLength) + "\n";
}

std::string render_verdict_tsv(const Verdict& verdict) {
  std::string out;
  for (const Finding& f : verdict.findings)
    out += fmt::format("{}\t{}\t{}\t{}\t{}\n", to_string(f.severity), plain(f.finding_class), plain(f.id),
                       plain(f.object), plain(f.found));
  return out;
}

int exit_code(const Verdict& verdict, std::string_view format) {
  if (format == "npd") return verdict.status == Status::kCritical ? 1 : verdict.status == Status::kUnknown ? 2 : 0;
  return static_cast<int>(verdict.status);
}

}  // namespace roce

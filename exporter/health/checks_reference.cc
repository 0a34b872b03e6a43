// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/checks_reference.h"

#include <fmt/format.h>

#include "exporter/health/check.h"

namespace roce {
namespace {

constexpr std::string_view kIntroduction =
    "# Checks\n\n"
    "This page is made by `roce_exporter checks-reference`; do not edit it.\n\n"
    "`roce_exporter check`, `/health` and the status page judge by these. A finding names the object, what was found "
    "and\n"
    "what was expected. Counters are judged by how they moved since earlier pages, never by their height; a state by "
    "what\n"
    "it is now. What a device does not tell is not judged.\n\n"
    "- **class**: *fault*, something is broken; *drift*, a setting differs, never critical; *capacity*, something "
    "runs\n"
    "  out; *unknown*, something could not be judged. Only critical faults should take a node out of service.\n"
    "- **advice** is shown with `--advice` and by `profile init`, and changes no status.\n"
    "- **profile**: judged only where the profile declares it ([example](../config/profile.yml)).\n"
    "- Every check can be waived in the profile by its id, with a reason and an end date.\n\n";

std::string code_list(std::string_view names) {
  std::string out;
  while (!names.empty()) {
    const std::size_t blank = std::min(names.find(' '), names.size());
    out += fmt::format("{}`{}`", out.empty() ? "" : ", ", names.substr(0, blank));
    names.remove_prefix(std::min(names.size(), blank + 1));
  }
  return out;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string_view kind(const Check& check) {
  if (check.severity == Status::kInfo) return "advice";
  return check.judge == nullptr && check.id != "source-failing" ? "profile" : "built in";
}

}  // namespace

std::string checks_reference_markdown() {
  std::string out(kIntroduction);
  out += "| check | class | severity | judged | what is wrong |\n|---|---|---|---|---|\n";
  for (const Check& check : all_checks())
    out += fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} |\n", check.id, check.finding_class,
                       to_string(check.severity), kind(check), cell(check.summary));
  for (const Check& check : all_checks()) {
    out += fmt::format("\n## {}\n\n{}. {}\n\n", check.id, check.summary, check.explanation);
    out +=
        fmt::format("- expected: {}\n- next step: {}\n- source: {}\n", check.expected, check.next_step, check.source);
    if (!check.reads.empty()) out += fmt::format("- reads: {}\n", code_list(check.reads));
    if (!check.moves.empty()) out += "- needs two pages\n";
    if (!check.profile_key.empty()) out += fmt::format("- key of the profile: `{}`\n", check.profile_key);
  }
  out +=
      "\n## Folklore\n\nWhat guides say and what it is worth. None of it is a finding by itself.\n\n"
      "| claim | verdict | why | what shows it |\n|---|---|---|---|\n";
  for (const Folklore& f : all_folklore())
    out += fmt::format("| {} | {} | {} | {} |\n", cell(f.claim), f.verdict, cell(f.why), cell(f.checkable));
  return out;
}

}  // namespace roce

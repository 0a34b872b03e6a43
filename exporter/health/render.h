// SPDX-License-Identifier: Apache-2.0
//
// Verdicts for people and for other programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/health/verdict.h"

namespace roce {

// What `check` is asked to show; empty lists let everything through.
struct VerdictFilter {
  std::vector<std::string> devices;  // names that an object or a source holds
  std::vector<std::string> checks;
  std::vector<std::string> classes;
};

// Leaves out what the filter does not let through; the status is that of the rest. What keeps a verdict from being
// given always stays: a failing source without which nothing can be said of a device or which a check that was asked
// for reads, as unknown, and a declared device that is missing.
void apply_filter(Verdict& verdict, const VerdictFilter& filter);

// The first device of the filter that neither the page nor the profile knows.
std::optional<std::string> unknown_device(const Verdict& verdict, const VerdictFilter& filter);

// For a terminal of 80 columns. `notes` are lines about how the verdict came about.
std::string render_verdict_text(const Verdict& verdict, const std::vector<std::string>& notes);
// One line and performance data, as Nagios plugins write it.
std::string render_verdict_nagios(const Verdict& verdict);
// At most 80 characters, as node-problem-detector takes it.
std::string render_verdict_npd(const Verdict& verdict);
// One line a finding: severity, class, id, object, found, parted by tabs.
std::string render_verdict_tsv(const Verdict& verdict);

// 0 ok, 1 warning, 2 critical, 3 unknown; for npd 0 ok or warning, 1 critical, 2 unknown.
int exit_code(const Verdict& verdict, std::string_view format);

}  // namespace roce

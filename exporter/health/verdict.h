// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: what a page says of this host's fitness, each finding with its evidence. One engine judges for `check`,
// /health, the status page and the metrics alike.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/engine/engine.h"

namespace roce {

// The numbers are the exit codes of `check`. Advice (info) changes no status.
enum class Status { kOk = 0, kWarning = 1, kCritical = 2, kUnknown = 3, kInfo = 4 };
std::string_view to_string(Status status);  // ok, warning, critical, unknown, info
std::optional<Status> parse_status(std::string_view text);
// The one that counts of two: critical before unknown before warning.
Status worse(Status a, Status b);

struct Finding {
  std::string id;             // of the check, e.g. gid-missing
  std::string finding_class;  // fault, drift, capacity, unknown; drift is never critical
  Status severity = Status::kWarning;
  std::string object;  // device/port, with more words where needed; collector/device
  std::string summary;
  std::string found;
  std::string expected;
  std::string since;  // RFC 3339; empty when not known
  std::string next_step;
  std::string runbook;  // path in the source tree, with an anchor
};

// A finding that the profile excuses for a time.
struct Waived {
  std::string id;
  std::string object;
  std::string reason;
  std::string until;  // YYYY-MM-DD, that day included
};

// A check, or the declared value of an object, for which there was nothing to judge on.
struct NotJudged {
  std::string id;
  std::string object;
  std::string reason;
};

struct Verdict {
  Status status = Status::kOk;
  std::vector<Finding> findings;  // worst first
  SourceStates sources;
  std::vector<Waived> waived;
  std::vector<NotJudged> not_judged;
  std::vector<std::string> names;     // of devices, netdevs and controllers that the page tells of
  std::vector<std::string> declared;  // names and PCI addresses of the profile's devices
  std::size_t devices = 0;
  bool second_sample = true;  // false: no earlier page, so that movement of counters was not judged
};

// What became of the sources. A recording does not hold them all, which is no failure.
struct SourceCounts {
  std::size_t read = 0;
  std::size_t failing = 0;
  std::size_t not_recorded = 0;
};
SourceCounts count_sources(const Verdict& verdict);
bool not_recorded(const SourceState& source);
// "44 sources read, 1 failing"
std::string sources_text(const Verdict& verdict);
// Why a source fails, once: "io: mlx5_0: reads all ones".
std::string why_failing(const SourceState& source);

// Well, but only since there is nothing to judge.
bool nothing_here(const Verdict& verdict);

// Puts findings in order, worst first, and sets the status from them and the sources.
void conclude(Verdict& verdict);

// {"status":...,"findings":[...],"sources":[...],...} in one line. Without `details` only what names nothing of this
// host: ids, classes, severities, and states by collector.
std::string to_json(const Verdict& verdict, bool details);
// Reads what to_json wrote; nothing where the text is something else.
std::optional<Verdict> verdict_from_json(std::string_view text);

}  // namespace roce

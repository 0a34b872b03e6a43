// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: what a page says of this host's fitness, each with its evidence. One place judges for /health and the
// status page alike.
#pragma once

#include <string>
#include <vector>

#include "exporter/engine/engine.h"

namespace roce {

enum class Status { kOk, kWarning, kCritical, kUnknown };
std::string_view to_string(Status status);  // ok, warning, critical, unknown

struct Finding {
  std::string id;             // e.g. gid-missing
  std::string finding_class;  // fault, drift, capacity, unknown
  Status severity = Status::kWarning;
  std::string object;  // device/port or collector/device
  std::string summary;
  std::string found;
  std::string expected;
  std::string since;  // RFC 3339; empty when not known
  std::string next_step;
  std::string runbook;
};

struct Verdict {
  Status status = Status::kOk;
  std::vector<Finding> findings;
  std::vector<SourceState> sources;
};

Verdict judge(const Page& page);

// {"status":...,"findings":[...],"sources":[...]}. Without `details` only what names nothing of this host: ids,
// classes, severities, and states by collector.
std::string to_json(const Verdict& verdict, bool details);

}  // namespace roce

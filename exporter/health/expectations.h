// SPDX-License-Identifier: Apache-2.0
//
// The declared profile against a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exporter/health/check.h"

namespace roce {

// One declared value of one object.
struct Expectation {
  std::string check;  // id in the table of checks
  std::string object;
  std::optional<bool> met;      // nothing: the page does not tell
  std::optional<double> value;  // the declared value as a number in base units, where it is one; sets as a bit mask
  std::string found;
  std::string expected;
  bool critical = false;       // not met it is critical, where its class allows
  bool told_by_check = false;  // a built-in check reports it; only the metric comes from here
};

// Everything that the profile declares and this page may answer. `context` holds that profile.
std::vector<Expectation> compare(const CheckContext& context, const Profile& profile);

// Reports what is not met, and notes what cannot be judged.
void judge_profile(CheckContext& context, const Profile& profile, Verdict& verdict);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Writes a profile of what a page shows.
#pragma once

#include <string>

#include "exporter/health/check.h"

namespace roce {

struct WrittenProfile {
  std::string text;            // YAML that parse_profile() reads
  std::size_t suspicious = 0;  // values that failed a built-in check: they stand commented out
};

// `verdict` is the judgement of the same page, with advice.
WrittenProfile write_profile(const Page& page, const Verdict& verdict, std::string_view host_name);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The page at `/`: verdict, links, sources. One HTML document without scripts or outside assets.
#pragma once

#include <string>

#include "exporter/health/verdict.h"

namespace roce {

// Without `details` only counts and verdict ids are shown.
std::string render_status_page(const Page& page, const Verdict& verdict, std::string_view telemetry_path, bool details);

// Text for HTML content and attribute values.
std::string html_escape(std::string_view text);

}  // namespace roce

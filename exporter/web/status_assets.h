// SPDX-License-Identifier: Apache-2.0
//
// Style and script of the status page. Both stand in the page itself, and its policy lets these two run and nothing
// else.
#pragma once

#include <string_view>

namespace roce {

extern const std::string_view kStatusStyle;
// Fetches the page every few seconds and puts what has changed in place of what is shown. Without it the page is the
// same, and stands still.
extern const std::string_view kStatusScript;

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// A look at JSON from others before it is parsed: nesting costs the parser memory and stack.
#pragma once

#include <string_view>

namespace roce::probe {

// True with more than eight levels; no document that is read here has more. Brackets within strings do not count.
bool too_deep(std::string_view json);

}  // namespace roce::probe

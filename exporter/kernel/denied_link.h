// SPDX-License-Identifier: Apache-2.0
//
// How a recording says that the host did not let the program read a file or folder: by a link to a link of this name at
// its top, which leads to itself. Such a way fails for everybody, root too, and tells why.
#pragma once

#include <string>
#include <string_view>

namespace roce {

inline constexpr std::string_view kDeniedLink = "permission-denied";

// errno of a call that could not open `path`; EACCES where the way ends at such a link.
int errno_of_open(const std::string& path);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Stand-ins for names under --hide-identity: series still have to differ where their names may not be shown.
#pragma once

#include <string>
#include <string_view>

namespace roce {

// "KIND-" and 16 hexadecimal digits: the same name gives the same text as long as this host is up, and a name that was
// guessed cannot be checked against it, since the digest's key stays on the host. Thread-safe.
std::string hidden_name(std::string_view kind, std::string_view name);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The command `capture`: a recording of this host, for --replay elsewhere.
#pragma once

#include "exporter/config/options.h"

namespace roce {

// Exit code 0, or 2 with one line that says why not. Ends the program, since a read may hang in the kernel.
[[noreturn]] void capture_once(const Options& options);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Capabilities of the process. The kernel keeps them for each thread: to be used before others are started.
#pragma once

#include "exporter/base/result.h"

namespace roce {

// True where the capability (CAP_SYS_ADMIN ...) is in effect.
bool has_capability(unsigned capability);

// Gives one capability up for good: out of all sets, and no program that is started gets it back.
Result<void> drop_capability(unsigned capability);

}  // namespace roce

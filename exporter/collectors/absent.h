// SPDX-License-Identifier: Apache-2.0
//
// Says on the page that a value one would look for is not there, and why.
#pragma once

#include <string_view>

#include "exporter/base/result.h"
#include "exporter/collectors/collector.h"

namespace roce {

// Counts `what` under its state for the device as a whole, or for the host when `device` is empty.
void add_absent(Part& part, std::string_view device, std::string_view what, ErrorKind kind);

}  // namespace roce

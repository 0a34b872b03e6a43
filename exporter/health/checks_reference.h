// SPDX-License-Identifier: Apache-2.0
//
// The document of the checks, written from their table.
#pragma once

#include <string>

namespace roce {

std::string checks_reference_markdown();

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Recognises files that are another program's. Thread-safe (no state).
#pragma once

#include <optional>
#include <string_view>

#include "exporter/config/text.h"

namespace roce::config {

// What a file is that another program reads, or this one another way, by a key at its top: what to report instead of
// its unknown keys.
std::optional<Problem> foreign_file(std::string_view key);

}  // namespace roce::config

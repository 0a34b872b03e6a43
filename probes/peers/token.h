// SPDX-License-Identifier: Apache-2.0
//
// The bearer token that probers may show to each other. Thread-safe (no state).
#pragma once

#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace roce::probe {

// The first line of the file, 16 to 1024 printable characters. Read at each use, so that a renewed token is taken.
Result<std::string> read_token(const std::string& file);

// Compares in a time that tells nothing of where they differ.
bool same_token(std::string_view a, std::string_view b);

// What follows "Bearer " in an Authorization header; empty otherwise.
std::string_view bearer_of(std::string_view header);

}  // namespace roce::probe

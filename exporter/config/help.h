// SPDX-License-Identifier: Apache-2.0
//
// The texts of --help and --version. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "exporter/config/options.h"

namespace roce::config {

// Grouped, at most 80 columns wide.
std::string help_text(const std::vector<CollectorChoice>& collectors);

// First line "roce_exporter, version X", as Prometheus programs print it.
std::string version_text();

}  // namespace roce::config

// SPDX-License-Identifier: Apache-2.0
//
// The texts of --help and --version. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/config/flags.h"
#include "exporter/config/options.h"

namespace roce::config {

// Grouped, at most 80 columns wide.
std::string help_text(const std::vector<CollectorChoice>& collectors);

// First line "PROGRAM, version X", as Prometheus programs print it.
std::string version_text(std::string_view program);

// The help's entry of one flag: its name, and below it the indented description with the default.
void append_flag(std::string& out, const Flag& flag);

// Appends `text`, broken between words at 80 columns, each line indented by so many blanks.
void append_wrapped(std::string& out, std::string_view text, std::size_t indent);

}  // namespace roce::config

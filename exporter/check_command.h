// SPDX-License-Identifier: Apache-2.0
//
// The commands `check` and `profile init`, and what the serving program shares with them.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "exporter/config/options.h"
#include "exporter/health/health.h"

namespace roce {

// The profile of the options, with the classes of this host applied; null where none is named. On failure one line.
tl::expected<std::shared_ptr<const Profile>, std::string> load_profile(const Options& options);

// The directory for what is kept over restarts; empty where it is not there or not writable, and for recordings.
std::string usable_state_directory(const Options& options);

// Runs the command and ends the program.
[[noreturn]] void check_once(const Options& options);
[[noreturn]] void profile_init(const Options& options);

}  // namespace roce

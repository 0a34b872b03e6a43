// SPDX-License-Identifier: Apache-2.0
//
// The one table of the prober's settings, as the exporter has one: a row serves the flag, the key and the help. What is
// no single value or list of texts (classes, peers, modules, rails) is read in config_file.cc. Thread-safe.
#pragma once

#include <span>

#include "exporter/config/setting_of.h"
#include "probes/config/options.h"

namespace roce::probe {

using Setting = config::SettingOf<Options>;

std::span<const Setting> settings();       // of the program
std::span<const Setting> ping_settings();  // flags of the command ping

// Values that stand in modules and classes too.
std::optional<config::Problem> set_kind(std::string_view text, BurstSpec::Kind& out);
std::optional<config::Problem> set_milliseconds(std::string_view text, int low, int high, std::string_view off,
                                                std::chrono::milliseconds& out);

// What is wrong with a size of probes, which depends on their kind.
std::optional<config::Problem> wrong_size(BurstSpec::Kind kind, std::uint32_t size);

std::string help_text();

}  // namespace roce::probe

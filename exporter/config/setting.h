// SPDX-License-Identifier: Apache-2.0
//
// The one table of settings. A row serves the flag, the key of the configuration file and the help text, so that the
// three cannot disagree; adding a setting is adding a row in setting.cc. Thread-safe: the table is constant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exporter/config/options.h"
#include "exporter/config/setting_of.h"
#include "exporter/config/text.h"
#include "exporter/config/values.h"

namespace roce::config {

using Setting = SettingOf<Options>;

std::span<const Setting> settings();

// markdown or json.
std::optional<Problem> set_reference_format(Options& options, std::string_view text);

}  // namespace roce::config

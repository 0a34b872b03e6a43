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

// A flag that only one command takes. Rows are in setting.cc too.
struct CommandFlag {
  std::string_view command;
  std::string_view flag;   // long name without dashes
  std::string_view value;  // what stands for the value in the help; empty for a switch
  std::string_view help;
  bool repeatable;
  std::optional<Problem> (*set)(Options&, std::string_view text);
};

std::span<const CommandFlag> command_flags();

struct CommandHelp {
  std::string_view name;
  std::string_view arguments;
  std::string_view help;
};
std::span<const CommandHelp> commands();

}  // namespace roce::config

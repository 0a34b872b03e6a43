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
#include "exporter/config/text.h"
#include "exporter/config/values.h"

namespace roce::config {

struct Setting {
  std::string_view flag;  // long name without dashes
  std::string_view key;   // section.name in the file; empty: a flag only
  Kind kind;
  std::string_view group;  // heading in the help
  std::string_view value;  // what stands for the value in the help; empty for a switch
  std::string_view help;
  std::optional<Problem> (*set)(Options&, std::string_view text);  // on a problem nothing is changed
  std::string (*get)(const Options&);                              // for the help: the default
  void (*clear)(Options&) = nullptr;                               // lists only
};

std::span<const Setting> settings();

// markdown or json.
std::optional<Problem> set_reference_format(Options& options, std::string_view text);

}  // namespace roce::config

// SPDX-License-Identifier: Apache-2.0
//
// A row of a program's table of settings: it serves the flag, the key of the configuration file and the help text, so
// that the three cannot disagree.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exporter/config/flags.h"
#include "exporter/config/text.h"

namespace roce::config {

// `O` is what the program's settings are kept in.
template <class O>
struct SettingOf {
  std::string_view flag;  // long name without dashes; empty: a key only
  std::string_view key;   // section.name in the file; empty: a flag only
  Kind kind;
  std::string_view group;  // heading in the help
  std::string_view value;  // what stands for the value in the help; empty for a switch
  std::string_view help;
  std::optional<Problem> (*set)(O&, std::string_view text);  // on a problem nothing is changed
  std::string (*get)(const O&);                              // for the help: the default
  void (*clear)(O&) = nullptr;                               // lists only
};

}  // namespace roce::config

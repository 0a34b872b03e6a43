// SPDX-License-Identifier: Apache-2.0
//
// The command line of a program: flags, commands and their arguments as texts. What the texts mean is the program's own
// business. Thread-safe (no state).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "exporter/config/text.h"

namespace roce {

// How parsing ended when it is not a configuration to run with. Texts come with their line end, to be written as they
// are.
struct Exit {
  int code = 0;
  std::string out;  // to stdout: help, version
  std::string err;  // to stderr: one clear line
};

}  // namespace roce

namespace roce::config {

enum class Kind {
  kText,
  kNumber,
  kSwitch,  // true or false
  kList,    // texts; the flag may be repeated
};

struct Flag {
  std::string name;  // without dashes
  Kind kind = Kind::kText;
  std::string value;  // what stands for the value in messages; empty for a switch
  std::vector<std::string>
      commands;  // that take it (another row may have the same name for others); empty: all, and none
  std::string group = {}, help = {};  // for help_of_flags()
  std::string by_default = {};        // empty: not told
};

struct Command {
  std::string name;
  std::string argument = {};  // FILE, TARGET; empty: takes none
};

struct ParsedFlags {
  bool help = false;
  bool version = false;
  std::string command;                                     // empty: none
  std::string argument;                                    // of the command
  std::map<std::string, std::vector<std::string>> values;  // as given, in order; several only of a kList

  // Null where the flag was not given.
  const std::vector<std::string>* find(std::string_view name) const;
};

// "PROGRAM: found ..., allowed ..." with exit code 2.
Exit refuse(std::string_view program, std::string_view line);
Exit refuse(std::string_view program, std::string_view flag, const Problem& problem);

// A switch is given as --NAME, --NAME=true, --NAME=false or --no-NAME; its value is then "true" or "false". Other
// values follow = or a blank. With --help or --version nothing else is looked at. Throws nothing but what CLI11 throws.
tl::expected<ParsedFlags, Exit> parse_flags(std::string_view program, const std::vector<Flag>& flags,
                                            const std::vector<Command>& commands, std::vector<std::string> arguments);

}  // namespace roce::config

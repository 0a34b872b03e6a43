// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace roce::config {
namespace {

class CommandLine {
 public:
  CommandLine(std::string_view program, const std::vector<Flag>& flags, const std::vector<Command>& commands)
      : program_(program), flags_(flags), commands_(commands) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.require_subcommand(0, 1);
    help_ = app_.add_flag("-h,--help");
    version_ = app_.add_flag("--version");
    for (const Command& command : commands) {
      CLI::App* app = app_.add_subcommand(command.name);
      app->set_help_flag();
      app->fallthrough();
      app->allow_extras();
      if (!command.argument.empty()) arguments_[command.name] = app->add_option(command.argument);
    }
    for (const Flag& flag : flags) {
      auto& options = options_.emplace_back();
      if (flag.commands.empty()) options.push_back(add(app_, flag));
      for (const std::string& command : flag.commands) options.push_back(add(*app_.get_subcommand(command), flag));
    }
  }

  tl::expected<ParsedFlags, Exit> parse(std::vector<std::string> arguments) {
    if (auto problem = take_empty_values(arguments)) return tl::unexpected(std::move(*problem));
    std::reverse(arguments.begin(), arguments.end());  // the order in which this overload of parse() takes them
    app_.parse(std::move(arguments));

    ParsedFlags parsed;
    parsed.help = help_->count() > 0;
    parsed.version = version_->count() > 0;
    if (parsed.help || parsed.version) return parsed;
    if (const auto extra = app_.remaining(true); !extra.empty()) return tl::unexpected(refuse_extra(extra.front()));
    for (const Command& command : commands_) {
      if (!app_.got_subcommand(command.name)) continue;
      parsed.command = command.name;
      if (command.argument.empty()) continue;
      const CLI::Option* argument = arguments_.at(command.name);
      if (argument->count() == 0 || argument->results().front().empty()) {
        std::string what = command.argument;
        std::transform(what.begin(), what.end(), what.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
        return tl::unexpected(
            refuse(program_, fmt::format("{0}: found no {1}, allowed {0} {2}", command.name, what, command.argument)));
      }
      parsed.argument = argument->results().front();
    }
    for (std::size_t i = 0; i < flags_.size(); ++i) {
      const Flag& flag = flags_[i];
      if (!taken_by(flag, parsed.command)) continue;
      auto given = values(i);
      if (given.empty()) continue;
      if (given.size() > 1 && flag.kind != Kind::kList) {
        return tl::unexpected(
            refuse(program_, flag.name,
                   {fmt::format("{} values ({}, {})", given.size(), ticked(given[0]), ticked(given[1])),
                    "the flag once",
                    {}}));
      }
      parsed.values[flag.name] = std::move(given);
    }
    return parsed;
  }

 private:
  static CLI::Option* add(CLI::App& app, const Flag& flag) {
    if (flag.kind == Kind::kSwitch) return app.add_flag(fmt::format("--{0},!--no-{0}", flag.name));
    return app.add_option("--" + flag.name)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  static bool taken_by(const Flag& flag, std::string_view command) {
    return flag.commands.empty() ||
           std::find(flag.commands.begin(), flag.commands.end(), command) != flag.commands.end();
  }

  // The flag of this name that the command takes, else another command's.
  const Flag* find(std::string_view name, std::string_view command) const {
    const Flag* found = nullptr;
    for (const Flag& flag : flags_)
      if (flag.name == name && (found == nullptr || taken_by(flag, command))) found = &flag;
    return found;
  }

  // Of the arguments the first that is one, before any is parsed: a command's name as the value of a flag is rare, and
  // only decides which of two flags a message is about.
  std::string_view command_of(const std::vector<std::string>& arguments) const {
    for (const std::string& argument : arguments)
      for (const Command& command : commands_)
        if (argument == command.name) return command.name;
    return {};
  }

  // CLI11 takes the next argument for the value of "--flag=", and a flag for the value of the flag before it. Empty
  // values are kept aside here, missing ones refused.
  std::optional<Exit> take_empty_values(std::vector<std::string>& arguments) {
    std::vector<std::string> kept;
    const std::string_view command = command_of(arguments);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "--") {
        kept.insert(kept.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
        break;
      }
      const std::size_t equals = argument.find('=');
      const std::string name = argument.starts_with("--") ? argument.substr(2, equals - 2) : std::string();
      const Flag* flag = find(name, command);
      if (equals != std::string::npos && equals + 1 == argument.size() && flag != nullptr) {
        empty_.push_back(name);
        continue;
      }
      kept.push_back(argument);
      if (equals != std::string::npos || flag == nullptr || flag->kind == Kind::kSwitch) continue;
      const bool last = i + 1 == arguments.size();
      if (last || arguments[i + 1].starts_with("--")) {
        return refuse(program_, name,
                      {last ? "no value" : "no value before " + ticked(arguments[i + 1]),
                       fmt::format("--{}={}", name, flag->value),
                       {}});
      }
      ++i;
      if (arguments[i].empty()) {
        kept.pop_back();
        empty_.push_back(name);
      } else {
        kept.push_back(arguments[i]);
      }
    }
    arguments = std::move(kept);
    return {};
  }

  Exit refuse_extra(const std::string& extra) const {
    if (!extra.starts_with("-") || extra == "-" || extra == "--") {
      if (!app_.get_subcommands().empty()) {
        return refuse(program_, fmt::format("found the argument {} too many after {}, allowed flags", ticked(extra),
                                            ticked(app_.get_subcommands().front()->get_name())));
      }
      std::vector<std::string> names;
      for (const Command& command : commands_) names.push_back(command.name);
      const std::vector<std::string_view> views(names.begin(), names.end());
      return refuse(program_, "command: " + Problem{ticked(extra), either(views), nearest(extra, names)}.text());
    }
    const std::string name = extra.substr(0, extra.find('='));
    std::vector<std::string> places;
    for (const Flag& flag : flags_)
      if (name == "--" + flag.name)
        for (const std::string& command : flag.commands) places.push_back(fmt::format("{} {}", command, name));
    if (!places.empty()) {
      const std::vector<std::string_view> views(places.begin(), places.end());
      return refuse(program_, fmt::format("found `{}` outside its command, allowed {}", name, either(views)));
    }
    // One dash too few is a near miss too, whatever follows.
    const std::string dashed = name.starts_with("--") ? name : "-" + name;
    std::vector<std::string> names;
    const std::string given = app_.get_subcommands().empty() ? "" : app_.get_subcommands().front()->get_name();
    for (const Flag& flag : flags_) {
      if (!taken_by(flag, given)) continue;
      names.push_back(flag.name);
      if (flag.kind == Kind::kSwitch) names.push_back("no-" + flag.name);
    }
    std::string meant = nearest(dashed.substr(2), names);
    if (!meant.empty()) meant.insert(0, "--");
    return refuse(program_, Problem{"the unknown flag " + ticked(name), "the flags that --help lists", meant}.text());
  }

  std::vector<std::string> values(std::size_t index) const {
    std::vector<std::string> all;
    for (const CLI::Option* option : options_[index])
      if (option->count() > 0) all.insert(all.end(), option->results().begin(), option->results().end());
    all.insert(all.end(), static_cast<std::size_t>(std::count(empty_.begin(), empty_.end(), flags_[index].name)), "");
    return all;
  }

  std::string_view program_;
  const std::vector<Flag>& flags_;
  const std::vector<Command>& commands_;
  CLI::App app_;
  CLI::Option* help_ = nullptr;
  CLI::Option* version_ = nullptr;
  std::map<std::string, CLI::Option*> arguments_;   // by command
  std::vector<std::vector<CLI::Option*>> options_;  // as flags_
  std::vector<std::string> empty_;
};

}  // namespace

const std::vector<std::string>* ParsedFlags::find(std::string_view name) const {
  const auto found = values.find(std::string(name));
  return found == values.end() ? nullptr : &found->second;
}

Exit refuse(std::string_view program, std::string_view line) {
  return Exit{2, {}, fmt::format("{}: {}\n", program, line)};
}
Exit refuse(std::string_view program, std::string_view flag, const Problem& problem) {
  return refuse(program, fmt::format("--{}: {}", flag, problem.text()));
}

tl::expected<ParsedFlags, Exit> parse_flags(std::string_view program, const std::vector<Flag>& flags,
                                            const std::vector<Command>& commands, std::vector<std::string> arguments) {
  return CommandLine(program, flags, commands).parse(std::move(arguments));
}

}  // namespace roce::config

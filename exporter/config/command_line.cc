// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "exporter/config/flags.h"
#include "exporter/config/help.h"
#include "exporter/config/options.h"
#include "exporter/config/setting.h"

namespace roce {
namespace {

using config::CommandFlag;
using config::Kind;
using config::ParsedFlags;
using config::Problem;
using config::Setting;

constexpr std::string_view kProgram = "roce_exporter";

std::optional<Exit> set_command(const ParsedFlags& parsed, Options& options) {
  using enum Options::Command;
  if (parsed.command == "print") options.command = kPrint;
  if (parsed.command == "check") options.command = kCheck;
  if (parsed.command == "metrics-reference") options.command = kMetricsReference;
  if (parsed.command == "checks-reference") options.command = kChecksReference;
  if (parsed.command == "profile") {
    options.command = kProfileInit;
    if (parsed.argument != "init")
      return config::refuse(kProgram,
                            "profile: " + Problem{config::ticked(parsed.argument), "profile init", {}}.text());
  }
  if (parsed.command == "check-config") {
    options.command = kCheckConfig;
    options.check_config_target = parsed.argument;
  }
  if (parsed.command == "capture") {
    options.command = kCapture;
    options.capture_target = parsed.argument;
  }
  for (const CommandFlag& own : config::command_flags()) {
    const auto* given = own.command == parsed.command ? parsed.find(own.flag) : nullptr;
    if (given == nullptr) continue;
    for (const std::string& value : *given)
      if (const auto problem = own.set(options, value)) return config::refuse(kProgram, own.flag, *problem);
  }
  return {};
}

std::optional<Exit> set_flags(const ParsedFlags& parsed, const std::vector<CollectorChoice>& collectors,
                              Options& options) {
  for (const Setting& setting : config::settings()) {
    const auto* given = parsed.find(setting.flag);
    if (given == nullptr) continue;
    if (setting.clear != nullptr) setting.clear(options);
    for (const std::string& value : *given) {
      if (const auto problem = setting.set(options, value)) return config::refuse(kProgram, setting.flag, *problem);
    }
    options.set_by_flag.emplace_back(setting.flag);
  }
  for (const CollectorChoice& collector : collectors) {
    const std::string flag = fmt::format("collector.{}", collector.name);
    const auto* given = parsed.find(flag);
    if (given == nullptr) continue;
    bool on = false;
    if (const auto problem = config::parse_switch(given->front(), on)) return config::refuse(kProgram, flag, *problem);
    options.collectors[std::string(collector.name)] = on;
    options.set_by_flag.push_back(flag);
  }
  return {};
}

std::optional<Exit> contradiction(const Options& options) {
  if (!options.recorded()) return {};
  const std::string_view one = !options.demo.empty() ? "demo" : "replay";
  if (!options.demo.empty() && !options.replay.empty())
    return config::refuse(kProgram, one, {"--replay beside it", "only one of the two", {}});
  for (const std::string& flag : options.set_by_flag) {
    if (flag.starts_with("path.")) {
      return config::refuse(kProgram, one,
                            {"--" + flag + " beside it", "only one of the two: a recording or this host", {}});
    }
  }
  return {};
}

tl::expected<Options, Exit> read_arguments(std::vector<std::string> arguments,
                                           const std::vector<CollectorChoice>& collectors) {
  std::vector<config::Flag> flags;
  for (const Setting& setting : config::settings())
    flags.push_back({std::string(setting.flag), setting.kind, std::string(setting.value), {}});
  for (const CollectorChoice& collector : collectors)
    flags.push_back({fmt::format("collector.{}", collector.name), Kind::kSwitch, {}, {}});
  for (const CommandFlag& own : config::command_flags()) {
    const Kind kind = own.value.empty() ? Kind::kSwitch : own.repeatable ? Kind::kList : Kind::kText;
    flags.push_back({std::string(own.flag), kind, std::string(own.value), {std::string(own.command)}});
  }
  std::vector<config::Command> commands;
  for (const config::CommandHelp& command : config::commands())
    commands.push_back({std::string(command.name), std::string(command.arguments)});

  auto parsed = config::parse_flags(kProgram, flags, commands, std::move(arguments));
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  if (parsed->help) return tl::unexpected(Exit{0, config::help_text(collectors), {}});
  if (parsed->version) return tl::unexpected(Exit{0, config::version_text(kProgram), {}});
  Options options;
  if (auto problem = set_command(*parsed, options)) return tl::unexpected(std::move(*problem));
  if (auto problem = set_flags(*parsed, collectors, options)) return tl::unexpected(std::move(*problem));
  if (auto problem = contradiction(options)) return tl::unexpected(std::move(*problem));
  return options;
}

tl::expected<Options, Exit> parse_with_file(const std::vector<std::string>& arguments,
                                            const std::vector<CollectorChoice>& collectors) {
  auto options = read_arguments(arguments, collectors);
  if (!options || options->config_file.empty()) return options;
  using enum Options::Command;
  const Options::Command command = options->command;
  if (command != kServe && command != kPrint && command != kCheck && command != kProfileInit && command != kCapture)
    return options;
  auto with_file = apply_config_file(options->config_file, *options, options->set_by_flag, collectors);
  if (!with_file) return tl::unexpected(config::refuse(kProgram, with_file.error()));
  return std::move(*with_file);
}

// Whether the first word that is no flag and no value of one is this command.
bool asks_for(const std::vector<std::string>& arguments, std::string_view command) {
  const auto takes_value = [](std::string_view flag) {
    for (const CommandFlag& own : config::command_flags())
      if (own.flag == flag && !own.value.empty()) return true;
    for (const Setting& setting : config::settings())
      if (setting.flag == flag) return setting.kind != Kind::kSwitch;
    return false;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with("-")) return argument == command;
    const bool has_value = argument.find('=') != std::string_view::npos;
    if (!has_value && argument.starts_with("--") && takes_value(argument.substr(2))) ++i;
  }
  return false;
}

}  // namespace

tl::expected<Options, Exit> parse_command_line(int argc, const char* const* argv,
                                               const std::vector<CollectorChoice>& collectors) {
  try {
    std::vector<std::string> arguments;
    for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
    auto options = parse_with_file(arguments, collectors);
    // What calls `check` takes 1 and 2 for verdicts.
    if (!options && options.error().code == 2 && asks_for(arguments, "check")) options.error().code = 3;
    return options;
  } catch (const std::exception& error) {
    return tl::unexpected(config::refuse(kProgram, config::one_line(error.what(), 200)));
  }
}

Exit check_config(const std::string& file, const std::vector<CollectorChoice>& collectors) {
  const auto options = apply_config_file(file, Options(), {}, collectors);
  if (!options) return Exit{2, {}, options.error() + "\n"};
  return Exit{0, config::one_line(file, 4096) + ": ok\n", {}};
}

}  // namespace roce

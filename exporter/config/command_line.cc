// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/config/help.h"
#include "exporter/config/options.h"
#include "exporter/config/setting.h"

namespace roce {
namespace {

using config::Kind;
using config::Problem;
using config::Setting;
using config::ticked;

Exit refuse(std::string_view line) { return Exit{2, {}, fmt::format("roce_exporter: {}\n", line)}; }
Exit refuse(std::string_view flag, const Problem& problem) {
  return refuse(fmt::format("--{}: {}", flag, problem.text()));
}

const Setting* find_setting(std::string_view flag) {
  const auto all = config::settings();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Setting& s) { return s.flag == flag; });
  return found == all.end() ? nullptr : &*found;
}

// What stands for the value of a flag that takes one, nullptr for a switch or an unknown flag.
const char* placeholder(std::string_view flag) {
  if (flag == "format") return "markdown|json";
  const Setting* setting = find_setting(flag);
  return setting == nullptr || setting->kind == Kind::kSwitch ? nullptr : setting->value.data();
}

constexpr std::string_view kCommands[] = {"print", "check-config", "metrics-reference"};

class CommandLine {
 public:
  explicit CommandLine(const std::vector<CollectorChoice>& collectors) : collectors_(collectors) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.require_subcommand(0, 1);
    help_ = app_.add_flag("-h,--help");
    version_ = app_.add_flag("--version");
    for (const Setting& setting : config::settings()) {
      if (setting.kind == Kind::kSwitch) {
        add_switch(std::string(setting.flag));
      } else {
        add_value(app_, std::string(setting.flag));
      }
    }
    for (const CollectorChoice& collector : collectors) add_switch(fmt::format("collector.{}", collector.name));
    for (const std::string_view name : kCommands) {
      CLI::App* command = app_.add_subcommand(std::string(name));
      command->set_help_flag();
      command->fallthrough();
      command->allow_extras();
    }
    file_ = app_.get_subcommand("check-config")->add_option("FILE");
    add_value(*app_.get_subcommand("metrics-reference"), "format");
  }

  tl::expected<Options, Exit> parse(std::vector<std::string> arguments) {
    if (auto problem = take_empty_values(arguments)) return tl::unexpected(std::move(*problem));
    std::reverse(arguments.begin(), arguments.end());  // the order in which this overload of parse() takes them
    app_.parse(std::move(arguments));

    if (help_->count() > 0) return tl::unexpected(Exit{0, config::help_text(collectors_), {}});
    if (version_->count() > 0) return tl::unexpected(Exit{0, config::version_text(), {}});
    if (const auto extra = app_.remaining(true); !extra.empty()) return tl::unexpected(refuse_extra(extra.front()));

    Options options;
    if (auto problem = set_command(options)) return tl::unexpected(std::move(*problem));
    if (auto problem = set_flags(options)) return tl::unexpected(std::move(*problem));
    if (auto problem = contradiction(options)) return tl::unexpected(std::move(*problem));
    return options;
  }

 private:
  void add_switch(const std::string& flag) {
    flags_[flag] = app_.add_flag(fmt::format("--{0},!--no-{0}", flag));
    names_.push_back("--" + flag);
    names_.push_back("--no-" + flag);
  }
  void add_value(CLI::App& app, const std::string& flag) {
    flags_[flag] = app.add_option("--" + flag)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    names_.push_back("--" + flag);
  }

  // CLI11 takes the next argument for the value of "--flag=", and a flag for the value of the flag before it. Empty
  // values are kept aside here, missing ones refused.
  std::optional<Exit> take_empty_values(std::vector<std::string>& arguments) {
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "--") {
        kept.insert(kept.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
        break;
      }
      const std::size_t equals = argument.find('=');
      const std::string name = argument.starts_with("--") ? argument.substr(2, equals - 2) : std::string();
      const char* value = placeholder(name);
      if (equals != std::string::npos && equals + 1 == argument.size() && flags_.contains(name)) {
        empty_.push_back(name);
        continue;
      }
      kept.push_back(argument);
      if (equals != std::string::npos || value == nullptr) continue;
      const bool last = i + 1 == arguments.size();
      if (last || arguments[i + 1].starts_with("--")) {
        return refuse(name, {last ? "no value" : "no value before " + ticked(arguments[i + 1]),
                             fmt::format("--{}={}", name, value),
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
        return refuse(fmt::format("found the argument {} too many after {}, allowed flags", ticked(extra),
                                  ticked(app_.get_subcommands().front()->get_name())));
      }
      std::vector<std::string> commands(std::begin(kCommands), std::end(kCommands));
      return refuse("command: " +
                    Problem{ticked(extra), config::either(kCommands), config::nearest(extra, commands)}.text());
    }
    const std::string name = extra.substr(0, extra.find('='));
    if (name == "--format") return refuse("found `--format` outside its command, allowed metrics-reference --format");
    // One dash too few is a near miss too, whatever follows.
    const std::string dashed = name.starts_with("--") ? name : "-" + name;
    std::vector<std::string> bare;
    bare.reserve(names_.size());
    for (const std::string& known : names_) bare.push_back(known.substr(2));
    std::string meant = config::nearest(dashed.substr(2), bare);
    if (!meant.empty()) meant.insert(0, "--");
    return refuse(Problem{"the unknown flag " + ticked(name), "the flags that --help lists", meant}.text());
  }

  std::optional<Exit> set_command(Options& options) const {
    if (app_.got_subcommand("print")) options.command = Options::Command::kPrint;
    if (app_.got_subcommand("metrics-reference")) options.command = Options::Command::kMetricsReference;
    if (app_.got_subcommand("check-config")) {
      options.command = Options::Command::kCheckConfig;
      if (file_->count() == 0 || file_->results().front().empty()) {
        return refuse("check-config: found no file, allowed check-config FILE");
      }
      options.check_config_target = file_->results().front();
    }
    return {};
  }

  std::vector<std::string> values(const std::string& flag) const {
    std::vector<std::string> all;
    if (const CLI::Option* option = flags_.at(flag); option->count() > 0) all = option->results();
    all.insert(all.end(), static_cast<std::size_t>(std::count(empty_.begin(), empty_.end(), flag)), "");
    return all;
  }

  std::optional<Exit> set_flags(Options& options) const {
    for (const Setting& setting : config::settings()) {
      const std::string flag(setting.flag);
      const auto given = values(flag);
      if (given.empty()) continue;
      if (given.size() > 1 && setting.kind != Kind::kList) return refuse_repeated(flag, given);
      if (setting.clear != nullptr) setting.clear(options);
      for (const std::string& value : given) {
        if (const auto problem = setting.set(options, value)) return refuse(flag, *problem);
      }
      options.set_by_flag.push_back(flag);
    }
    for (const CollectorChoice& collector : collectors_) {
      const std::string flag = fmt::format("collector.{}", collector.name);
      const auto given = values(flag);
      if (given.empty()) continue;
      if (given.size() > 1) return refuse_repeated(flag, given);
      bool on = false;
      if (const auto problem = config::parse_switch(given.front(), on)) return refuse(flag, *problem);
      options.collectors[std::string(collector.name)] = on;
      options.set_by_flag.push_back(flag);
    }
    const auto format = values("format");
    if (format.size() > 1) return refuse_repeated("format", format);
    if (!format.empty()) {
      if (const auto problem = config::set_reference_format(options, format.front())) return refuse("format", *problem);
    }
    return {};
  }

  static Exit refuse_repeated(const std::string& flag, const std::vector<std::string>& given) {
    return refuse(
        flag,
        {fmt::format("{} values ({}, {})", given.size(), ticked(given[0]), ticked(given[1])), "the flag once", {}});
  }

  static std::optional<Exit> contradiction(const Options& options) {
    if (options.replay.empty()) return {};
    for (const std::string& flag : options.set_by_flag) {
      if (flag.starts_with("path.")) {
        return refuse("replay", {"--" + flag + " beside it", "only one of the two: a recording or this host", {}});
      }
    }
    return {};
  }

  const std::vector<CollectorChoice>& collectors_;
  CLI::App app_;
  CLI::Option* help_ = nullptr;
  CLI::Option* version_ = nullptr;
  CLI::Option* file_ = nullptr;
  std::map<std::string, CLI::Option*> flags_;
  std::vector<std::string> names_;
  std::vector<std::string> empty_;
};

}  // namespace

tl::expected<Options, Exit> parse_command_line(int argc, const char* const* argv,
                                               const std::vector<CollectorChoice>& collectors) {
  try {
    std::vector<std::string> arguments;
    for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
    auto options = CommandLine(collectors).parse(std::move(arguments));
    if (!options || options->config_file.empty()) return options;
    if (options->command != Options::Command::kServe && options->command != Options::Command::kPrint) return options;
    auto with_file = apply_config_file(options->config_file, *options, options->set_by_flag, collectors);
    if (!with_file) return tl::unexpected(refuse(with_file.error()));
    return std::move(*with_file);
  } catch (const std::exception& error) {
    return tl::unexpected(refuse(config::one_line(error.what(), 200)));
  }
}

Exit check_config(const std::string& file, const std::vector<CollectorChoice>& collectors) {
  const auto options = apply_config_file(file, Options(), {}, collectors);
  if (!options) return Exit{2, {}, options.error() + "\n"};
  return Exit{0, config::one_line(file, 4096) + ": ok\n", {}};
}

}  // namespace roce

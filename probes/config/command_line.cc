// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "exporter/config/flags.h"
#include "exporter/config/help.h"
#include "exporter/config/values.h"
#include "probes/config/options.h"
#include "probes/config/setting.h"

namespace roce::probe {
namespace {

using config::Flag;
using config::Kind;
using config::ParsedFlags;

constexpr std::string_view kProgram = "roce_prober";

Flag flag_of(const Setting& setting, std::vector<std::string> commands) {
  return {std::string(setting.flag), setting.kind,          std::string(setting.value), std::move(commands), {},
          std::string(setting.help), setting.get(Options())};
}

std::optional<Exit> apply(const ParsedFlags& parsed, std::span<const Setting> table, Options& options) {
  for (const Setting& setting : table) {
    const auto* given = setting.flag.empty() ? nullptr : parsed.find(setting.flag);
    if (given == nullptr) continue;
    if (setting.clear != nullptr) setting.clear(options);
    for (const std::string& value : *given)
      if (const auto problem = setting.set(options, value)) return config::refuse(kProgram, setting.flag, *problem);
    options.set_by_flag.emplace_back(setting.flag);
  }
  return {};
}

std::optional<Exit> set_command(const ParsedFlags& parsed, Options& options) {
  if (parsed.command == "ping") {
    options.command = Options::Command::kPing;
    options.ping.target = parsed.argument;
    if (const auto* format = parsed.find("format")) {
      static constexpr std::array<std::string_view, 2> kFormats{"text", "json"};
      if (format->front() != "text" && format->front() != "json")
        return config::refuse(kProgram, "format", config::not_one_of(format->front(), kFormats));
      options.ping.json = format->front() == "json";
    }
  } else if (parsed.command == "check-config") {
    options.command = Options::Command::kCheckConfig;
    options.check_config_target = parsed.argument;
  } else if (parsed.command == "metrics-reference") {
    options.command = Options::Command::kMetricsReference;
    if (const auto* format = parsed.find("format")) {
      static constexpr std::array<std::string_view, 2> kFormats{"markdown", "json"};
      if (format->front() != "markdown" && format->front() != "json")
        return config::refuse(kProgram, "format", config::not_one_of(format->front(), kFormats));
      options.reference_format = format->front();
    }
  }
  return {};
}

tl::expected<Options, Exit> read_arguments(std::vector<std::string> arguments) {
  std::vector<Flag> flags;
  for (const Setting& setting : settings())
    if (!setting.flag.empty()) flags.push_back(flag_of(setting, {}));
  for (const Setting& setting : ping_settings()) flags.push_back(flag_of(setting, {"ping"}));
  flags.push_back({"format", Kind::kText, "FORMAT", {"ping", "metrics-reference"}});
  const std::vector<config::Command> commands{
      {"serve"}, {"ping", "TARGET"}, {"check-config", "FILE"}, {"metrics-reference"}};
  auto parsed = config::parse_flags(kProgram, flags, commands, std::move(arguments));
  if (!parsed) return tl::unexpected(std::move(parsed).error());
  if (parsed->help) return tl::unexpected(Exit{0, help_text(), {}});
  if (parsed->version) return tl::unexpected(Exit{0, config::version_text(kProgram), {}});
  Options options;
  if (auto problem = set_command(*parsed, options)) return tl::unexpected(std::move(*problem));
  if (auto problem = apply(*parsed, settings(), options)) return tl::unexpected(std::move(*problem));
  if (auto problem = apply(*parsed, ping_settings(), options)) return tl::unexpected(std::move(*problem));
  if (auto problem = wrong_size(options.ping.kind, options.ping.size))
    return tl::unexpected(config::refuse(kProgram, "size", *problem));
  return options;
}

// The files that the flags and the configuration name.
tl::expected<Options, std::string> with_files(Options options) {
  if (!options.config_file.empty()) {
    auto read = apply_config_file(options.config_file, options);
    if (!read) return read;
    options = std::move(*read);
  }
  if (!options.keys_file.empty()) {
    auto keys = read_keys_file(options.keys_file);
    if (!keys) return tl::unexpected(std::move(keys).error());
    options.keys = std::move(*keys);
  }
  return options;
}

}  // namespace

tl::expected<Options, Exit> parse_command_line(int argc, const char* const* argv) {
  try {
    std::vector<std::string> arguments;
    for (int i = 1; i < argc; ++i) arguments.emplace_back(argv[i]);
    auto options = read_arguments(std::move(arguments));
    if (!options) return options;
    if (options->command != Options::Command::kServe && options->command != Options::Command::kPing) return options;
    auto complete = with_files(std::move(*options));
    if (!complete) return tl::unexpected(config::refuse(kProgram, complete.error()));
    return std::move(*complete);
  } catch (const std::exception& error) {
    return tl::unexpected(config::refuse(kProgram, config::one_line(error.what(), 200)));
  }
}

Exit check_config(const std::string& file) {
  Options options;
  options.config_file = file;
  const auto complete = with_files(std::move(options));
  if (!complete) return Exit{2, {}, complete.error() + "\n"};
  if (all_expired(complete->keys))
    return Exit{2,
                {},
                config::one_line(complete->keys_file, 4096) +
                    ": not_after of every key is over: nothing would be probed or answered\n"};
  return Exit{0, config::one_line(file, 4096) + ": ok\n", {}};
}

std::string help_text() {
  std::string out =
      "usage: roce_prober [FLAGS] [COMMAND]\n\n"
      "Measures latency, loss and congestion marks of the RDMA fabric between this node and others, and answers their\n"
      "probes.\n\n"
      "Commands (none: serve):\n"
      "  serve\n"
      "      Probe peers, answer them, publish metrics.\n"
      "  ping TARGET [--count --size --gap --qos --kind --max-median --max-p99 --max-loss ...]\n"
      "      Measure the round trip to one peer, by its name in the configuration or as HOST[:PORT].\n"
      "  check-config FILE\n"
      "      Check a configuration file, or a web configuration file, and say what is wrong with it.\n"
      "  metrics-reference [--format=markdown|json]\n"
      "      Describe every metric that can be published.\n\n";
  config::append_wrapped(out,
                         "A value follows its flag after = or a blank. A switch is turned on by --NAME or --NAME=true, "
                         "off by --no-NAME or --NAME=false. Everything else is set in the configuration file.",
                         0);
  std::string_view group;
  for (const Setting& setting : settings()) {
    if (setting.flag.empty()) continue;
    if (setting.group != group) {
      group = setting.group;
      out += fmt::format("\n{}:\n", group);
    }
    config::append_flag(out, flag_of(setting, {}));
  }
  out += "  --version\n      Show the version.\n  -h, --help\n      Show this help.\n\nOf ping:\n";
  for (const Setting& setting : ping_settings()) config::append_flag(out, flag_of(setting, {}));
  out += "  --format=text|json\n      How the result is written. Default: text.\n";
  return out;
}

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/help.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <string_view>

#include "exporter/base/version.h"
#include "exporter/config/setting.h"

namespace roce::config {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 6;

// A collector's description, which elsewhere stands in a table, as a sentence.
std::string sentence(std::string_view text) {
  std::string out(text);
  if (out.empty()) return out;
  if (out.front() >= 'a' && out.front() <= 'z') out.front() = static_cast<char>(out.front() - 'a' + 'A');
  if (!out.ends_with('.')) out += '.';
  return out;
}

}  // namespace

void append_wrapped(std::string& out, std::string_view text, std::size_t indent) {
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    if (column == 0) {
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
}

void append_flag(std::string& out, const Flag& flag) {
  out += fmt::format("  --{}", flag.name);
  if (flag.kind != Kind::kSwitch) out += fmt::format("={}", flag.value);
  out += '\n';
  append_wrapped(out, flag.by_default.empty() ? flag.help : fmt::format("{} Default: {}.", flag.help, flag.by_default),
                 kIndent);
}

std::string help_text(const std::vector<CollectorChoice>& collectors) {
  std::string out =
      "usage: roce_exporter [FLAGS] [COMMAND]\n\n"
      "Publishes the RDMA and RoCE state of this host for Prometheus.\n\n"
      "Commands (none: serve):\n";
  for (const CommandHelp& command : commands()) {
    out += fmt::format("  {}{}{}\n", command.name, command.arguments.empty() ? "" : " ", command.arguments);
    append_wrapped(out, command.help, kIndent);
    for (const CommandFlag& flag : command_flags()) {
      if (flag.command != command.name) continue;
      out += fmt::format("      --{}{}{}\n", flag.flag, flag.value.empty() ? "" : "=", flag.value);
      append_wrapped(out, flag.help, 2 * kIndent);
    }
  }
  out += '\n';
  append_wrapped(out,
                 "A value follows its flag after = or a blank. A switch is turned on by --NAME or --NAME=true, off by "
                 "--no-NAME or --NAME=false. Flags may stand before or after the command.",
                 0);
  const Options defaults;
  std::string_view group;
  const auto list_collectors = [&] {
    if (collectors.empty()) return;
    out += "\nCollectors, each with --collector.NAME and --no-collector.NAME:\n";
    for (const CollectorChoice& collector : collectors) {
      out += fmt::format("  --collector.{}\n", collector.name);
      append_wrapped(out, fmt::format("{} Default: {}.", sentence(collector.help), collector.by_default ? "on" : "off"),
                     kIndent);
    }
  };
  for (const Setting& setting : settings()) {
    if (setting.group != group) {
      if (group == "Collectors") list_collectors();
      group = setting.group;
      out += fmt::format("\n{}:\n", group == "Collectors" ? "What to collect" : group);
    }
    append_flag(out, {std::string(setting.flag),
                      setting.kind,
                      std::string(setting.value),
                      {},
                      {},
                      std::string(setting.help),
                      setting.get(defaults)});
  }
  out += "  --version\n      Show the version.\n  -h, --help\n      Show this help.\n";
  return out;
}

std::string version_text(std::string_view program) {
  struct utsname system{};
  std::string platform = "linux";
  if (::uname(&system) == 0) platform += fmt::format("/{}", system.machine);
#ifdef __clang__
  const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
  return fmt::format("{}, version {}\n  compiler:  {}\n  platform:  {}\n", program, kVersion, compiler, platform);
}

}  // namespace roce::config

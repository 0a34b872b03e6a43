// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cstdio>
#include <exception>

#include "exporter/base/leftovers.h"
#include "exporter/capture_command.h"
#include "exporter/catalog/reference.h"
#include "exporter/check_command.h"
#include "exporter/daemon.h"
#include "exporter/health/checks_reference.h"
#include "exporter/web/web_config.h"

namespace {

// A configuration file, a profile or a web configuration, by its first keys.
roce::Exit check_file(const std::string& file, const std::vector<roce::CollectorChoice>& choices) {
  if (auto exit = roce::web::check_web_config(file)) return std::move(*exit);
  if (!roce::is_profile_file(file)) return roce::check_config(file, choices);
  const auto profile = roce::read_profile(file);
  if (!profile) return {2, {}, profile.error() + "\n"};
  return {0, file + ": ok (profile)\n", {}};
}

int run(int argc, char** argv) {
  using roce::Options;
  const auto choices = roce::collector_choices();
  const auto options = roce::parse_command_line(argc, argv, choices);
  if (!options) {
    std::fputs(options.error().out.c_str(), stdout);
    std::fputs(options.error().err.c_str(), stderr);
    return options.error().code;
  }
  roce::log::set_level(options->log_level);
  roce::log::set_format(options->log_format);
  // serve() waits for its signals itself.
  if (options->command == Options::Command::kCapture ||
      (options->recorded() && options->command != Options::Command::kServe))
    roce::remove_leftovers_on_signals();
  switch (options->command) {
    case Options::Command::kPrint:
      return roce::print_once(*options);
    case Options::Command::kCheck:
      roce::check_once(*options);
    case Options::Command::kCapture:
      roce::capture_once(*options);
    case Options::Command::kProfileInit:
      roce::profile_init(*options);
    case Options::Command::kChecksReference:
      std::fputs(roce::checks_reference_markdown().c_str(), stdout);
      return 0;
    case Options::Command::kMetricsReference: {
      const std::string text =
          options->reference_format == "json" ? roce::metrics_reference_json() : roce::metrics_reference_markdown();
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    case Options::Command::kCheckConfig: {
      const roce::Exit result = check_file(options->check_config_target, choices);
      std::fputs(result.out.c_str(), stdout);
      std::fputs(result.err.c_str(), stderr);
      return result.code;
    }
    case Options::Command::kServe:
      break;
  }
  return roce::serve(*options, [&]() -> tl::expected<Options, std::string> {
    auto again = roce::parse_command_line(argc, argv, choices);
    if (again) return std::move(*again);
    std::string why = again.error().err;
    while (!why.empty() && why.back() == '\n') why.pop_back();
    return tl::unexpected(std::move(why));
  });
}

}  // namespace

int main(int argc, char** argv) {
  // One arena a thread would let the memory of pages pile up in each of the many, mostly idle, connection threads.
  mallopt(M_ARENA_MAX, 2);
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "roce_exporter: %s\n", e.what());
    return 2;
  }
}

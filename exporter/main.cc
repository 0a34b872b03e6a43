// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cstdio>
#include <exception>

#include "exporter/catalog/reference.h"
#include "exporter/daemon.h"

namespace {

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
  switch (options->command) {
    case Options::Command::kPrint:
      return roce::print_once(*options);
    case Options::Command::kMetricsReference: {
      const std::string text =
          options->reference_format == "json" ? roce::metrics_reference_json() : roce::metrics_reference_markdown();
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    case Options::Command::kCheckConfig: {
      const roce::Exit result = roce::check_config(options->check_config_target, choices);
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

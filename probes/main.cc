// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/web/web_config.h"
#include "probes/catalog/catalog.h"
#include "probes/config/options.h"
#include "probes/daemon.h"

namespace {

int run(int argc, char** argv) {
  using roce::probe::Options;
  const auto options = roce::probe::parse_command_line(argc, argv);
  if (!options) {
    std::fputs(options.error().out.c_str(), stdout);
    std::fputs(options.error().err.c_str(), stderr);
    return options.error().code;
  }
  roce::log::set_level(options->log_level);
  roce::log::set_format(options->log_format);
  switch (options->command) {
    case Options::Command::kMetricsReference: {
      const std::string text = options->reference_format == "json" ? roce::probe::metrics_reference_json()
                                                                   : roce::probe::metrics_reference_markdown();
      std::fputs(text.c_str(), stdout);
      return 0;
    }
    case Options::Command::kCheckConfig: {
      const std::string& file = options->check_config_target;
      auto of_web = roce::web::check_web_config(file);
      const roce::Exit result = of_web ? std::move(*of_web) : roce::probe::check_config(file);
      std::fputs(result.out.c_str(), stdout);
      std::fputs(result.err.c_str(), stderr);
      return result.code;
    }
    case Options::Command::kPing:
      return roce::probe::ping(*options);
    case Options::Command::kServe:
      break;
  }
  return roce::probe::serve(*options, [&]() -> tl::expected<Options, std::string> {
    auto again = roce::probe::parse_command_line(argc, argv);
    if (again) return std::move(*again);
    std::string why = again.error().err;
    while (!why.empty() && why.back() == '\n') why.pop_back();
    return tl::unexpected(std::move(why));
  });
}

}  // namespace

int main(int argc, char** argv) {
  mallopt(M_ARENA_MAX, 2);
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "roce_prober: %s\n", e.what());
    return 2;
  }
}

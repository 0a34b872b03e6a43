// SPDX-License-Identifier: Apache-2.0
//
// Wiring: from options to a host, an engine and a server; signals and reload.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "exporter/base/result.h"
#include "exporter/config/options.h"
#include "exporter/engine/engine.h"

namespace roce {

// Reads the command line and configuration file again; on failure the one line that says why.
using ReadOptions = std::function<tl::expected<Options, std::string>()>;

// The collectors as flags know them.
std::vector<CollectorChoice> collector_choices();

// The host that the options name: live kernel, made tree or recording.
Result<std::shared_ptr<const Host>> open_host(const Options& options);

EngineConfig engine_config(const Options& options);

// Ends the program at once. A worker may hang in the kernel for good; ordinary exit would run destructors under its
// feet.
[[noreturn]] void leave(int code);

// Serves until SIGTERM or SIGINT; exit code.
int serve(const Options& options, const ReadOptions& read_options);

// One page to stdout; exit code.
int print_once(const Options& options);

}  // namespace roce

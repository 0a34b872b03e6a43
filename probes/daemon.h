// SPDX-License-Identifier: Apache-2.0
//
// The commands of roce_prober that need an engine: serve and ping.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "probes/config/options.h"

namespace roce::probe {

using ReadOptions = std::function<tl::expected<Options, std::string>()>;

// Runs until SIGTERM or SIGINT; the exit code. SIGHUP reads the options again.
int serve(const Options& options, const ReadOptions& read_options);

// Measures the round trip to one peer: 0, 1 where nothing was measured or a limit was exceeded, 2 for bad input.
int ping(const Options& options);

// What the engine is told of these options on this host: names, devices, and whom the responder answers beside the
// peers where nothing is configured, which are the subnets of the devices.
EngineSettings engine_settings(const Options& options);

// Where the baselines are kept. A file that cannot be read is as good as none.
std::string load_baselines(const std::string& directory);
void save_baselines(const std::string& directory, const std::string& text);

}  // namespace roce::probe

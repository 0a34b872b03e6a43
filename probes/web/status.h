// SPDX-License-Identifier: Apache-2.0
//
// The page at `/` and the same for programs at /peers.json, where rotating peers are told one by one.
#pragma once

#include <string>
#include <string_view>

#include "probes/engine.h"

namespace roce::probe {

extern const std::string_view kStyle;  // of the page
std::string render_status(const EngineStats& stats, std::string_view telemetry_path, bool details);

// {"devices":[{device,port,state,error,blame,...}],"peers":[{device,port,peer,state,rotating,storage,classes:[...]}]}
std::string peers_json(const EngineStats& stats);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// Health reporters of a recording, in the output of `devlink -j health`: its file rdma/devlink_health.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/devlink.h"

namespace roce {

// A device that the file does not name is kAbsent, as where the kernel does not know it; without the file every call
// answers kNotRecorded.
std::unique_ptr<DevlinkSource> open_devlink_recording(const std::string& dir);

Result<std::vector<HealthReporter>> parse_devlink_health_json(std::string_view text);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// ethtool from a recording: what the tool printed on another host. Files are read at each call; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "exporter/base/result.h"
#include "exporter/kernel/ethtool.h"

namespace roce {

// `dir` holds any of
//   netdev/NAME/ethtool_S.txt   ethtool -S NAME
//   netdev/NAME/driver          the kernel driver's name
//   netdev/NAME/link.json       ethtool -I --json NAME
//   netdev/NAME/pause.json      ethtool -I --json --show-pause NAME
//   netdev/NAME/fec.json        ethtool -I --json --show-fec NAME
//   netdev/NAME/stats.json      ethtool --json -S NAME --all-groups
//   ethtool_S.txt               of the only network device, where netdev/ is not there
// What is not there answers kNotRecorded, what cannot be read kMalformed. The name of a device whose name was not
// recorded is empty.
Result<std::unique_ptr<EthtoolSource>> open_ethtool_recording(const std::string& dir);

}  // namespace roce

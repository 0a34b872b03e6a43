// SPDX-License-Identifier: Apache-2.0
//
// What netlink and ioctl answer, as text that replay reads: the output of `ethtool`, `dcb -j` and `rdma -d -j`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exporter/kernel/capture.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/ethtool.h"
#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"
#include "exporter/kernel/pseudonyms.h"

namespace roce {

std::string ethtool_statistics_text(const std::vector<NamedValue>& values);
std::string ethtool_link_json(const std::string& netdev, const EthtoolLink& link);
std::string ethtool_pause_json(const std::string& netdev, const EthtoolPause& pause);
std::string ethtool_fec_json(const std::string& netdev, const EthtoolFec& fec);
std::string ethtool_standard_statistics_json(const std::string& netdev, const std::vector<NamedValue>& values);
std::string dcb_json(const DcbState& state);

// Paths of the recording, by the host's own names, and their texts, with the stand-ins. What a source does not answer
// is not there.
std::vector<std::pair<std::string, std::string>> recorded_sources(const Host& host, const DeviceList& objects,
                                                                  const CaptureOptions& options, Pseudonyms& names);

}  // namespace roce

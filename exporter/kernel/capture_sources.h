// SPDX-License-Identifier: Apache-2.0
//
// What netlink and ioctl answer, as text that replay reads: the output of `ethtool`, `dcb -j` and `rdma -d -j`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exporter/kernel/capture.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/devlink.h"
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
std::string devlink_health_json(const std::vector<HealthReporter>& reporters);
// What `rdma statistic mode supported` and `rdma statistic mode` print of one port, one after the other.
std::string optional_counters_text(const std::string& device, std::uint32_t port,
                                   const std::vector<CounterStatus>& counters);

// Whether an error says that something is there that could not be read, which a recording has to tell.
constexpr bool is_failure(ErrorKind kind) {
  return kind != ErrorKind::kAbsent && kind != ErrorKind::kUnsupported && kind != ErrorKind::kNotRecorded;
}

// A file of a recording by the host's own names, and its text with the stand-ins, or why the host gave none.
struct RecordedSource {
  std::string path;
  Result<std::string> text;
};

// What a source does not offer is not there; what failed, or may not be read, is there with its error.
std::vector<RecordedSource> recorded_sources(const Host& host, const DeviceList& objects, const CaptureOptions& options,
                                             Pseudonyms& names);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// RDMA state from a recording: what the `rdma` tool printed on another host. Read once, then immutable: thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/rdma.h"

namespace roce {

// The counters in the output of `rdma statistic show` and `rdma statistic qp show`.
struct RecordedStatistics {
  struct Port {
    std::string device;
    std::uint32_t port = 0;
    std::vector<NamedValue> counters;  // of a name that occurs twice the first value
  };
  struct Set {
    std::string device;
    QpCounterSet set;
  };
  std::vector<Port> ports;
  std::vector<Set> sets;
};

// Text form: "link mlx5_0/1 name value name value ...", on any number of lines. A record with "cntn" is a per-QP set.
Result<RecordedStatistics> parse_rdma_statistic_text(std::string_view text);
// JSON form (-j).
Result<RecordedStatistics> parse_rdma_statistic_json(std::string_view text);

// What `rdma statistic mode supported` and `rdma statistic mode` print, in any order: the optional counters of a port.
using RecordedOptionalCounters = std::map<std::pair<std::string, std::uint32_t>, std::vector<CounterStatus>>;
Result<RecordedOptionalCounters> parse_rdma_statistic_mode(std::string_view text);

// `dir` holds any of
//   rdma/dev.json                                     rdma -d -j dev show
//   rdma/link.json                                    rdma -d -j link show
//   rdma/resource.json                                rdma -d -j resource show; also objects as in the next files
//   rdma/resource_{qp,cm_id,cq,mr,ctx}.json           rdma -d -j resource show qp, ...
//   rdma/statistic_mr.json                            rdma -d -j statistic show mr
//   rdma/statistic.txt, .json, or rdma_statistic.txt  rdma statistic show, -j, or the text in the folder itself
//   rdma/statistic_mode.txt                           rdma statistic mode supported; rdma statistic mode
//   rdma/system.txt, .json, or rdma_system.txt        rdma system show
// What is not there answers kNotRecorded, what cannot be read kMalformed, each call for itself. A device that only one
// of the files, or the class directory beside them, names exists. Devices are found by name, since not all files hold
// the index.
Result<std::unique_ptr<RdmaSource>> open_rdma_recording(const std::string& dir);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Text of /proc/driver/nvidia-fs/stats (GPUDirect Storage). A pure function over any text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roce {

struct NvidiaFsValue {
  std::string counter;  // GROUP/KEY without units in brackets: "Reads/readMiB", "GPU/Cache_MiB", "Active_Shadow-Buffer"
  std::string gpu;      // PCI address, for the group GPU
  std::uint64_t value = 0;
};

struct NvidiaFsStatistics {
  std::string version;                  // of the driver
  std::optional<bool> io_statistics;    // the driver counts requests and bytes
  std::optional<bool> peer_statistics;  // and traffic across root ports
  std::vector<NvidiaFsValue> values;    // each (counter, gpu) once: the first
};

// Lines "GROUP : key=value ..."; a line that only goes on with pairs belongs to the group before it.
NvidiaFsStatistics parse_nvidia_fs_statistics(std::string_view text);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Reading sysfs and procfs trees. All paths go through open(2) with their full text; nothing is written, nothing is
// created. Functions are thread-safe and keep no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

// The whole content, at most `limit` bytes (a longer file is kMalformed).
Result<std::string> read_file(const std::string& path, std::size_t limit = 65536);

// The trimmed content of a one-value attribute, without NULs at its end. Empty content is kUnsupported: drivers leave a
// file empty, or fill it with a text, when they have no value.
Result<std::string> read_attribute(const std::string& path);

// A decimal attribute. Text that says "no value here" ("N/A (no PMA)") is kUnsupported; any other non-number is
// kMalformed.
Result<std::uint64_t> read_u64(const std::string& path);

// Entry names without "." and "..", sorted so that eth2 comes before eth10.
Result<std::vector<std::string>> list_directory(const std::string& path);

// The last component of the link's target ("../../bus/pci/drivers/mlx5_core" gives "mlx5_core").
Result<std::string> link_basename(const std::string& path);

// The canonical absolute path.
Result<std::string> resolve(const std::string& path);

bool exists(const std::string& path);

// Orders names with numbers in them as people do.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace roce

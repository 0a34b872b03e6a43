// SPDX-License-Identifier: Apache-2.0
//
// Limits and use of a cgroup by the rdma and hugetlb controllers, versions 1 and 2. Nothing is mounted, created or
// written. Thread-safe, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/process.h"

namespace roce {

// One number of a controller file; nothing in `value` stands for "max".
struct CgroupValue {
  std::string object;    // device of the rdma controller, page size (2MB, 1GB) of hugetlb
  std::string resource;  // hca_handle, hca_object; empty for hugetlb
  Limit value;
};

// "mlx5_0 hca_handle=2 hca_object=max", a line a device. Unknown resources are kept; what is no number is passed over.
std::vector<CgroupValue> parse_rdma_controller(std::string_view text);

// "max" or bytes. Version 1 writes the greatest multiple of a page for "no limit".
std::optional<Limit> parse_cgroup_limit(std::string_view text);

struct CgroupUse {
  std::string path;  // of the cgroup that holds the files, below the controller's hierarchy
  std::vector<CgroupValue> limits;
  std::vector<CgroupValue> used;
  std::vector<CgroupValue> failures;  // hugetlb: times that an allocation met the limit
  bool denied = false;                // a file is there and may not be read
};

// The folders of these cgroups, and of those above them, where the readers below look; relative to the mount.
std::vector<std::string> cgroup_folders(const CgroupPaths& paths);

// The nearest cgroup, from `paths` up, that the controller manages; nothing when none does. `root`: the mount, usually
// /sys/fs/cgroup.
std::optional<CgroupUse> read_rdma_cgroup(const std::string& root, const CgroupPaths& paths);
std::optional<CgroupUse> read_hugetlb_cgroup(const std::string& root, const CgroupPaths& paths);

}  // namespace roce

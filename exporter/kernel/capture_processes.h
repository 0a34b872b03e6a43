// SPDX-License-Identifier: Apache-2.0
//
// What a recording keeps of a process that holds RDMA contexts: memory and its limits, where it belongs. Names of
// processes and cgroups become stand-ins; command line, environment and users are not read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporter/kernel/process.h"
#include "exporter/kernel/pseudonyms.h"

namespace roce {

// The lines of /proc/PID/limits and /proc/PID/status that collectors read.
std::string memlock_lines(std::string_view limits);
std::string memory_lines(std::string_view status);

// /proc/PID/cgroup with the hierarchies that collectors read.
std::string cgroup_lines(std::string_view text, Pseudonyms& names);

// Patterns of the files of these cgroups and of those above them, below sys/fs/cgroup.
std::vector<std::string> cgroup_files(const CgroupPaths& paths);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/capture_processes.h"

#include <array>

#include "exporter/base/parse.h"
#include "exporter/kernel/cgroup.h"

namespace roce {
namespace {

constexpr std::array<std::string_view, 8> kFiles = {
    "rdma.current",     "rdma.max",          "hugetlb.*.current",        "hugetlb.*.max",
    "hugetlb.*.events", "hugetlb.*.failcnt", "hugetlb.*.limit_in_bytes", "hugetlb.*.usage_in_bytes"};

template <std::size_t N>
std::string lines_that_begin(std::string_view text, const std::array<std::string_view, N>& beginnings) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    for (const std::string_view beginning : beginnings)
      if (line.starts_with(beginning)) out += std::string(line) + '\n';
  }
  return out;
}

}  // namespace

std::string memlock_lines(std::string_view limits) {
  return lines_that_begin<2>(limits, {"Limit ", "Max locked memory"});
}

std::string memory_lines(std::string_view status) {
  return lines_that_begin<4>(status, {"VmPin:", "VmLck:", "HugetlbPages:", "CapEff:"});
}

std::string cgroup_lines(std::string_view text, Pseudonyms& names) {
  const CgroupPaths paths = parse_cgroup_paths(text);
  std::string out;
  // The numbers of hierarchies mean nothing but that 0 is version 2.
  if (!paths.hugetlb.empty()) out += "3:hugetlb:" + names.cgroup(paths.hugetlb) + '\n';
  if (!paths.rdma.empty()) out += "2:rdma:" + names.cgroup(paths.rdma) + '\n';
  if (!paths.systemd.empty()) out += "1:name=systemd:" + names.cgroup(paths.systemd) + '\n';
  if (!paths.unified.empty()) out += "0::" + names.cgroup(paths.unified) + '\n';
  return out;
}

std::vector<std::string> cgroup_files(const CgroupPaths& paths) {
  std::vector<std::string> out;
  for (const std::string& folder : cgroup_folders(paths))
    for (const std::string_view file : kFiles) out.push_back("sys/fs/cgroup" + folder + "/" + std::string(file));
  return out;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Texts of procfs, cgroups and systemd about memory. Whatever comes in, the outcome is a value or an error, and no path
// leads out of the tree.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "exporter/kernel/cgroup.h"
#include "exporter/kernel/memory.h"
#include "exporter/kernel/process.h"
#include "exporter/kernel/service_manager.h"
#include "tests/fuzz/require.h"

namespace {

void require_inside(std::string_view path) {
  require(path.empty() || path.front() == '/');
  require(path.find("/../") == std::string_view::npos && !path.ends_with("/.."));
  require(path.find('\0') == std::string_view::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto limit = roce::parse_memlock_limit(input); !limit) require(!limit.error().object.empty());
  (void)roce::parse_process_status(input).ipc_lock();
  const roce::CgroupPaths paths = roce::parse_cgroup_paths(input);
  for (const auto& path : {paths.unified, paths.rdma, paths.hugetlb, paths.systemd}) require_inside(path);
  const roce::CgroupIdentity identity = roce::parse_cgroup_identity(input);
  require(identity.container.empty() || identity.container.size() == 64);
  for (const auto& value : roce::parse_rdma_controller(input))
    require(!value.object.empty() && !value.resource.empty());
  (void)roce::parse_cgroup_limit(input);
  require(roce::selected_word(input).size() <= input.size());
  (void)roce::number_of_line(input, "HugePages_Total");
  if (const auto bytes = roce::huge_page_size(input)) require(*bytes >= 1024 && !roce::huge_page_label(*bytes).empty());
  if (const auto memory = roce::parse_shared_memory(input)) require(memory->orphaned.value_or(0) <= memory->segments);
  if (const auto limit = roce::parse_systemd_limit(input); limit && limit->hard)
    require(limit->soft && *limit->soft <= *limit->hard);
  (void)roce::parse_systemd_setting(input, "DefaultLimitMEMLOCK");
  return 0;
}

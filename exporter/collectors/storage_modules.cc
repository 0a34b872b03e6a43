// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/storage_modules.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::array<std::string_view, 15> kModules{
    "nvme_rdma",   "nvmet_rdma", "rpcrdma", "ib_iser",  "ib_isert",       "ib_srp",      "ib_srpt",  "rtrs_client",
    "rtrs_server", "smbdirect",  "ksmbd",   "ko2iblnd", "nvidia_peermem", "nv_peer_mem", "nvidia_fs"};
constexpr std::size_t kModulesLimit = std::size_t{1} << 20;

// "name size uses users state address": module -> uses. Empty where the file is not there.
std::map<std::string, std::uint64_t, std::less<>> uses_by_module(const std::string& path) {
  std::map<std::string, std::uint64_t, std::less<>> uses;
  const auto text = read_file(path, kModulesLimit);
  if (!text) return uses;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    std::array<std::string_view, 3> words{};
    for (std::string_view& word : words) {
      line = trim(line);
      const auto blank = line.find(' ');
      word = line.substr(0, blank);
      line.remove_prefix(blank == std::string_view::npos ? line.size() : blank);
    }
    if (const auto count = parse_u64(words[2])) uses.emplace(words[0], *count);
  }
  return uses;
}

class StorageModulesCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "sysfs_modules", "");
    const auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    std::optional<Error> failed;
    std::optional<std::map<std::string, std::uint64_t, std::less<>>> listed;
    for (std::string_view module : kModules) {
      const std::string dir = host().sysfs + "/module/" + std::string(module);
      const auto references = read_u64(dir + "/refcnt");
      if (references) {
        part->samples.add(metric::storage_module_references, {module}, *references);
        continue;
      }
      if (references.error().kind != ErrorKind::kAbsent) {
        failed = references.error();
        continue;
      }
      // Kernels that cannot unload modules count no references in sysfs, and a recording may hold the list alone.
      if (!listed) listed = uses_by_module(host().procfs + "/modules");
      if (const auto found = listed->find(module); found != listed->end())
        part->samples.add(metric::storage_module_references, {module}, found->second);
    }
    if (!part->samples.samples().empty()) out.parts.push_back(part);
    if (failed) return tl::unexpected(*failed);
    return {};
  }
};

}  // namespace

std::unique_ptr<Collector> make_storage_modules_collector(const CollectorContext& context) {
  return std::make_unique<StorageModulesCollector>(context);
}

}  // namespace roce

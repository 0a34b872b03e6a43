// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/cgroup.h"

#include <algorithm>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Above this a version 1 limit is the counter's top, less what rounds it to a page.
constexpr std::uint64_t kNoLimit = 0x7fffffff00000000;

std::string_view next_part(std::string_view& text, char separator) {
  const auto end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// Directories from `path` up to below the root of the hierarchy, nearest first.
std::vector<std::string> chain(std::string_view path) {
  std::vector<std::string> all;
  while (path.size() > 1) {
    all.emplace_back(path);
    const auto slash = path.rfind('/');
    if (slash == std::string_view::npos) break;
    path = path.substr(0, slash);
  }
  return all;
}

struct Hierarchy {
  std::string mount;
  std::string path;
  bool unified = false;
};

// Where the controller may manage the process: version 2 first.
std::vector<Hierarchy> hierarchies(const std::string& root, const CgroupPaths& paths, const std::string& controller,
                                   const std::string& path) {
  std::vector<Hierarchy> all;
  if (!paths.unified.empty()) {
    all.push_back({root, paths.unified, true});
    all.push_back({root + "/unified", paths.unified, true});
  }
  if (!path.empty()) all.push_back({root + "/" + controller, path, false});
  return all;
}

std::optional<std::string> take(const std::string& path, CgroupUse& use) {
  auto text = read_file(path);
  if (text) return std::move(*text);
  if (text.error().kind == ErrorKind::kDenied) use.denied = true;
  return std::nullopt;
}

// "hugetlb.2MB.current" gives 2MB.
std::string page_size(std::string_view file, std::string_view suffix) {
  constexpr std::string_view kPrefix = "hugetlb.";
  if (!file.starts_with(kPrefix) || !file.ends_with(suffix)) return {};
  file.remove_prefix(kPrefix.size());
  file.remove_suffix(suffix.size());
  return file.find('.') == std::string_view::npos ? std::string(file) : std::string();
}

void add_hugetlb(const std::string& dir, const std::string& size, bool unified, CgroupUse& use) {
  const std::string base = dir + "/hugetlb." + size + ".";
  const auto add = [&](const char* file, std::vector<CgroupValue>& out) {
    const auto text = take(base + file, use);
    if (const auto value = text ? parse_cgroup_limit(*text) : std::nullopt) out.push_back({size, {}, *value});
  };
  add(unified ? "current" : "usage_in_bytes", use.used);
  add(unified ? "max" : "limit_in_bytes", use.limits);
  if (!unified) return add("failcnt", use.failures);
  if (auto text = take(base + "events", use)) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = next_part(rest, '\n');
      if (next_part(line, ' ') != "max") continue;
      if (const auto count = parse_u64(line)) use.failures.push_back({size, {}, *count});
    }
  }
}

}  // namespace

std::vector<CgroupValue> parse_rdma_controller(std::string_view text) {
  std::vector<CgroupValue> all;
  while (!text.empty()) {
    std::string_view line = trim(next_part(text, '\n'));
    const std::string_view device = next_part(line, ' ');
    while (!line.empty()) {
      std::string_view word = next_part(line, ' ');
      const std::string_view resource = next_part(word, '=');
      const auto value = parse_cgroup_limit(word);
      if (!device.empty() && !resource.empty() && value)
        all.push_back({std::string(device), std::string(resource), *value});
    }
  }
  return all;
}

std::optional<Limit> parse_cgroup_limit(std::string_view text) {
  if (trim(text) == "max") return Limit();
  const auto value = parse_u64(text);
  if (!value) return std::nullopt;
  return *value >= kNoLimit ? Limit() : Limit(*value);
}

std::vector<std::string> cgroup_folders(const CgroupPaths& paths) {
  std::vector<std::string> folders;
  for (const auto& [controller, path] : {std::pair("rdma", &paths.rdma), std::pair("hugetlb", &paths.hugetlb)})
    for (const Hierarchy& hierarchy : hierarchies("", paths, controller, *path))
      for (const std::string& each : chain(hierarchy.path)) folders.push_back(hierarchy.mount + each);
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

std::optional<CgroupUse> read_rdma_cgroup(const std::string& root, const CgroupPaths& paths) {
  for (const Hierarchy& hierarchy : hierarchies(root, paths, "rdma", paths.rdma)) {
    for (const std::string& path : chain(hierarchy.path)) {
      const std::string dir = hierarchy.mount + path;
      if (!exists(dir + "/rdma.current")) continue;
      CgroupUse use;
      use.path = path;
      if (const auto text = take(dir + "/rdma.current", use)) use.used = parse_rdma_controller(*text);
      if (const auto text = take(dir + "/rdma.max", use)) use.limits = parse_rdma_controller(*text);
      return use;
    }
  }
  return std::nullopt;
}

std::optional<CgroupUse> read_hugetlb_cgroup(const std::string& root, const CgroupPaths& paths) {
  for (const Hierarchy& hierarchy : hierarchies(root, paths, "hugetlb", paths.hugetlb)) {
    const std::string_view suffix = hierarchy.unified ? ".current" : ".usage_in_bytes";
    for (const std::string& path : chain(hierarchy.path)) {
      const std::string dir = hierarchy.mount + path;
      const auto files = list_directory(dir);
      if (!files) continue;
      CgroupUse use;
      use.path = path;
      bool managed = false;
      for (const std::string& file : *files) {
        const std::string size = page_size(file, suffix);
        if (size.empty()) continue;
        managed = true;
        add_hugetlb(dir, size, hierarchy.unified, use);
      }
      if (managed) return use;
    }
  }
  return std::nullopt;
}

}  // namespace roce

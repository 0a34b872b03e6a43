// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/hugepages.h"

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/memory.h"

namespace roce {
namespace {

class HugepagesCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    FailureNote failures;
    if (!add_pool(part->samples, failures)) add_default_size(part->samples, failures);
    add_nodes(part->samples, failures);
    for (const auto& other : device().devices)
      if (other->kind == ObjectKind::kRdma && !other->numa_node.empty())
        part->samples.add(metric::numa_device_info, {other->numa_node, other->name}, 1);
    add_transparent(part->samples);
    add_vmstat(part->samples, failures);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures.conclude();
  }

 private:
  // Adds one file's number of pages; gives it back.
  static std::optional<std::uint64_t> add(const std::string& path, const MetricDesc& metric,
                                          std::initializer_list<std::string_view> labels, SampleBatch& samples,
                                          FailureNote& failures) {
    const auto pages = read_u64(path);
    if (!pages) {
      failures.note(pages.error());
      return std::nullopt;
    }
    samples.add(metric, labels, *pages);
    return *pages;
  }

  static void add_bytes(const MetricDesc& metric, std::string_view label, std::optional<std::uint64_t> pages,
                        std::uint64_t size, SampleBatch& samples) {
    std::uint64_t bytes = 0;
    if (pages && !__builtin_mul_overflow(*pages, size, &bytes)) samples.add(metric, {label}, bytes);
  }

  // Names of hugepages-*kB directories with the size that each stands for.
  static std::vector<std::pair<std::string, std::uint64_t>> sizes_in(const std::string& dir, FailureNote& failures) {
    std::vector<std::pair<std::string, std::uint64_t>> sizes;
    const auto names = list_directory(dir);
    if (!names) {
      failures.note(names.error());
      return sizes;
    }
    for (const std::string& name : *names)
      if (const auto size = huge_page_size(name)) sizes.emplace_back(name, *size);
    return sizes;
  }

  bool add_pool(SampleBatch& samples, FailureNote& failures) const {
    const std::string dir = host().sysfs + "/kernel/mm/hugepages";
    const auto sizes = sizes_in(dir, failures);
    for (const auto& [name, size] : sizes) {
      const std::string label = huge_page_label(size);
      const std::string base = dir + "/" + name + "/";
      const auto allocated = add(base + "nr_hugepages", metric::hugepages_allocated, {label}, samples, failures);
      const auto free = add(base + "free_hugepages", metric::hugepages_free, {label}, samples, failures);
      add(base + "resv_hugepages", metric::hugepages_reserved, {label}, samples, failures);
      add(base + "surplus_hugepages", metric::hugepages_surplus, {label}, samples, failures);
      add(base + "nr_overcommit_hugepages", metric::hugepages_overcommit_limit, {label}, samples, failures);
      add_bytes(metric::hugepages_bytes, label, allocated, size, samples);
      add_bytes(metric::hugepages_free_bytes, label, free, size, samples);
    }
    return !sizes.empty();
  }

  // HugePages_* of meminfo are of the default size alone.
  void add_default_size(SampleBatch& samples, FailureNote& failures) const {
    const auto text = read_file(host().procfs + "/meminfo");
    if (!text) return failures.note(text.error());
    const auto kilobytes = number_of_line(*text, "Hugepagesize");
    // Kernels without huge pages have that of all memory.
    if (!kilobytes && !number_of_line(*text, "MemTotal") && !trim(*text).empty())
      failures.note(Error{ErrorKind::kMalformed, 0, host().procfs + "/meminfo"});
    if (!kilobytes || *kilobytes == 0 || *kilobytes > (std::uint64_t{1} << 40)) return;
    const std::uint64_t size = *kilobytes * 1024;
    const std::string label = huge_page_label(size);
    const auto add_line = [&](const char* name, const MetricDesc& metric) {
      const auto pages = number_of_line(*text, name);
      if (pages) samples.add(metric, {label}, *pages);
      return pages;
    };
    const auto allocated = add_line("HugePages_Total", metric::hugepages_allocated);
    const auto free = add_line("HugePages_Free", metric::hugepages_free);
    add_line("HugePages_Rsvd", metric::hugepages_reserved);
    add_line("HugePages_Surp", metric::hugepages_surplus);
    add_bytes(metric::hugepages_bytes, label, allocated, size, samples);
    add_bytes(metric::hugepages_free_bytes, label, free, size, samples);
  }

  void add_nodes(SampleBatch& samples, FailureNote& failures) const {
    const std::string dir = host().sysfs + "/devices/system/node";
    const auto names = list_directory(dir);
    if (!names) return failures.note(names.error());
    for (const std::string& name : *names) {
      constexpr std::string_view kPrefix = "node";
      if (!name.starts_with(kPrefix)) continue;
      const std::string node = name.substr(kPrefix.size());
      if (!parse_u64(node) || node.front() == ' ') continue;
      const std::string node_dir = dir + "/" + name + "/hugepages";
      for (const auto& [pages, size] : sizes_in(node_dir, failures)) {
        const std::string label = huge_page_label(size);
        const std::string base = node_dir + "/" + pages + "/";
        add(base + "nr_hugepages", metric::numa_hugepages_allocated, {node, label}, samples, failures);
        add(base + "free_hugepages", metric::numa_hugepages_free, {node, label}, samples, failures);
        add(base + "surplus_hugepages", metric::numa_hugepages_surplus, {node, label}, samples, failures);
      }
    }
  }

  void add_transparent(SampleBatch& samples) const {
    const std::string dir = host().sysfs + "/kernel/mm/transparent_hugepage/";
    const auto mode = [&dir](const char* file) {
      return std::string(selected_word(read_attribute(dir + file).value_or("")));
    };
    const std::string enabled = mode("enabled");
    if (enabled.empty()) return;
    samples.add(metric::transparent_hugepages_info, {enabled, mode("defrag"), mode("shmem_enabled")}, 1);
  }

  void add_vmstat(SampleBatch& samples, FailureNote& failures) const {
    const auto text = read_file(host().procfs + "/vmstat");
    if (!text) return failures.note(text.error());
    const auto add_line = [&](const char* name, const MetricDesc& metric, std::string_view label) {
      if (const auto count = number_of_line(*text, name)) samples.add(metric, {label}, *count);
    };
    add_line("htlb_buddy_alloc_success", metric::hugepage_allocations, "success");
    add_line("htlb_buddy_alloc_fail", metric::hugepage_allocations, "failed");
    add_line("nr_foll_pin_acquired", metric::memory_pins, "acquired");
    add_line("nr_foll_pin_released", metric::memory_pins, "released");
  }
};

}  // namespace

std::unique_ptr<Collector> make_hugepages_collector(const CollectorContext& context) {
  return std::make_unique<HugepagesCollector>(context);
}

}  // namespace roce

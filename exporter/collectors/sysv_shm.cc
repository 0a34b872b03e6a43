// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/sysv_shm.h"

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/memory.h"

namespace roce {
namespace {

// The kernel allows at most 32768 segments, each a line of less than 200 characters.
constexpr std::size_t kSmallTable = std::size_t{1} << 18;
constexpr std::size_t kLargestTable = std::size_t{8} << 20;

class SysvShmCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    Result<void> result;
    const auto note = [&result](const Error& error) {
      if (error.kind != ErrorKind::kAbsent && result) result = tl::unexpected<Error>(error);
    };
    const std::string table = host().procfs + "/sysvipc/shm";
    auto text = read_file(table, kSmallTable);
    if (!text && text.error().kind == ErrorKind::kMalformed) text = read_file(table, kLargestTable);
    if (!text) {
      note(text.error());
    } else if (const auto memory = parse_shared_memory(*text)) {
      part->samples.add(metric::sysv_shm_segments, {}, memory->segments);
      if (memory->orphaned) part->samples.add(metric::sysv_shm_orphaned, {}, *memory->orphaned);
      if (memory->bytes) part->samples.add(metric::sysv_shm_bytes, {}, *memory->bytes);
    } else {
      note(memory.error());
    }
    const auto add_limit = [&](const char* file, const MetricDesc& metric) {
      const auto limit = read_u64(host().procfs + "/sys/kernel/" + file);
      if (limit)
        part->samples.add(metric, {}, *limit);
      else
        note(limit.error());
    };
    add_limit("shmmni", metric::sysv_shm_segments_limit);
    add_limit("shmmax", metric::sysv_shm_segment_limit);
    add_limit("shmall", metric::sysv_shm_limit_pages);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return result;
  }
};

}  // namespace

std::unique_ptr<Collector> make_sysv_shm_collector(const CollectorContext& context) {
  return std::make_unique<SysvShmCollector>(context);
}

}  // namespace roce

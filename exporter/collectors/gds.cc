// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/gds.h"

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/counter_history.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/nvidia_fs.h"

namespace roce {
namespace {

// The published value of a counter: exact while it is a whole number of 64 bits.
Value scaled(const CounterRow& row, std::uint64_t raw) {
  if (row.divide == 1 && raw <= std::numeric_limits<std::uint64_t>::max() / row.multiply) return raw * row.multiply;
  return static_cast<double>(raw) * row.multiply / row.divide;
}

class GdsCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "procfs_nvidia_fs", "");
    const std::string dir = host().procfs + "/driver/nvidia-fs";
    const auto text = read_file(dir + "/stats");
    const auto version = read_attribute(dir + "/version");
    const auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    NvidiaFsStatistics statistics;
    if (text) statistics = parse_nvidia_fs_statistics(*text);
    std::string driver = statistics.version;
    if (driver.empty() && version) driver = trim(text_after_colon(*version));
    if (text || version) part->samples.add(metric::gds_info, {driver}, 1);
    add(statistics, part->samples);
    if (!part->samples.samples().empty()) out.parts.push_back(part);
    for (const auto* result : {&text, &version})
      if (!*result && result->error().kind != ErrorKind::kAbsent && result->error().kind != ErrorKind::kUnsupported)
        return tl::unexpected(result->error());
    return {};
  }

 private:
  void add(const NvidiaFsStatistics& statistics, SampleBatch& batch) {
    if (statistics.io_statistics) batch.add(metric::gds_statistics_enabled, {"io"}, *statistics.io_statistics);
    if (statistics.peer_statistics) batch.add(metric::gds_statistics_enabled, {"peer"}, *statistics.peer_statistics);
    for (const NvidiaFsValue& value : statistics.values) {
      const CounterRow* row = find_counter("nvidia-fs", Interface::kOther, value.counter);
      if (row == nullptr || row->metric == nullptr) continue;
      // The driver prints these also where it does not count them.
      if (row->metric == &metric::gds_in_flight && statistics.io_statistics == false) continue;
      std::vector<std::string_view> labels;
      if (row->metric->labels.starts_with("gpu")) labels.push_back(value.gpu);
      labels.insert(labels.end(), row->values.span().begin(), row->values.span().end());
      const bool wraps = row->at_top == AtTop::kWraps;
      const std::uint64_t raw = wraps ? histories_[row].next(value.value, row->width).value : value.value;
      batch.add(*row->metric, labels, scaled(*row, raw));
    }
  }

  std::map<const CounterRow*, CounterHistory> histories_;  // of the driver's 32-bit counters, all of the host
};

}  // namespace

std::unique_ptr<Collector> make_gds_collector(const CollectorContext& context) {
  return std::make_unique<GdsCollector>(context);
}

}  // namespace roce

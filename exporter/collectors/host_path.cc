// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/host_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/wrapping_cells.h"
#include "exporter/kernel/cpu_tables.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20U;

class HostPathCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "proc_host_path", "");
    auto part = std::make_shared<Part>();
    read_softirqs(*part);
    read_softnet(*part);
    read_cpu_times(*part);
    read_pressure(*part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures_.conclude();
  }

 private:
  // The text of a file below /proc; one that this kernel does not have is no failure.
  std::optional<std::string> text_of(const char* file) {
    return failures_.value(read_file(host().procfs + "/" + file, kMostBytes));
  }

  void malformed(const char* file) { failures_.note({ErrorKind::kMalformed, 0, host().procfs + "/" + file}); }

  void read_softirqs(Part& part) {
    const auto text = text_of("softirqs");
    if (!text) return;
    const CpuTable table = parse_cpu_table(*text);
    if (table.rows.empty()) malformed("softirqs");
    for (const CpuTable::Row& row : table.rows) {
      if (row.counts.empty() || (row.name != "IRQ_POLL" && row.name != "NET_RX" && row.name != "TASKLET")) continue;
      WrappingCells& cells = softirqs_[std::string(row.name)];
      cells.next(table.cpus, row.counts);
      part.samples.add(metric::softirqs, {row.name}, cells.total());
    }
  }

  void read_softnet(Part& part) {
    const auto text = text_of("net/softnet_stat");
    if (!text) return;
    const auto rows = parse_softnet(*text);
    if (rows.empty()) {
      malformed("net/softnet_stat");
      return;
    }
    std::vector<std::uint32_t> cpus;
    std::vector<std::uint64_t> processed, dropped, squeezes;
    for (const SoftnetRow& row : rows) {
      cpus.push_back(row.cpu);
      processed.push_back(row.processed);
      dropped.push_back(row.dropped);
      squeezes.push_back(row.time_squeezes);
    }
    processed_.next(cpus, processed);
    dropped_.next(cpus, dropped);
    squeezes_.next(cpus, squeezes);
    part.samples.add(metric::softnet_processed, {}, processed_.total());
    part.samples.add(metric::softnet_dropped, {}, dropped_.total());
    part.samples.add(metric::softnet_time_squeezes, {}, squeezes_.total());
  }

  void read_cpu_times(Part& part) {
    const auto text = text_of("stat");
    if (!text) return;
    std::optional<double> busiest;
    for (const CpuTime& now : parse_cpu_times(*text)) {
      CpuTime& before = times_[now.cpu];
      // Idle time can step back a little; then this CPU has no share this time.
      if (now.all > before.all && now.interrupt >= before.interrupt) {
        const double share =
            static_cast<double>(now.interrupt - before.interrupt) / static_cast<double>(now.all - before.all);
        busiest = std::max(busiest.value_or(0), std::min(share, 1.0));
      }
      before = now;
    }
    if (busiest) part.samples.add(metric::cpu_busiest_interrupt, {}, *busiest);
  }

  void read_pressure(Part& part) {
    const auto text = text_of("pressure/cpu");
    if (!text) return;
    if (const auto microseconds = parse_pressure_total(*text))
      part.samples.add(metric::cpu_pressure, {}, static_cast<double>(*microseconds) / 1e6);
    else
      malformed("pressure/cpu");
  }

  std::map<std::string, WrappingCells, std::less<>> softirqs_;
  WrappingCells processed_, dropped_, squeezes_;
  std::map<std::uint32_t, CpuTime> times_;
  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_host_path_collector(const CollectorContext& context) {
  return std::make_unique<HostPathCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Texts and bytes of the host: per-CPU tables, kernel log records, PCI configuration space, devlink messages.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "exporter/collectors/interrupts.h"
#include "exporter/collectors/kernel_log.h"
#include "exporter/kernel/cpu_tables.h"
#include "exporter/kernel/devlink.h"
#include "exporter/kernel/kernel_log.h"
#include "exporter/kernel/pci.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roce;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const CpuTable table = parse_cpu_table(text);
  for (const CpuTable::Row& row : table.rows) {
    if (row.counts.size() > table.cpus.size()) std::abort();
    (void)is_completion_vector(row.text);
  }
  const auto cpus = parse_cpu_list(text);
  if (!std::is_sorted(cpus.begin(), cpus.end()) || cpus.size() > kMostCpus) std::abort();
  for (const SoftnetRow& row : parse_softnet(text))
    if (row.cpu >= kMostCpus) std::abort();
  (void)parse_cpu_times(text);
  (void)parse_pressure_total(text);
  if (const auto reporter = parse_health_reporter(std::as_bytes(std::span(data, size)));
      reporter && reporter->name.empty())
    std::abort();
  KernelRecord record;
  if (parse_kernel_record(text, record)) (void)classify_kernel_message(record.text);
  if (const auto speed = parse_link_speed(text); speed && *speed > 10'000'000'000'000) std::abort();
  const auto config = parse_pci_config(
      [&](std::size_t offset, std::span<std::uint8_t> out) -> Result<std::size_t> {
        if (offset >= size) return std::size_t{0};
        const std::size_t n = std::min(out.size(), size - offset);
        std::copy_n(data + offset, n, out.begin());
        return n;
      },
      "config");
  if (config && config->settings && config->settings->max_payload.value_or(128) > 4096) std::abort();
  return 0;
}

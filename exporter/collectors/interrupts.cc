// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/interrupts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/wrapping_cells.h"
#include "exporter/kernel/cpu_tables.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/pci.h"

namespace roce {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
constexpr std::size_t kMostText = 256;
constexpr auto kLookAgain = std::chrono::seconds(60);

// The last word: "3-edge mlx5_comp0@pci:0000:3b:00.0". Users that share a line are separated by commas and blanks.
std::string_view vector_name(std::string_view text) {
  const auto blank = text.find_last_of(" \t");
  return blank == std::string_view::npos ? text : text.substr(blank + 1);
}

class InterruptsCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "proc_interrupts", "");
    const auto now = Part::Clock::now();
    look_up(now);
    if (sources_.empty()) return {};
    const auto text = read_file(host().procfs + "/interrupts", kMostBytes);
    if (!text) {
      if (text.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(text.error());
    }
    for (auto& [name, source] : sources_) source.begin();
    const CpuTable table = parse_cpu_table(*text, [this](std::string_view number, std::string_view rest) {
      return is_completion_vector(vector_name(trim(rest))) && owner(number, rest) != nullptr;
    });
    for (const CpuTable::Row& row : table.rows)
      if (Source* source = owner(row.name, row.text); source != nullptr && !row.counts.empty())
        source->take(row, table.cpus);
    auto part = std::make_shared<Part>();
    for (auto& [name, source] : sources_) source.publish(name, *part);
    part->read_at = now;
    out.parts.push_back(std::move(part));
    return {};
  }

 private:
  struct Vector {
    std::string name;
    WrappingCells cells;
    bool seen = false;
  };

  // One device.
  struct Source {
    std::set<std::string, std::less<>> lines;  // IRQ numbers
    std::string address;                       // which chips and drivers put into the text of a line
    std::set<std::uint32_t> local;             // CPUs of its NUMA node
    bool node_known = false;

    std::map<std::string, Vector, std::less<>> vectors;  // by IRQ number
    std::map<std::uint32_t, std::uint64_t> steps;        // by CPU, since the last collection
    std::uint64_t at_home = 0, elsewhere = 0;

    bool owns(std::string_view number, std::string_view rest) const {
      if (lines.contains(number)) return true;
      if (address.empty()) return false;
      // The counts before the text can be thousands of bytes.
      return rest.substr(rest.size() - std::min(rest.size(), kMostText)).find(address) != std::string_view::npos;
    }

    void begin() {
      steps.clear();
      for (auto& [number, vector] : vectors) vector.seen = false;
    }

    void take(const CpuTable::Row& row, const std::vector<std::uint32_t>& cpus) {
      Vector& vector = vectors.try_emplace(std::string(row.name)).first->second;
      const std::string_view name = vector_name(row.text);
      // The number was given to another vector, whose counts begin anew.
      if (vector.name != name) vector = Vector{std::string(name), {}, false};
      vector.seen = true;
      const auto added = vector.cells.next(cpus, row.counts);
      for (std::size_t i = 0; i < added.size(); ++i) {
        if (added[i] == 0) continue;
        steps[cpus[i]] += added[i];
        (local.contains(cpus[i]) ? at_home : elsewhere) += added[i];
      }
    }

    void publish(const std::string& device, Part& part) {
      std::erase_if(vectors, [](const auto& entry) { return !entry.second.seen; });
      if (vectors.empty()) return;
      part.samples.add(metric::completion_vectors, {device}, std::uint64_t{vectors.size()});
      if (node_known) {
        part.samples.add(metric::completion_interrupts, {device, "local"}, at_home);
        part.samples.add(metric::completion_interrupts, {device, "remote"}, elsewhere);
      } else {
        part.samples.add(metric::completion_interrupts, {device, "unknown"}, at_home + elsewhere);
      }
      part.samples.add(metric::completion_cpus, {device}, std::uint64_t{steps.size()});
      std::uint64_t sum = 0;
      std::uint64_t busiest = 0;
      for (const auto& [cpu, count] : steps) {
        sum += count;
        busiest = std::max(busiest, count);
      }
      if (sum != 0)
        part.samples.add(metric::completion_busiest, {device}, static_cast<double>(busiest) / static_cast<double>(sum));
    }
  };

  // Vectors come and go with the channels that are configured: looked up again once a minute.
  void look_up(Part::Clock::time_point now) {
    if (devices_ == device().devices && now - looked_up_ < kLookAgain) return;
    devices_ = device().devices;
    looked_up_ = now;
    std::map<std::string, Source> found;
    for (const auto& rdma : devices_) {
      if (rdma->kind != ObjectKind::kRdma || rdma->path.empty()) continue;
      const auto path = find_pci_path(host(), rdma->path + "/device", rdma->pci_address);
      // Sub-functions take their vectors from a pool that the physical function shows.
      if (!path || rdma->parent.find("/mlx5_core.sf.") != std::string::npos) continue;
      const auto old = sources_.find(rdma->name);
      Source source = old != sources_.end() ? std::move(old->second) : Source{};
      source.lines.clear();
      if (const auto numbers = list_directory(path->hops.front().path + "/msi_irqs"))
        source.lines.insert(numbers->begin(), numbers->end());
      source.address = path->hops.front().address;
      source.local.clear();
      if (!rdma->numa_node.empty())
        if (const auto list = read_attribute(host().sysfs + "/devices/system/node/node" + rdma->numa_node + "/cpulist"))
          for (const std::uint32_t cpu : parse_cpu_list(*list)) source.local.insert(cpu);
      source.node_known = !source.local.empty();
      found.emplace(rdma->name, std::move(source));
    }
    sources_ = std::move(found);
  }

  Source* owner(std::string_view number, std::string_view rest) {
    for (auto& [name, source] : sources_)
      if (source.owns(number, rest)) return &source;
    return nullptr;
  }

  DeviceList devices_;
  Part::Clock::time_point looked_up_{};
  std::map<std::string, Source> sources_;  // by device
};

}  // namespace

bool is_completion_vector(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  const auto has = [&](std::string_view word) { return lower.find(word) != std::string::npos; };
  if (lower.starts_with("mlx4-")) return !has("async");
  return has("comp") || has("combined") || has("ceq") || has("-nq-") || has("mana_q");
}

std::unique_ptr<Collector> make_interrupts_collector(const CollectorContext& context) {
  return std::make_unique<InterruptsCollector>(context);
}

}  // namespace roce

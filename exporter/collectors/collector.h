// SPDX-License-Identifier: Apache-2.0
//
// What a collector is. One object serves one device (or the host) and one source; the engine runs it on its own
// threads, never two runs of one object at a time, and drops it when the device goes away or is registered anew.
// To add a collector: a file pair here, its metrics in the catalog, one row in registry.cc.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"
#include "exporter/metrics/samples.h"

namespace roce {

// How a driver counter stands; everything but kOk is told by counter_support.
enum class CounterState : std::uint8_t { kOk, kUnsupported, kDenied, kFailing, kSaturated, kNotRecorded };
inline constexpr std::size_t kCounterStates = 6;
std::string_view to_string(CounterState state);
// How a counter stands whose read failed so.
CounterState state_of(ErrorKind kind);

// What one read of one port (or of a whole device) gave. Read-only once it is published.
struct Part {
  using Clock = std::chrono::steady_clock;
  SampleBatch samples;
  // Port label -> number of counters in each state.
  std::map<std::string, std::array<std::uint32_t, kCounterStates>, std::less<>> counters;
  std::uint64_t regressions = 0;  // small steps back held since the collector began
  Clock::time_point read_at{};
  bool least = false;  // of little importance: the first to be left out at a series limit
};

// The outcome of a run: parts in port order. Parts read in an earlier run may be repeated, with their own read_at.
struct Output {
  std::vector<std::shared_ptr<const Part>> parts;
};

// What collectors are told by the configuration.
struct CollectorSettings {
  bool compat_node_infiniband = false;
  bool hide_identity = false;
  bool ethtool = true;             // the collector of that name runs
  bool ethtool_raw = false;        // every statistic of a network driver also under its own name
  bool ethtool_per_queue = false;  // those of single queues too
  unsigned qp_max = 2000;  // QPs of a device up to which per-QP dumps are made: each QP can cost a firmware command
  bool operator==(const CollectorSettings&) const = default;
};

// Which ports of a device were down when last looked at: told by the port state collector, asked by the others.
// Thread-safe.
class PortStates {
 public:
  void record(unsigned port, bool down);
  std::optional<bool> down(unsigned port) const;  // none: nobody has told yet

 private:
  mutable std::mutex mutex_;
  std::map<unsigned, bool> down_;
};

// What a collector gets at birth.
struct CollectorContext {
  std::shared_ptr<const Host> host;
  std::shared_ptr<const InventoryDevice> device;
  std::shared_ptr<PortStates> port_states;
  CollectorSettings settings;
};

class Collector {
 public:
  explicit Collector(CollectorContext context) : context_(std::move(context)) {}
  virtual ~Collector() = default;
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Reads the source. What could be read is in `out` also when an error is returned; the error says that the source as
  // a whole failed. A source that this host does not have is success with nothing in it.
  virtual Result<void> collect(Output& out) = 0;

  // The same registration of the device, looked up again: ports and netdevs may have changed.
  void update(std::shared_ptr<const InventoryDevice> device) { context_.device = std::move(device); }

 protected:
  const CollectorContext& context() const { return context_; }
  const InventoryDevice& device() const { return *context_.device; }
  const Host& host() const { return *context_.host; }

 private:
  CollectorContext context_;
};

// When a collector runs.
enum class Cadence : std::uint8_t {
  kScrape,  // at each scrape
  kSlow,    // once a minute; published with its age for two minutes at most
};

// Which kernel lock its calls wait for, beside the card itself.
enum class LockClass : std::uint8_t {
  kNone,
  kRtnl,       // always under RTNL
  kPortQuery,  // under RTNL with drivers whose port query takes it
};

// What one object of the collector serves.
enum class Scope : std::uint8_t {
  kRdma,    // one RDMA device
  kNetdev,  // the network devices of one RDMA device, or one physical network device that belongs to none
  kDevice,  // one RDMA device with all that belongs to it, or one physical network device that belongs to none
  kHost,    // the host; all devices are in device().devices
};
bool serves(Scope scope, const InventoryDevice& object);

struct CollectorEntry {
  std::string_view name;
  bool by_default;
  Cadence cadence;
  Scope scope;
  LockClass locks;
  std::string_view help;
  std::unique_ptr<Collector> (*create)(const CollectorContext& context);
};

// All collectors in order of importance: where a series limit is hit, the last ones lose first.
std::span<const CollectorEntry> collector_registry();

}  // namespace roce

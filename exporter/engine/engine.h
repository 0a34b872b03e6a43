// SPDX-License-Identifier: Apache-2.0
//
// Runs the collectors and puts pages together. A request waits for what it needs until its deadline; what is late is
// absent and says so; requests that come together, or within a second, share the same reads. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/collectors/collector.h"
#include "exporter/kernel/host.h"

namespace roce {

struct EngineConfig {
  std::span<const CollectorEntry> collectors = collector_registry();
  // Whether a collector of the registry runs.
  std::function<bool(const CollectorEntry&)> enabled;
  // Whether a device may be touched, by its name.
  std::function<bool(std::string_view)> device_wanted;
  // The same for network devices.
  std::function<bool(std::string_view)> netdev_wanted;
  CollectorSettings settings;
  std::chrono::milliseconds sampler_interval{0};  // 0: off

  // Bounds; the defaults are the documented ones, tests shorten them.
  std::chrono::milliseconds source_deadline{2000};
  std::chrono::milliseconds share_window{1000};
  std::chrono::milliseconds slow_period{60000};
  std::size_t series_per_port = 250;
  std::size_t series_per_host = 600;  // of no RDMA device, with what the program says of itself
};

// How one collector stands on one device.
struct SourceState {
  std::string collector;
  std::string device;  // or network device; empty for the host
  bool ok = false;
  std::string reason;  // why not: the error's kind, timeout, busy, rtnl_blocked
  std::string detail;  // one line for people
};

// How the sources of a collection stand: thousands, on a host with hundreds of functions. Copies share them until one
// is changed.
class SourceStates {
 public:
  SourceStates() = default;
  SourceStates(std::vector<SourceState> states)
      : states_(std::make_shared<std::vector<SourceState>>(std::move(states))) {}  // NOLINT: is one
  SourceStates(std::initializer_list<SourceState> states) : SourceStates(std::vector<SourceState>(states)) {}

  auto begin() const { return states_->cbegin(); }
  auto end() const { return states_->cend(); }
  std::size_t size() const { return states_->size(); }
  bool empty() const { return states_->empty(); }

  void reserve(std::size_t count) { own().reserve(count); }
  void push_back(SourceState state) { own().push_back(std::move(state)); }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(own(), predicate);
  }

 private:
  std::vector<SourceState>& own() {
    if (states_.use_count() != 1) states_ = std::make_shared<std::vector<SourceState>>(*states_);
    return *states_;
  }
  std::shared_ptr<std::vector<SourceState>> states_ = std::make_shared<std::vector<SourceState>>();
};

// One collection, ready to be rendered.
struct Page {
  std::vector<std::shared_ptr<const Part>> parts;  // in device and registry order
  std::shared_ptr<const SampleBatch> own;          // what the engine says of the collection
  SourceStates sources;
  std::size_t devices = 0;
  bool complete = true;  // false: something that was asked for is not on it
  bool in_time = true;   // false: the budget ran out first

  // All batches in page order, for render_text and for verdicts.
  std::vector<const SampleBatch*> batches() const;

 private:
  friend class Engine;
  std::vector<std::shared_ptr<const SampleBatch>> kept_;  // batches cut at a limit
  std::vector<const SampleBatch*> order_;
};

class Engine {
 public:
  using Clock = std::chrono::steady_clock;

  Engine(std::shared_ptr<const Host> host, EngineConfig config);
  ~Engine();

  // Collects within `budget`. `only` names the collectors wanted; empty: all that are enabled.
  Page collect(std::chrono::milliseconds budget, const std::vector<std::string>& only = {});

  // Takes another configuration. Counters keep their history where their collector goes on.
  void configure(EngineConfig config);

  // Hotplug: look devices up again at the next collection.
  void devices_changed();

  std::uint64_t collections() const;
  unsigned worker_threads() const;

 private:
  struct State;
  class Assembly;
  std::shared_ptr<State> state_;
};

}  // namespace roce

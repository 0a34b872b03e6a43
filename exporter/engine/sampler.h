// SPDX-License-Identifier: Apache-2.0
//
// The microburst sampler: reads a few counters several times a second between scrapes and keeps the fastest growth of
// the last minute, which averages over a scrape interval hide. Off by default. It lowers its own rate when reading
// costs too much and stops before it disturbs: under the kernel's RTNL lock and in the firmware others wait.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "exporter/collectors/collector.h"
#include "exporter/engine/executor.h"
#include "exporter/metrics/samples.h"

namespace roce {

// What the rate of one source may be, from how long its reads take.
class SamplerPace {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit SamplerPace(Duration configured) : configured_(configured), interval_(configured) {}

  // A read took that long. A read of over 2 ms, or 0.5 % of the time spent reading, halves the rate; below 0.5 Hz it
  // stops. A minute of cheap reads doubles it again, up to what was configured.
  void note(Duration took);

  Duration interval() const { return interval_; }
  bool stopped() const { return stopped_; }
  bool slowed() const { return interval_ > configured_; }

 private:
  Duration configured_;
  Duration interval_;
  Duration cheap_for_{};
  bool stopped_ = false;
};

class Sampler {
 public:
  struct Source {
    const CollectorEntry* entry = nullptr;
    std::chrono::milliseconds least_interval{0};
  };

  // Reads each source of each device every `interval` through `executor`, so that a card has one request at a time.
  Sampler(std::shared_ptr<const Host> host, Executor& executor, std::chrono::milliseconds interval,
          std::vector<Source> sources, CollectorSettings settings);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The RDMA devices from now on.
  void set_devices(const DeviceList& devices);

  // Its metrics as they stand.
  void append_to(SampleBatch& out) const;

  // The sources that are sampled, of those in the registry: hardware counters at most ten times a second, what waits
  // for RTNL once.
  static std::vector<Source> sources_of(std::span<const CollectorEntry> registry);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The counters of one port (or of a whole device) from one interface: maps each driver spelling to its metric, keeps
// the history that wraps and steps back need, and remembers which counters cannot be read. Not thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/catalog/catalog.h"
#include "exporter/collectors/collector.h"
#include "exporter/collectors/counter_history.h"

namespace roce {

// The row of a counter, tried under the device's driver first, then under the tables that every driver shares. Where
// the driver is not known (trees without a driver link), the first driver that uses that spelling.
const CounterRow* find_row(std::string_view driver, Interface interface, std::string_view counter);

// How a counter stands whose read gave this, where that is no value to publish.
std::optional<CounterState> why_no_value(const CounterRow* row, std::uint64_t raw);

class CounterSet {
 public:
  // `port` is the label value, empty for counters of the whole device. `directory` names the sysfs directory, as the
  // compatibility table does (counters, hw_counters).
  CounterSet(const CollectorContext& context, Interface interface, std::string port, std::string_view directory);
  // The statistics of one network device. `table` is the driver of their rows ("mlx5-ethtool"); a name that it does not
  // hold goes to netdev_counter.
  CounterSet(const CollectorContext& context, Interface interface, const InventoryNetdev& netdev, std::string table);

  // One read of the whole set.
  struct Reading {
    std::string_view name;
    Result<std::uint64_t> value;
    bool replaced = false;  // another reading carries this quantity: only the compatibility name is published
  };
  // Publishes all readings. An error says that the device is off its bus: every counter read as all ones, none is
  // published.
  Result<void> publish(const std::vector<Reading>& readings, Part& part);

 private:
  struct Slot {
    std::string name;
    const CounterRow* row = nullptr;
    const MetricDesc* metric = nullptr;
    std::vector<std::string_view> labels;  // values; those of the object first
    const MetricDesc* compat = nullptr;
    unsigned compat_multiply = 1;
    CounterHistory history;
  };

  Slot& slot(std::size_t hint, std::string_view name);
  void describe(Slot& slot) const;
  bool all_ones(const std::vector<Reading>& readings);
  bool restarted(const std::vector<Reading>& readings);
  CounterState publish_value(Slot& slot, std::uint64_t raw, Part& part);
  void tell(const Slot& slot, CounterState state, Part& part) const;

  const CollectorContext context_;
  const Interface interface_;
  const std::string device_;  // the labels of the object
  const std::string port_;
  const std::optional<std::string> netdev_;
  const std::string table_;  // of a network device
  const std::string_view directory_;
  const bool has_port_counters_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::uint64_t regressions_ = 0;
};

// Reads the counter files of one directory. A file that failed for good is not opened again for a while: some drivers
// pass every read on to a firmware that refuses it and logs it.
class CounterFiles {
 public:
  explicit CounterFiles(std::string directory) : directory_(std::move(directory)) {}

  // The names in the order in which they should be read, without `lifespan`. Listed anew once a minute; a directory
  // that is not there may be on its way, and is looked for twice before that.
  Result<void> list();
  std::vector<CounterSet::Reading> read();
  bool present() const { return present_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Failure {
    Error error;
    Clock::time_point retry;
  };
  struct File {
    std::string name;
    std::unique_ptr<const Failure> failure;  // remembered; few have one
  };

  std::string directory_;
  bool present_ = false;
  unsigned absent_ = 0;  // times in a row
  Clock::time_point listed_{};
  std::vector<File> files_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The last fifteen minutes of each port, for the status page's small charts: a ring with a bound in ports and in
// points. It is fed with pages that were made anyway and starts no collection of its own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/metrics/samples.h"

namespace roce {

// What is kept of a port, each per second: the sum of its series; of seconds in pause the greatest of them, since
// priorities and directions stand in pause at the same time.
enum class Measure : std::uint8_t { kReceive, kTransmit, kLoss, kCongestion, kPauseSeconds, kPauseFrames };
inline constexpr std::size_t kMeasures = 6;

// Thread-safe.
class StatusRing {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSpan{900};
  static constexpr std::chrono::seconds kSpacing{10};  // pages that come sooner are left out
  static constexpr std::size_t kMaxPorts = 64;         // the first ones of a page
  static constexpr std::size_t kMaxPoints = kSpan / kSpacing + 1;
  static constexpr std::size_t kMaxPauses = 64;  // series of a port: priorities, directions, legs of a bond

  struct Point {
    Clock::time_point time;
    std::array<float, kMeasures> per_second{};  // NaN: not offered, restarted, or not read
    float at(Measure measure) const { return per_second[static_cast<std::size_t>(measure)]; }
  };

  void record(std::span<const SampleBatch* const> batches, Clock::time_point now);

  // Of one port, oldest first; empty where nothing is known of it.
  std::vector<Point> points(std::string_view device, std::string_view port, Clock::time_point now) const;

  // Sizes, for those who hold them against the bounds.
  std::size_t ports() const;
  std::size_t bytes() const;

 private:
  // Sum of a port's series that make up one measure. With another number of series it is another sum.
  struct Sum {
    double value = 0;
    std::uint32_t series = 0;
  };
  // One series of a measure whose greatest counts: a digest of its labels, and its value.
  using One = std::pair<std::size_t, double>;
  struct Sums {
    std::array<Sum, kMeasures> of{};
    std::vector<One> pauses;
  };
  struct Port {
    Clock::time_point time;
    Sums last;
    std::vector<Point> points;
  };
  using Key = std::pair<std::string, std::string>;  // device, port

  static float greatest_growth(const std::vector<One>& before, const std::vector<One>& after, double seconds);

  mutable std::mutex mutex_;
  Clock::time_point recorded_{};
  bool empty_ = true;
  std::map<Key, Port> ports_;
};

// The families that make up a measure; each begins with the labels device and port.
std::span<const std::pair<const MetricDesc*, Measure>> ring_families();

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Latencies of probes: one log-linear histogram of fixed size, of which everything else is derived, with the counts of
// the published bounds beside it, which are exact. One thread records; others may take a snapshot at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace roce::probe {

// Upper bounds of the published buckets in nanoseconds. A contract with whoever queries them: never changed.
// Half-octave steps where healthy latencies lie; from 0.625 ms on doubled, so that each InfiniBand retransmission
// timeout (4.096 us x 2^n) falls with the latency on top of it into a bucket of its own.
inline constexpr std::array<std::uint64_t, 30> kLatencyBounds = {
    1'000,      1'500,      2'000,       3'000,       4'000,       6'000,        8'000,      12'000,
    16'000,     24'000,     32'000,      48'000,      64'000,      96'000,       128'000,    192'000,
    256'000,    384'000,    625'000,     1'250'000,   2'500'000,   5'000'000,    10'000'000, 20'000'000,
    40'000'000, 80'000'000, 160'000'000, 320'000'000, 640'000'000, 1'280'000'000};

// Sub-buckets an octave: a value is known to 1/64, 1.6 %.
inline constexpr unsigned kSubBucketBits = 6;
// Values below 2^6 ns share exact cells; octaves from there to 2^36 ns (68 s), beyond which a value counts as the last.
inline constexpr unsigned kOctaves = 30;
inline constexpr std::size_t kFineCells = (std::size_t{1} << kSubBucketBits) * (kOctaves + 1);

// The fine cell of a value, and the lowest value of a cell.
std::size_t fine_cell(std::uint64_t ns);
std::uint64_t fine_cell_begin(std::size_t cell);

struct HistogramSnapshot {
  std::array<std::uint64_t, kLatencyBounds.size() + 1> buckets{};  // not cumulative; the last one is above all bounds
  std::uint64_t count = 0;
  std::uint64_t sum_ns = 0;
  std::vector<std::pair<std::uint16_t, std::uint64_t>> fine;  // cells that are not empty, in order

  // Value at this rank, q in [0, 1], as the middle of its fine cell; 0 when empty.
  std::uint64_t quantile_ns(double q) const;
};

class LatencyHistogram {
 public:
  void record(std::uint64_t ns);  // one thread; no allocation, no lock
  // Each cell is exact; a value recorded meanwhile may be in some and not yet in others, so the count is their sum.
  HistogramSnapshot snapshot() const;

 private:
  std::array<std::atomic<std::uint64_t>, kLatencyBounds.size() + 1> buckets_{};
  std::array<std::atomic<std::uint32_t>, kFineCells> fine_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

}  // namespace roce::probe

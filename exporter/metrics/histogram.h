// SPDX-License-Identifier: Apache-2.0
//
// One histogram as it stands on a page: classic buckets for the text format, and native (exponential) ones beside them
// for protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace roce {

struct Histogram {
  // Upper bounds, ascending, without the infinite one: constants that live for the whole process, since all series of a
  // family share them. A value on a bound is within it.
  std::span<const double> bounds;
  std::vector<std::uint64_t> counts;  // one a bound and one above; not cumulative
  double sum = 0;

  // Native buckets of positive values: bucket i holds those above 2^((i-1)/2^schema) up to 2^(i/2^schema). In order of
  // the index, none empty; not cumulative. Values up to the zero threshold are in the zero bucket.
  bool native = false;
  int schema = 3;  // -4 to 8
  double zero_threshold = 0x1p-128;
  std::uint64_t zero_count = 0;
  std::vector<std::pair<std::int32_t, std::uint64_t>> buckets;

  std::uint64_t count() const;         // of the classic buckets
  std::uint64_t native_count() const;  // of the native ones; equal to count() where both were taken together
};

// Most native buckets that are sent: outside influence on latencies must not blow up a server's memory.
inline constexpr std::size_t kMaxNativeBuckets = 160;

// Bucket of a positive value at a schema.
std::int32_t native_bucket(double value, int schema);

// Lowers the schema (each step joins two buckets) until at most `most` buckets are left.
void limit_native_buckets(Histogram& histogram, std::size_t most = kMaxNativeBuckets);

}  // namespace roce

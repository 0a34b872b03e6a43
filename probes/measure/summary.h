// SPDX-License-Identifier: Apache-2.0
//
// Numbers of one burst. All samples count: none is dropped as an outlier.
#pragma once

#include <cstdint>
#include <vector>

namespace roce::probe {

struct Summary {
  std::size_t count = 0;
  std::uint64_t min = 0, median = 0, p99 = 0, p999 = 0, max = 0;  // ns; nearest rank
  double mean = 0, deviation = 0;                                 // ns; of the sample, n - 1
};

Summary summarise(std::vector<std::uint64_t> samples);

}  // namespace roce::probe

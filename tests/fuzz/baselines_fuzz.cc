// SPDX-License-Identifier: Apache-2.0
//
// The file in which the prober keeps its detectors' baselines. What is taken is written down the same again, and a
// detector that is given it goes on; with the check sum put right, too.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "probes/measure/detectors.h"
#include "tests/fuzz/require.h"

namespace {

using namespace roce::probe;

void take(std::string_view text) {
  const auto read = read_baselines(text);
  if (!read) return;
  const std::string again = write_baselines(*read);
  require(read_baselines(again) == *read);
  for (const SavedBaseline& saved : *read) {
    const auto detector = std::make_unique<PairDetector>();
    detector->restore(saved.baseline);
    for (std::int64_t i = 0; i < 200; ++i) detector->answered(i, static_cast<std::uint64_t>(i) << (i % 64));
    require(detector->baseline().medians.size() <= PairDetector::kMedians);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  take(text);
  // Behind the check sum no input would get far: put the right one at the end of what came.
  text = "roce-probe-baselines 1\n" + text + (text.ends_with('\n') || text.empty() ? "" : "\n");
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  constexpr char kDigits[] = "0123456789abcdef";
  text += "sum ";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[sum >> static_cast<unsigned>(shift) & 15U];
  take(text + "\n");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "probes/schedule/handover.h"

#include <unistd.h>

namespace roce::probe {

void wake(const std::atomic<int>& fd) {
  const int to = fd.load(std::memory_order_acquire);
  if (to < 0) return;
  const std::uint64_t one = 1;
  (void)!write(to, &one, sizeof one);
}

}  // namespace roce::probe

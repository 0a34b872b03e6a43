// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace roce {

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) std::abort();
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace roce

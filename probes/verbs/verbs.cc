// SPDX-License-Identifier: Apache-2.0
#include "probes/verbs/verbs.h"

namespace roce::probe {

Failure failure_of(int status) {
  switch (status) {
    case kWorkLocalQpError:
      return Failure::kQpError;
    case kWorkFlushed:
      return Failure::kFlushed;
    case kWorkRemoteInvalid:
    case kWorkRemoteAccess:
    case kWorkRemoteOperation:
      return Failure::kRemoteAccess;
    case kWorkRetryExceeded:
      return Failure::kRetryExceeded;
    case kWorkRnrExceeded:
      return Failure::kRnrExceeded;
    default:
      return Failure::kSendError;
  }
}

std::uint64_t DeviceClock::nanoseconds(std::uint64_t from, std::uint64_t to) const {
  if (!usable()) return 0;
  const std::uint64_t ticks = (to - from) & mask;
  // ticks * 10^6 / kHz without an overflow, whatever the wrap is.
  return ticks / khz * 1'000'000 + ticks % khz * 1'000'000 / khz;
}

}  // namespace roce::probe

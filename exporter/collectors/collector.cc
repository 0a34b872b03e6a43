// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/collector.h"

namespace roce {

std::string_view to_string(CounterState state) {
  switch (state) {
    case CounterState::kOk:
      return "ok";
    case CounterState::kUnsupported:
      return "unsupported";
    case CounterState::kDenied:
      return "denied";
    case CounterState::kFailing:
      return "failing";
    case CounterState::kSaturated:
      return "saturated";
    case CounterState::kNotRecorded:
      return "not_recorded";
  }
  return "failing";
}

void PortStates::record(unsigned port, bool down) {
  const std::lock_guard lock(mutex_);
  down_[port] = down;
}

std::optional<bool> PortStates::down(unsigned port) const {
  const std::lock_guard lock(mutex_);
  const auto at = down_.find(port);
  return at == down_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace roce

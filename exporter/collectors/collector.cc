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

CounterState state_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kAbsent:
    case ErrorKind::kUnsupported:
      return CounterState::kUnsupported;
    case ErrorKind::kDenied:
      return CounterState::kDenied;
    case ErrorKind::kNotRecorded:
      return CounterState::kNotRecorded;
    default:
      return CounterState::kFailing;
  }
}

bool serves(Scope scope, const InventoryDevice& object) {
  switch (scope) {
    case Scope::kRdma:
      return object.kind == ObjectKind::kRdma;
    case Scope::kNetdev:
      return !object.netdevs.empty();
    case Scope::kDevice:
      return object.kind != ObjectKind::kHost;
    case Scope::kHost:
      return object.kind == ObjectKind::kHost;
  }
  return false;
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

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/call_tracker.h"

namespace roce {

CallTracker::Scope::Scope(CallTracker* tracker, std::string_view call, std::string_view object) : tracker_(tracker) {
  if (tracker_ == nullptr) return;
  const std::lock_guard lock(tracker_->mutex_);
  entry_ = tracker_->calls_.insert(tracker_->calls_.end(), Call{std::string(call), std::string(object), Clock::now()});
}

CallTracker::Scope::~Scope() {
  if (tracker_ == nullptr) return;
  const std::lock_guard lock(tracker_->mutex_);
  tracker_->calls_.erase(entry_);
}

std::vector<CallTracker::Call> CallTracker::in_flight(Clock::duration age) const {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  std::vector<Call> result;
  for (const Call& call : calls_)
    if (now - call.since >= age) result.push_back(call);
  return result;
}

}  // namespace roce

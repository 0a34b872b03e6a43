// SPDX-License-Identifier: Apache-2.0
//
// Which kernel calls are under way, so that a call that hangs can be named while it hangs. Thread-safe.
#pragma once

#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace roce {

class CallTracker {
 public:
  using Clock = std::chrono::steady_clock;
  struct Call {
    std::string call;    // e.g. rdma_stat_get, sysfs_counters
    std::string object;  // device the call is about
    Clock::time_point since;
  };

  // Marks one call as under way for its own lifetime. A null tracker is allowed and costs nothing.
  class Scope {
   public:
    Scope(CallTracker* tracker, std::string_view call, std::string_view object);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallTracker* tracker_;
    std::list<Call>::iterator entry_;
  };

  // The calls that have lasted at least `age`, oldest first.
  std::vector<Call> in_flight(Clock::duration age) const;

 private:
  mutable std::mutex mutex_;
  std::list<Call> calls_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The verdicts of one running program: remembers earlier pages for what counters did, since when findings are there,
// and the profile in force.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "exporter/health/check.h"
#include "exporter/health/since.h"

namespace roce {

// Thread-safe.
class Health {
 public:
  using Clock = History::Clock;
  static constexpr std::size_t kMaxExpectations = 256;

  // See SinceStore for `state_directory`.
  Health(const std::string& state_directory, SinceStore::Mode mode);

  // Takes the profile of this host, its classes applied; null: none.
  void set_profile(std::shared_ptr<const Profile> profile);

  // Judges a whole page, as of now, and remembers it. `advice` adds the checks that only advise.
  Verdict judge(const Page& page, bool advice = false, Clock::time_point now = Clock::now());

  // The last verdict, if it is at most that old; else null.
  std::shared_ptr<const Verdict> recent(std::chrono::milliseconds age, Clock::time_point now = Clock::now()) const;

  // Judges the page and adds what metrics tell of it: findings, roles, expectations.
  void add_metrics(const Page& page, SampleBatch& out);

 private:
  std::shared_ptr<const Verdict> judge_locked(const Page& page, const PageView& view, bool advice,
                                              Clock::time_point now);

  mutable std::mutex mutex_;
  std::shared_ptr<const Profile> profile_;
  History history_;
  SinceStore since_;
  std::shared_ptr<const Verdict> last_;
  Clock::time_point judged_;
  std::uint64_t dropped_ = 0;
};

}  // namespace roce

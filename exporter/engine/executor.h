// SPDX-License-Identifier: Apache-2.0
//
// Runs kernel reads on threads of its own, so that one that hangs holds up nobody else: at most one job at a time on
// a physical card, at most one that needs the kernel's RTNL lock. When every worker is stuck, another one is added (up
// to a bound); it goes away when it is idle. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace roce {

class Executor {
 public:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::string card;   // jobs with the same card run one after the other
    bool rtnl = false;  // and so do all jobs that need RTNL
    std::function<void()> run;
  };
  enum class Blocked { kNo, kCard, kRtnl };

  explicit Executor(unsigned workers = 2, unsigned max_workers = 64);
  ~Executor();  // stops it
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Drops what waits and lets running jobs end, for a moment: one that hangs in the kernel is left to end by itself.
  void stop();

  // Jobs of one card run in the order in which they were submitted.
  void submit(Job job);

  // Whether a job on that card (needing RTNL) waits for one that has been running for at least `age`.
  Blocked blocked(const std::string& card, bool rtnl, Clock::duration age) const;

  // Adds a worker when jobs could run but all workers have been busy for a while. Called by whoever waits for jobs.
  void relieve();

  unsigned workers() const;

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  static void spawn(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "exporter/base/log.h"

namespace roce {
namespace {

constexpr auto kStuck = std::chrono::milliseconds(100);
constexpr auto kShutdownPatience = std::chrono::seconds(1);

}  // namespace

struct Executor::State {
  mutable std::mutex mutex;
  std::condition_variable work;
  std::condition_variable gone;
  std::deque<Job> queue;
  std::map<std::string, Clock::time_point> cards;  // busy cards, since when
  std::optional<Clock::time_point> rtnl;           // since when the RTNL slot is taken
  std::string rtnl_card;
  unsigned base = 0;
  unsigned most = 0;
  unsigned workers = 0;
  unsigned idle = 0;
  Clock::time_point last_start;
  bool stopping = false;

  bool can_run(const Job& job) const { return !cards.contains(job.card) && !(job.rtnl && rtnl); }
  std::deque<Job>::iterator next() {
    return std::find_if(queue.begin(), queue.end(), [&](const Job& job) { return can_run(job); });
  }
};

Executor::Executor(unsigned workers, unsigned max_workers) : state_(std::make_shared<State>()) {
  state_->base = workers;
  state_->most = max_workers;
  const std::lock_guard lock(state_->mutex);
  for (unsigned i = 0; i < workers; ++i) spawn(state_);
}

Executor::~Executor() { stop(); }

void Executor::stop() {
  std::unique_lock lock(state_->mutex);
  if (state_->stopping) return;
  state_->stopping = true;
  state_->queue.clear();
  state_->work.notify_all();
  state_->gone.wait_for(lock, kShutdownPatience, [&] { return state_->workers == 0; });
}

// The caller holds the mutex.
void Executor::spawn(const std::shared_ptr<State>& state) {
  try {
    // Detached on purpose: a thread that hangs in the kernel cannot be joined, and the state outlives the executor.
    std::thread([state] { work(state); }).detach();
    ++state->workers;
  } catch (const std::system_error& e) {
    log::error("cannot start a worker thread", {{"err", e.what()}});
  }
}

void Executor::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    auto job = state->next();
    if (job == state->queue.end()) {
      if (state->stopping || state->idle >= state->base) break;
      ++state->idle;
      state->work.wait(lock);
      --state->idle;
      continue;
    }
    Job running = std::move(*job);
    state->queue.erase(job);
    const auto now = Clock::now();
    state->last_start = now;
    state->cards.emplace(running.card, now);
    if (running.rtnl) {
      state->rtnl = now;
      state->rtnl_card = running.card;
    }
    lock.unlock();
    try {
      running.run();
    } catch (const std::exception& e) {
      log::error("a collection job failed", {{"err", e.what()}});
    }
    running.run = nullptr;  // what the job held may be the last reference: let it go outside the lock
    lock.lock();
    state->cards.erase(running.card);
    if (running.rtnl) state->rtnl.reset();
    if (!state->queue.empty()) state->work.notify_one();
  }
  --state->workers;
  state->gone.notify_all();
}

void Executor::submit(Job job) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stopping) return;
  state_->queue.push_back(std::move(job));
  state_->work.notify_one();
}

Executor::Blocked Executor::blocked(const std::string& card, bool rtnl, Clock::duration age) const {
  const auto now = Clock::now();
  const std::lock_guard lock(state_->mutex);
  // RTNL first: it names the wider cause.
  if (rtnl && state_->rtnl && now - *state_->rtnl >= age && state_->rtnl_card != card) return Blocked::kRtnl;
  const auto busy = state_->cards.find(card);
  if (busy != state_->cards.end() && now - busy->second >= age) return Blocked::kCard;
  return Blocked::kNo;
}

void Executor::relieve() {
  const std::lock_guard lock(state_->mutex);
  if (state_->idle > 0 || state_->workers >= state_->most || state_->stopping) return;
  if (Clock::now() - state_->last_start < kStuck || state_->next() == state_->queue.end()) return;
  spawn(state_);
}

unsigned Executor::workers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->workers;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "probes/connect/connect_prober.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "exporter/base/log.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::chrono::milliseconds kDeadline{2000};

}  // namespace

ConnectProber::ConnectProber(const Verbs& clocks, std::unique_ptr<ConnectAgent> agent, EndpointSource& source,
                             std::uint32_t epoch, OnPorts on_ports)
    : clocks_(clocks),
      agent_(std::move(agent)),
      source_(source),
      epoch_(epoch),
      on_ports_(std::move(on_ports)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      random_(clocks.now() ^ 0xc0117ec7),
      thread_([this] { loop(); }) {}

void ConnectProber::stop() {
  stopping_.store(true);
  (void)agent_->close();
  wake(wake_);
  if (thread_.joinable()) thread_.join();
}

ConnectProber::~ConnectProber() {
  stop();
  if (const int fd = wake_.exchange(-1); fd >= 0) (void)::close(fd);
}

void ConnectProber::set_peers(std::vector<std::shared_ptr<PeerRecord>> peers, std::uint64_t interval) {
  const std::lock_guard lock(mutex_);
  // One a minute and peer is the most that is decent, whatever was asked for.
  const std::uint64_t next_interval = interval == 0 ? 0 : std::max<std::uint64_t>(interval, 10 * kSecond);
  // Turned on or off: there is a worker or there is none.
  if ((interval_ == 0) != (next_interval == 0)) changed_ = true;
  interval_ = next_interval;
  std::map<std::uint64_t, Work> next;
  for (auto& peer : peers) {
    if (peer->peer.rotating) continue;
    Work& work = next[peer->id];
    if (const auto found = work_.find(peer->id); found != work_.end())
      work = std::move(found->second);
    else
      work.schedule = JitteredSchedule(random_.next());
    work.schedule.set_period(clocks_.now(), interval_);
    work.peer = std::move(peer);
  }
  work_ = std::move(next);
  wake(wake_);
}

void ConnectProber::set_keys(std::vector<Key> keys) {
  const std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
  changed_ = true;
  wake(wake_);
}

void ConnectProber::set_local(std::vector<LocalEnd> ends) {
  const std::lock_guard lock(mutex_);
  const bool same = std::equal(ends.begin(), ends.end(), ends_.begin(), ends_.end(), [](const auto& a, const auto& b) {
    return a.device == b.device && a.gid == b.gid && a.listen == b.listen;
  });
  if (same && (open_ || opening_)) return;
  ends_ = std::move(ends);
  changed_ = true;
  wake(wake_);
}

void ConnectProber::learn(std::uint64_t peer, const Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  if (const auto found = work_.find(peer); found != work_.end()) found->second.endpoint = endpoint;
}

bool ConnectProber::close() {
  {
    const std::lock_guard lock(mutex_);
    ends_.clear();
    changed_ = false;
    open_ = false;
  }
  (void)agent_->close();  // cuts a connection off that is being made
  // Whoever is in reopen() with what was before has to be through, and what he opened closed again.
  const std::lock_guard agent_lock(agent_mutex_);
  return agent_->close();
}

void ConnectProber::reopen() {
  const std::lock_guard agent_lock(agent_mutex_);
  std::vector<LocalEnd> ends;
  std::vector<Key> keys;
  {
    const std::lock_guard lock(mutex_);
    if (!changed_ || clocks_.now() < open_after_) return;
    changed_ = false;
    ends = ends_;
    keys = keys_;
    open_ = false;
    if (interval_ == 0) ends.clear();
    opening_ = !ends.empty() && !keys.empty();
  }
  std::map<std::string, std::uint16_t> ports;
  if (ends.empty() || keys.empty()) {
    (void)agent_->close();
    on_ports_(ports);
    return;
  }
  std::vector<Gid> listen_on;
  std::vector<std::string> names;
  for (const LocalEnd& end : ends)
    if (end.listen) {
      listen_on.push_back(end.gid);
      names.push_back(end.device);
    }
  const auto opened = agent_->open(listen_on, keys, epoch_);
  {
    const std::lock_guard lock(mutex_);
    opening_ = false;
    open_ = opened.has_value();
  }
  if (!opened) {
    if (failures_ == 0) log::warn("connect probe", {{"error", opened.error().message()}});
    open_after_ = clocks_.now() + std::min<std::uint64_t>(60, 1ULL << std::min(failures_, 6U)) * kSecond;
    ++failures_;
    const std::lock_guard lock(mutex_);
    changed_ = true;
    return;
  }
  if (failures_ != 0) log::info("connect probe goes on", {{"failures", failures_}});
  failures_ = 0;
  for (std::size_t i = 0; i < std::min(names.size(), opened->size()); ++i) ports[names[i]] = (*opened)[i];
  on_ports_(ports);
}

void ConnectProber::probe(std::uint64_t id) {
  std::shared_ptr<PeerRecord> peer;
  Endpoint endpoint;
  bool ask = false;
  Gid from;
  {
    const std::lock_guard lock(mutex_);
    const auto found = work_.find(id);
    if (found == work_.end() || !open_) return;
    peer = found->second.peer;
    endpoint = found->second.endpoint;
    ask = found->second.failed || endpoint.cm_port == 0;
    const auto end =
        std::find_if(ends_.begin(), ends_.end(), [&](const LocalEnd& e) { return e.device == peer->peer.device; });
    if (end == ends_.end()) return;
    from = end->gid;
  }
  if (ask) {
    if (auto told = source_.endpoint(peer->peer)) {
      endpoint = *told;
      learn(id, *told);
    }
    if (endpoint.cm_port == 0) return;  // it does not listen
  }
  PeerCounters& counters = *peer->counters;
  const auto outcome = agent_->connect(from, endpoint.gid, endpoint.cm_port, endpoint.epoch, kDeadline);
  if (!outcome) {
    // Closed meanwhile, or the worker is gone: the next turn opens again.
    const std::lock_guard lock(mutex_);
    if (open_) changed_ = true;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = work_.find(id); found != work_.end()) found->second.failed = !outcome->connected;
  }
  counters.connects_sent.add();
  if (outcome->connected)
    counters.connect.record(outcome->nanoseconds);
  else
    counters.connect_failures[static_cast<std::size_t>(outcome->failure)].add();
}

void ConnectProber::loop() {
  sigset_t all;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, nullptr);
  (void)pthread_setname_np(pthread_self(), "rdma_cm");
  while (!stopping_.load()) {
    reopen();
    const std::uint64_t now = clocks_.now();
    std::uint64_t next = now + kSecond;
    std::vector<std::uint64_t> due;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, work] : work_) {
        if (interval_ == 0) break;
        if (work.schedule.due() <= now) {
          (void)work.schedule.advance(now);
          due.push_back(id);
        }
        next = std::min(next, work.schedule.due());
      }
    }
    for (const std::uint64_t id : due) {
      if (stopping_.load()) return;
      probe(id);
    }
    const std::uint64_t later = clocks_.now();
    const std::uint64_t wait = next > later ? std::min(next - later, kSecond) : 0;
    pollfd fd{wake_.load(), POLLIN, 0};
    (void)poll(&fd, 1, static_cast<int>((wait + 999'999) / 1'000'000));
    std::uint64_t count = 0;
    (void)!read(fd.fd, &count, sizeof count);
  }
}

}  // namespace roce::probe

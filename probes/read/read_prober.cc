// SPDX-License-Identifier: Apache-2.0
#include "probes/read/read_prober.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "exporter/base/log.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::size_t kRegisteredBytes = 65536;
constexpr std::uint8_t kEctZero = 2;
constexpr std::ptrdiff_t kConnectionsOfOne = 4;
constexpr std::chrono::seconds kConnectTime{3};

void begin_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, nullptr);
  (void)pthread_setname_np(pthread_self(), name);
}

std::uint64_t back_off(std::uint32_t failures) {
  return std::min<std::uint64_t>(60, 2ULL << std::min<std::uint32_t>(failures, 5)) * kSecond;
}

}  // namespace

ReadProber::ReadProber(const Verbs& clocks, DeviceRecord& record, EndpointSource& source)
    : clocks_(clocks), record_(record), source_(source), random_(clocks.now() ^ 0x5ead) {}

ReadProber::~ReadProber() {
  stop();
  wake_reader_.store(-1);
  wake_connector_.store(-1);
  for (const int fd : {epoll_, wake_, connect_wake_})
    if (fd >= 0) (void)::close(fd);
}

Result<void> ReadProber::start() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  connect_wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_ < 0 || wake_ < 0 || connect_wake_ < 0) return fail_errno(errno, "eventfd");
  wake_reader_.store(wake_);
  wake_connector_.store(connect_wake_);
  watch(wake_, true);
  read_thread_ = std::thread([this] { read_loop(); });
  connect_thread_ = std::thread([this] { connect_loop(); });
  return {};
}

void ReadProber::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_.store(true);
  }
  settled_.notify_all();
  wake(wake_reader_);
  wake(wake_connector_);
  if (read_thread_.joinable()) read_thread_.join();
  if (connect_thread_.joinable()) connect_thread_.join();
}

void ReadProber::watch(int fd, bool add) const {
  if (epoll_ < 0) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  (void)epoll_ctl(epoll_, add ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

void ReadProber::set_peers(std::vector<std::shared_ptr<PeerRecord>> peers, const SlowSettings& settings) {
  const std::lock_guard lock(mutex_);
  settings_ = settings;
  const std::uint64_t now = clocks_.now();
  // Fifty a second of the device at most.
  std::uint64_t interval = settings_.read_interval;
  if (interval != 0) interval = std::max<std::uint64_t>(interval, peers.size() * (kSecond / 50));
  std::map<std::uint64_t, Connection> next;
  for (auto& peer : peers) {
    if (peer->peer.rotating || next.size() == kConnections) continue;
    Connection& connection = next[peer->id];
    if (const auto found = connections_.find(peer->id); found != connections_.end())
      connection = std::move(found->second);
    else
      connection.schedule = JitteredSchedule(random_.next());
    connection.schedule.set_period(now, interval);
    connection.peer = std::move(peer);
  }
  connections_.swap(next);
  for (auto& [id, gone] : next)
    if (!connections_.contains(id)) close(gone);
  if (registration_.period() != settings_.registration_interval)
    registration_.start(now, settings_.registration_interval);
  wake(wake_reader_);
  wake(wake_connector_);
}

void ReadProber::attach(Context& context, const LocalGid& local, std::uint32_t mtu) {
  const std::lock_guard verbs_lock(verbs_mutex_);
  const std::lock_guard lock(mutex_);
  context_ = &context;
  local_ = local;
  mtu_ = mtu;
  ++session_;
  for (auto& [id, connection] : connections_) connection.connect_after = 0;
  wake(wake_connector_);
}

void ReadProber::detach() {
  const std::lock_guard verbs_lock(verbs_mutex_);
  const std::lock_guard lock(mutex_);
  for (auto& [id, connection] : connections_) {
    if (connection.burst != nullptr && !connection.burst->done) {
      connection.burst->result.failure = record_.device + ": the device was closed";
      connection.burst->done = true;
    }
    close(connection);
    connection.why = Failure::kCount_;
  }
  accepted_.clear();
  context_ = nullptr;
}

void ReadProber::close(Connection& connection) {
  if (connection.queue) watch(connection.queue->event_fd(), false);
  connection.queue.reset();
  connection.pending = false;
  settled_.notify_all();
}

void ReadProber::close_for_now(Connection& connection, std::uint64_t now) {
  close(connection);
  connection.connect_after = now + back_off(connection.failures++);
  wake(wake_connector_);
}

Result<ReadGrant> ReadProber::accept(const ReadRequest& request) {
  const std::lock_guard verbs_lock(verbs_mutex_);
  Context* context = nullptr;
  LocalGid local;
  std::uint32_t mtu = 0;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
    local = local_;
    mtu = std::min(mtu_, request.mtu);
    // The same requester again: it lost its end.
    std::erase_if(accepted_, [&](const Accepted& each) { return each.gid == request.gid && each.qpn == request.qpn; });
    // Of one host the last few: those before are of connections that it gave up.
    const auto of_same = [&](const Accepted& each) { return each.gid == request.gid; };
    while (std::count_if(accepted_.begin(), accepted_.end(), of_same) >= kConnectionsOfOne)
      accepted_.erase(std::find_if(accepted_.begin(), accepted_.end(), of_same));
    while (accepted_.size() >= kConnections) accepted_.erase(accepted_.begin());
  }
  if (context == nullptr) return fail(ErrorKind::kBusy, record_.device + ": the device is closed");
  if (mtu < 256 || request.qpn > 0xffffff || request.psn > 0xffffff)
    return fail(ErrorKind::kMalformed, fmt::format("request of {}: qpn {}, psn {}, mtu {}", to_text(request.gid),
                                                   request.qpn, request.psn, request.mtu));
  ROCE_TRY(const DummyMemory memory, context->dummy_memory());
  ReadQueueSpec spec;
  spec.port = record_.port;
  spec.gid_index = local.index;
  ROCE_TRY(auto queue, context->create_read_queue(spec));
  ReadPath path;
  path.gid = request.gid;
  path.qpn = request.qpn;
  path.psn = request.psn;
  path.mtu = mtu;
  path.flow_label = 1;
  path.traffic_class = kEctZero;
  ROCE_TRY_VOID(queue->connect(path));
  ReadGrant grant{local.gid, queue->qpn(), queue->psn(), mtu, memory.address, memory.rkey, memory.length};
  const std::lock_guard lock(mutex_);
  accepted_.push_back({request.gid, request.qpn, std::move(queue), clocks_.now()});
  return grant;
}

// --- connecting ---

void ReadProber::register_memory(std::uint64_t now) {
  const std::lock_guard verbs_lock(verbs_mutex_);
  Context* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (settings_.registration_interval == 0 || registration_.due() > now) return;
    (void)registration_.advance(now);
    context = context_;
  }
  if (context == nullptr) return;
  const auto took = context->time_registration(kRegisteredBytes);
  if (took)
    record_.registration.record(*took);
  else
    record_.registration_failures.add();
}

std::uint64_t ReadProber::connect_once() {
  const std::uint64_t now = clocks_.now();
  register_memory(now);
  std::uint64_t next = kNever, session = 0;
  std::shared_ptr<PeerRecord> peer;
  LocalGid local;
  std::uint32_t mtu = 0;
  SlowSettings settings;
  {
    const std::lock_guard lock(mutex_);
    settings = settings_;
    if (settings_.registration_interval != 0) next = registration_.due();
    if (context_ == nullptr) return next;
    session = session_;
    local = local_;
    mtu = mtu_;
    Connection* chosen = nullptr;
    for (auto& [id, connection] : connections_) {
      if (connection.queue || (settings_.read_interval == 0 && connection.burst == nullptr)) continue;
      if (connection.connect_after > now)
        next = std::min(next, connection.connect_after);
      else if (chosen == nullptr || connection.failures < chosen->failures)
        chosen = &connection;
    }
    if (chosen == nullptr) return next;
    peer = chosen->peer;
  }
  // The verbs mutex is given back while the peer is asked, so that closing does not wait for it.
  std::unique_ptr<ReadQueue> queue;
  Failure why = Failure::kNoEndpoint;
  Result<ReadGrant> grant = fail(ErrorKind::kBusy, record_.device);
  ReadRequest request;
  const auto give_up = [&](Failure reason) {
    const std::lock_guard lock(mutex_);
    if (const auto found = connections_.find(peer->id); found != connections_.end()) {
      found->second.why = reason;
      found->second.connect_after = clocks_.now() + back_off(found->second.failures++);
    }
    return clocks_.now();
  };
  {
    const std::lock_guard verbs_lock(verbs_mutex_);
    if (context_ == nullptr || session_ != session) return clocks_.now();
    ReadQueueSpec spec;
    spec.port = record_.port;
    spec.gid_index = local.index;
    auto made = context_->create_read_queue(spec);
    if (!made) {
      log::debug("RC queue", {{"error", made.error().message()}});
      return give_up(Failure::kQpError);
    }
    queue = std::move(*made);
    request.device = peer->peer.remote_device;
    request.gid = local.gid;
    request.qpn = queue->qpn();
    request.psn = queue->psn();
    request.mtu = mtu;
    // Owned by the session while nobody holds the mutex: detach() ends it with the others.
    const std::lock_guard lock(mutex_);
    accepted_.push_back({Gid{}, request.qpn, std::move(queue), now});
  }
  grant = source_.connect_read(peer->peer, request);
  const std::lock_guard verbs_lock(verbs_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr || session_ != session) return clocks_.now();  // it was ended with its session
    for (auto& each : accepted_)
      if (each.gid == Gid{} && each.qpn == request.qpn) queue = std::move(each.queue);
    std::erase_if(accepted_, [](const Accepted& each) { return each.queue == nullptr; });
  }
  if (!queue) return give_up(why);
  if (!grant) {
    log::debug("RC READ of a peer", {{"peer", peer->peer.name}, {"error", grant.error().message()}});
    queue.reset();
    return give_up(grant.error().kind == ErrorKind::kUnsupported ? Failure::kCount_ : Failure::kNoEndpoint);
  }
  ReadPath path;
  path.gid = grant->gid;
  path.qpn = grant->qpn;
  path.psn = grant->psn;
  path.mtu = std::min(mtu, grant->mtu);
  path.hop_limit = settings.hop_limit;
  path.flow_label = 1;
  if (!peer->classes.empty()) {
    path.traffic_class = static_cast<std::uint8_t>(peer->classes[0].dscp << 2 | kEctZero);
    path.sl = peer->classes[0].sl;
  }
  if (const auto connected = queue->connect(path); !connected) {
    log::debug("RC READ of a peer", {{"peer", peer->peer.name}, {"error", connected.error().message()}});
    queue.reset();
    return give_up(Failure::kUnresolved);
  }
  (void)queue->arm();
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(peer->id);
  if (found == connections_.end()) {
    queue.reset();  // while the session is held
    return clocks_.now();
  }
  Connection& connection = found->second;
  close(connection);
  connection.queue = std::move(queue);
  connection.grant = *grant;
  connection.mtu = std::min(path.mtu, grant->length);
  connection.why = Failure::kCount_;
  watch(connection.queue->event_fd(), true);
  settled_.notify_all();
  wake(wake_reader_);
  return clocks_.now();
}

void ReadProber::connect_loop() {
  begin_thread("connect");
  while (!stopping_.load()) {
    const std::uint64_t next = connect_once();
    const std::uint64_t now = clocks_.now();
    const std::uint64_t wait = next > now ? std::min(next - now, kSecond) : 0;
    pollfd fd{connect_wake_, POLLIN, 0};
    (void)poll(&fd, 1, static_cast<int>((wait + 999'999) / 1'000'000));
    std::uint64_t count = 0;
    (void)!read(connect_wake_, &count, sizeof count);
  }
}

// --- reading ---

bool ReadProber::post(Connection& connection, std::uint32_t bytes) {
  connection.posted = clocks_.now();
  connection.pending_of_burst = false;
  if (connection.queue->post_read(connection.grant.address, connection.grant.rkey, bytes) != 0) return false;
  connection.pending = true;
  return true;
}

void ReadProber::complete(Connection& connection) {
  Completion completion;
  const int n = connection.queue->poll(completion);
  if (n == 0 || n == -EBUSY || !connection.pending) return;
  const std::uint64_t now = clocks_.now();
  PeerCounters& counters = *connection.peer->counters;
  connection.pending = false;
  if (n == 1 && completion.status == kWorkSuccess) {
    connection.failures = 0;
    const std::uint64_t rtt = now - connection.posted;
    if (connection.pending_of_burst) {
      // It did not wait for this one, and it may be another burst that waits now.
      if (connection.burst == nullptr || connection.posted < connection.burst->begin) return;
      ++connection.burst->result.received;
      connection.burst->result.rtt.push_back(rtt);
    } else if (connection.is_long) {
      counters.mtu_received.add();
    } else {
      counters.read_rtt.record(rtt);
    }
    return;
  }
  const Failure why = n == 1 ? failure_of(completion.status) : Failure::kQpError;
  if (!connection.pending_of_burst) {
    auto& failures = connection.is_long ? counters.mtu_failures : counters.read_failures;
    failures[static_cast<std::size_t>(why)].add();
  }
  // In error for good: made anew by the connector.
  close_for_now(connection, now);
  connection.why = why;
}

std::uint64_t ReadProber::read_once() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = clocks_.now();
  std::uint64_t next = kNever;
  for (auto& [id, connection] : connections_) {
    PeerCounters& counters = *connection.peer->counters;
    if (connection.queue) {
      complete(connection);
      if (connection.queue && connection.queue->arm() == 0) complete(connection);
    }
    if (connection.pending && now >= connection.posted + kDeadline) {
      if (!connection.pending_of_burst)
        (connection.is_long ? counters.mtu_failures
                            : counters.read_failures)[static_cast<std::size_t>(Failure::kTimeout)]
            .add();
      close_for_now(connection, now);
    }
    if (connection.burst != nullptr) next = std::min(next, advance(connection, now));
    if (connection.pending) next = std::min(next, connection.posted + kDeadline);
    if (settings_.read_interval == 0 || context_ == nullptr) continue;
    while (connection.schedule.due() <= now) {
      (void)connection.schedule.advance(now);
      if (!connection.queue) {
        if (connection.why != Failure::kCount_) counters.read_failures[static_cast<std::size_t>(connection.why)].add();
        continue;
      }
      if (connection.pending) continue;
      connection.is_long = ++connection.reads % kLongEvery == 0 && connection.mtu > kReadBytes;
      (connection.is_long ? counters.mtu_sent : counters.reads_sent).add();
      if (!post(connection, connection.is_long ? connection.mtu : kReadBytes)) {
        counters.read_failures[static_cast<std::size_t>(Failure::kSendError)].add();
        close_for_now(connection, now);
      } else {
        next = std::min(next, connection.posted + kDeadline);
      }
    }
    next = std::min(next, connection.schedule.due());
  }
  return next;
}

void ReadProber::read_loop() {
  begin_thread("read");
  std::array<epoll_event, 16> events;
  while (!stopping_.load()) {
    const std::uint64_t next = read_once();
    const std::uint64_t now = clocks_.now();
    // Rounded up: earlier than due is of no use.
    const std::uint64_t wait = next > now ? std::min(next - now, kSecond) : 0;
    const int n = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                             static_cast<int>((wait + 999'999) / 1'000'000));
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      std::uint64_t count = 0;
      if (fd == wake_) {
        (void)!read(wake_, &count, sizeof count);
        continue;
      }
      for (auto& [id, connection] : connections_)
        if (connection.queue && connection.queue->event_fd() == fd) {
          complete(connection);
          if (connection.queue) connection.queue->take_events();
        }
    }
  }
}

std::uint64_t ReadProber::advance(Connection& connection, std::uint64_t now) {
  Burst& burst = *connection.burst;
  if (burst.begin == 0 || burst.done) return kNever;
  const BurstSpec& spec = burst.spec;
  const auto gap = static_cast<std::uint64_t>(std::chrono::nanoseconds(spec.gap).count());
  const auto deadline = static_cast<std::uint64_t>(std::chrono::nanoseconds(spec.deadline).count());
  const std::uint64_t last = burst.begin + (spec.count - 1) * gap;
  while (burst.ends == 0) {
    if (connection.pending) {
      // One at a time: a slow one is waited for, and there are fewer of them in the time of the burst.
      const std::uint64_t until = gap == 0 || burst.result.sent == 0  // one that was under way before has its time too
                                      ? std::max(connection.posted, burst.begin) + deadline
                                      : last;
      if (now < until) return until;
      burst.ends = std::max(until, last + deadline);
      break;
    }
    const std::uint64_t due = burst.begin + burst.result.sent * gap;
    if (now < due) return due;
    ++burst.result.sent;
    if (connection.queue) {
      connection.pending_of_burst = post(connection, std::min<std::uint32_t>(spec.size, connection.grant.length));
      if (!connection.pending) close_for_now(connection, now);
    }
    if (burst.result.sent == spec.count || (gap == 0 && !connection.pending))
      burst.ends = (gap == 0 ? now : last) + deadline;
  }
  if (connection.pending && now < burst.ends) return burst.ends;
  // One that hangs beyond the deadline takes the turns behind it with it: they are lost, not fewer. Without a gap they
  // had no turn.
  if (gap != 0 && (connection.pending || !connection.queue)) burst.result.sent = spec.count;
  burst.done = true;
  settled_.notify_all();
  return kNever;
}

Result<BurstResult> ReadProber::burst(const BurstSpec& spec) {
  Burst job{spec, {}};
  job.result.rtt.reserve(spec.count);
  std::unique_lock lock(mutex_);
  std::uint64_t id = 0;
  for (auto& [number, connection] : connections_)
    if (connection.peer->peer.name == spec.peer) id = number;
  const auto find = [&]() -> Connection* {
    const auto found = connections_.find(id);
    return found == connections_.end() || found->second.burst != &job ? nullptr : &found->second;
  };
  const auto found = connections_.find(id);
  if (found == connections_.end()) return fail(ErrorKind::kAbsent, spec.peer + ": no such peer of " + record_.device);
  found->second.burst = &job;
  if (!found->second.queue) found->second.connect_after = 0;
  wake(wake_connector_);
  settled_.wait_for(lock, kConnectTime,
                    [&] { return find() == nullptr || find()->queue != nullptr || job.done || stopping_.load(); });
  if (const Connection* connection = find(); connection != nullptr && connection->queue && !job.done) {
    job.begin = clocks_.now();
    wake(wake_reader_);
    while (find() != nullptr && !job.done && !stopping_.load()) settled_.wait_for(lock, std::chrono::milliseconds(100));
    if (!job.done) job.result.sent = spec.count;
  } else if (!job.done) {
    job.result.failure = spec.peer + ": no RC connection";
  }
  if (Connection* connection = find()) {
    connection->burst = nullptr;  // a read under way must not write to a result that is gone
    connection->pending_of_burst = connection->pending_of_burst && connection->pending;
  }
  return std::move(job.result);
}

}  // namespace roce::probe

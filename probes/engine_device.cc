// SPDX-License-Identifier: Apache-2.0
#include "probes/engine_device.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "exporter/base/log.h"
#include "exporter/base/random.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// Signals are for the main thread.
void begin_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, nullptr);
  (void)pthread_setname_np(pthread_self(), name);
}

std::uint32_t random_qkey() {
  std::uint32_t value = 0;
  while (value == 0) value = random_number<std::uint32_t>() & 0x7fffffff;  // the highest bit needs CAP_NET_RAW
  return value;
}

void drain(int fd) {
  std::uint64_t count = 0;
  (void)!read(fd, &count, sizeof count);
}

struct Epoll {
  Epoll() : fd(epoll_create1(EPOLL_CLOEXEC)) {}
  ~Epoll() {
    if (fd >= 0) (void)::close(fd);
  }
  Epoll(const Epoll&) = delete;
  Epoll& operator=(const Epoll&) = delete;
  void add(int other) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = other;
    if (other >= 0) (void)epoll_ctl(fd, EPOLL_CTL_ADD, other, &event);
  }
  int fd;
};

}  // namespace

DeviceUnit::DeviceUnit(Verbs& verbs, std::string device, std::uint8_t port, EndpointSource& source, Callbacks callbacks)
    : verbs_(verbs),
      record_(std::move(device), port),
      callbacks_(std::move(callbacks)),
      prober_(verbs, record_, rings_),
      resolver_(verbs, record_, rings_, source, callbacks_.on_endpoint),
      responder_(verbs, record_, helper_rings_),
      helper_(verbs, record_, helper_rings_),
      reads_(verbs, record_, source) {}

DeviceUnit::~DeviceUnit() {
  close_session();
  resolver_.stop();
  reads_.stop();
  helper_.stop();
  rings_.wake_prober.store(-1);
  helper_rings_.wake_responder.store(-1);
  for (const int fd : {probe_wake_, responder_wake_, timer_})
    if (fd >= 0) (void)::close(fd);
}

Result<void> DeviceUnit::start() {
  probe_wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  responder_wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (probe_wake_ < 0 || responder_wake_ < 0 || timer_ < 0) return fail_errno(errno, "eventfd");
  rings_.wake_prober.store(probe_wake_);
  helper_rings_.wake_responder.store(responder_wake_);
  ROCE_TRY_VOID(resolver_.start());
  ROCE_TRY_VOID(reads_.start());
  return helper_.start();
}

void DeviceUnit::set_status(std::string state, std::string error) {
  const std::lock_guard lock(status_mutex_);
  state_ = std::move(state);
  error_ = std::move(error);
}

void DeviceUnit::status(std::string& state, std::string& error) const {
  {
    const std::lock_guard lock(status_mutex_);
    state = state_;
    error = error_;
  }
  if (state != "active") return;
  if (!port_active_.load(std::memory_order_relaxed)) state = "down";
  if (record_.no_key.load(std::memory_order_relaxed)) error = "no key is in force: nothing is sent or answered";
}

std::optional<Endpoint> DeviceUnit::endpoint() const {
  const std::lock_guard lock(status_mutex_);
  return endpoint_;
}

void DeviceUnit::set_cm_port(std::uint16_t port) {
  const std::lock_guard lock(status_mutex_);
  cm_port_ = port;
  if (endpoint_) endpoint_->cm_port = port;
}

std::optional<Gid> DeviceUnit::gid() const {
  const std::lock_guard lock(status_mutex_);
  return gid_;
}

Result<void> DeviceUnit::open_session(const EngineSettings& settings, std::uint32_t epoch) {
  ROCE_TRY(auto context, verbs_.open(record_.device));
  ROCE_TRY(const PortInfo port, context->port(record_.port));
  ROCE_TRY(const LocalGid local, context->gid(record_.port));
  QueueSpec spec;
  spec.port = record_.port;
  spec.qkey = random_qkey();
  spec.send_slots = EchoProber::kSendSlots;
  spec.receive_slots = EchoProber::kReceiveSlots;
  spec.slot_bytes = std::max<std::uint32_t>(256, settings.payload);
  ROCE_TRY(auto probe_queue, context->create_datagram_queue(spec));
  const std::uint32_t probe_qkey = spec.qkey;
  std::unique_ptr<DatagramQueue> responder_queue;
  if (settings.responder) {
    spec.qkey = random_qkey();
    spec.send_slots = Responder::kSendSlots;
    spec.receive_slots = Responder::kReceiveSlots;
    ROCE_TRY(responder_queue, context->create_datagram_queue(spec));
  }
  context_ = std::move(context);
  probe_queue_ = std::move(probe_queue);
  responder_queue_ = std::move(responder_queue);
  local_ = local;
  mtu_ = port.mtu;
  hardware_.store(probe_queue_->clock().usable());
  port_active_.store(port.active);
  fatal_.store(false);
  gid_changed_.store(false);
  stopping_.store(false);
  prober_.attach(*probe_queue_, probe_qkey, port.active);
  resolver_.attach(*context_, *probe_queue_, local_);
  reads_.attach(*context_, local_, mtu_);
  if (responder_queue_) {
    responder_.attach(*responder_queue_, local_.index);
    helper_.attach(*context_, *responder_queue_);
    Endpoint endpoint;
    endpoint.node = settings.node;
    endpoint.device = record_.device;
    endpoint.port = record_.port;
    endpoint.gid = local_.gid;
    endpoint.qpn = responder_queue_->qpn();
    endpoint.qkey = spec.qkey;
    endpoint.epoch = epoch;
    endpoint.mtu = mtu_;
    endpoint.payload = spec.slot_bytes;
    endpoint.read = true;
    const std::lock_guard lock(status_mutex_);
    endpoint_ = std::move(endpoint);
  }
  {
    const std::lock_guard lock(status_mutex_);
    gid_ = local_.gid;
  }
  {
    const std::lock_guard lock(submit_mutex_);
    probing_ = submittable_ = true;
  }
  probe_thread_ = std::thread([this] { probe_loop(); });
  if (responder_queue_) responder_thread_ = std::thread([this] { respond_loop(); });
  return {};
}

void DeviceUnit::close_session() {
  if (context_ == nullptr) return;
  {
    const std::lock_guard lock(submit_mutex_);
    submittable_ = false;
  }
  stopping_.store(true);
  wake_threads();
  if (probe_thread_.joinable()) probe_thread_.join();
  if (responder_thread_.joinable()) responder_thread_.join();
  {
    const std::lock_guard lock(submit_mutex_);
    probing_ = false;
  }
  // First the helpers let go of the device, then what they handed over is dropped.
  reads_.detach();
  resolver_.detach();
  prober_.detach();
  if (responder_queue_) {
    helper_.detach();
    responder_.detach();
  }
  {
    const std::lock_guard lock(status_mutex_);
    endpoint_.reset();
    gid_.reset();
    cm_port_ = 0;
  }
  probe_queue_.reset();
  responder_queue_.reset();
  context_.reset();
}

bool DeviceUnit::must_close(bool look_at_gid) {
  if (context_ == nullptr) return false;
  if (fatal_.load() || !context_->present()) return true;
  if (gid_changed_.exchange(false) || look_at_gid) {
    const auto local = context_->gid(record_.port);
    if (local && (local->gid != local_.gid || local->index != local_.index)) return true;
  }
  return false;
}

void DeviceUnit::wake_threads() {
  const std::uint64_t one = 1;
  if (probe_wake_ >= 0) (void)!write(probe_wake_, &one, sizeof one);
  if (responder_wake_ >= 0) (void)!write(responder_wake_, &one, sizeof one);
}

bool DeviceUnit::submit(BurstJob& job) {
  const std::lock_guard lock(submit_mutex_);
  if (!submittable_ || !prober_.bursts().push(&job)) return false;
  wake(rings_.wake_prober);
  return true;
}

bool DeviceUnit::snapshot(BaselineSnapshot& wanted) {
  const std::lock_guard lock(submit_mutex_);
  if (!probing_) {
    // Nobody is in step(), and nobody will be while this is held.
    for (BaselineSnapshot::Entry& entry : wanted.entries) entry.detector = entry.pair->detector;
    return true;
  }
  prober_.want_snapshot(&wanted);
  wake(rings_.wake_prober);
  for (int i = 0; i < 500; ++i) {
    if (wanted.done.load(std::memory_order_acquire)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Taken back, or in the middle of being filled.
  if (prober_.cancel_snapshot()) return false;
  while (!wanted.done.load(std::memory_order_acquire)) std::this_thread::yield();
  return true;
}

void DeviceUnit::probe_loop() {
  begin_thread("probe");
  const Epoll epoll;
  const int queue_fd = probe_queue_->event_fd(), event_fd = context_->event_fd();
  for (const int fd : {queue_fd, event_fd, probe_wake_, timer_}) epoll.add(fd);
  std::array<epoll_event, 8> events;
  std::uint64_t timed = 0;  // what timer_ waits for, 0 for nothing
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint64_t next = std::max<std::uint64_t>(prober_.step(), 1);
    while (prober_.spinning(verbs_.now()))
      if (prober_.poll()) break;
    if (timed != next) {
      timed = next;
      itimerspec when{};
      when.it_value.tv_sec = static_cast<time_t>(next / kSecond);
      when.it_value.tv_nsec = static_cast<long>(next % kSecond);
      (void)timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
    }
    const int n = epoll_wait(epoll.fd, events.data(), static_cast<int>(events.size()), 1000);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == queue_fd) {
        (void)prober_.poll();  // first: its time is what is measured
        probe_queue_->take_events();
      } else if (fd == event_fd) {
        for (;;) {
          const DeviceEvent event = context_->take_event();
          if (event == DeviceEvent::kNone) break;
          if (event == DeviceEvent::kFatal) fatal_.store(true);
          if (event == DeviceEvent::kGidChange) gid_changed_.store(true);
          if (event == DeviceEvent::kPortError || event == DeviceEvent::kPortActive)
            port_active_.store(event == DeviceEvent::kPortActive);
          prober_.on_event(event);
          wake(*callbacks_.wake_supervisor);
          wake(helper_rings_.wake_responder);
        }
      } else {
        drain(fd);
        if (fd == timer_) timed = 0;
      }
    }
  }
}

void DeviceUnit::respond_loop() {
  begin_thread("respond");
  const Epoll epoll;
  const int queue_fd = responder_queue_->event_fd();
  for (const int fd : {queue_fd, responder_wake_}) epoll.add(fd);
  std::array<epoll_event, 4> events;
  bool active = true;
  while (!stopping_.load(std::memory_order_acquire)) {
    if (const bool now_active = port_active_.load(); now_active != active) {
      active = now_active;
      responder_.on_event(active ? DeviceEvent::kPortActive : DeviceEvent::kPortError);
    }
    const std::uint64_t next = responder_.step();
    const std::uint64_t now = verbs_.now();
    // Milliseconds are coarse, but only a busy queue or a repair is waited for.
    const int wait = next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(next - now, kSecond) / 1'000'000);
    const int n = epoll_wait(epoll.fd, events.data(), static_cast<int>(events.size()), wait);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == queue_fd) {
        responder_.answer();  // first: a peer measures it
        responder_queue_->take_events();
      } else {
        drain(fd);
      }
    }
  }
}

}  // namespace roce::probe

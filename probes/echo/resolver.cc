// SPDX-License-Identifier: Apache-2.0
#include "probes/echo/resolver.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "exporter/base/log.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kHour = 3600 * kSecond;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::uint8_t kEctZero = 2;
// An address is ended only when no send uses it; one whose completion never comes after this.
constexpr std::uint64_t kLinger = 2 * kSecond;
constexpr std::uint64_t kLingerAtMost = 30 * kSecond;

std::uint64_t back_off(std::uint32_t failures) {
  return std::min<std::uint64_t>(30, 1ULL << std::min<std::uint32_t>(failures > 0 ? failures - 1 : 0, 5)) * kSecond;
}

bool same_way(const Endpoint& a, const Endpoint& b) {
  return a.gid == b.gid && a.qpn == b.qpn && a.qkey == b.qkey && a.epoch == b.epoch;
}

}  // namespace

std::uint32_t flow_label(std::string_view peer, std::uint32_t index, std::uint32_t labels, std::uint64_t hour) {
  const std::uint32_t fixed = labels - (labels > 3 ? std::max<std::uint32_t>(1, labels / 4) : 0);
  // FNV-1a of the name, then mixed with the number.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : peer) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  Random random(hash + index * 0x9e3779b97f4a7c15ULL + (index >= fixed ? hour * 0x2545f4914f6cdd1dULL : 0));
  const auto label = static_cast<std::uint32_t>(random.next() & 0xfffff);
  return label == 0 ? 1 + index : label;
}

Resolver::Resolver(const Verbs& clocks, DeviceRecord& record, ResolverRings& rings, EndpointSource& source,
                   OnEndpoint on_endpoint)
    : clocks_(clocks), record_(record), rings_(rings), source_(source), on_endpoint_(std::move(on_endpoint)) {}

Resolver::~Resolver() {
  stop();
  if (wake_ >= 0) {
    rings_.wake_resolver.store(-1, std::memory_order_release);
    (void)close(wake_);
  }
}

Result<void> Resolver::start() {
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return fail_errno(errno, "eventfd");
  rings_.wake_resolver.store(wake_, std::memory_order_release);
  thread_ = std::thread([this] { loop(); });
  return {};
}

void Resolver::stop() {
  stopping_.store(true, std::memory_order_release);
  closing_.store(true, std::memory_order_release);
  wake(rings_.wake_resolver);
  if (thread_.joinable()) thread_.join();
}

void Resolver::loop() {
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint64_t next = run_once();
    const std::uint64_t now = clocks_.now();
    const std::uint64_t wait = next > now ? std::min<std::uint64_t>(next - now, kSecond) : 0;
    pollfd fd{wake_, POLLIN, 0};
    (void)poll(&fd, 1, static_cast<int>((wait + 999'999) / 1'000'000));
    std::uint64_t count = 0;
    (void)!read(wake_, &count, sizeof count);
  }
}

void Resolver::set_peers(std::vector<std::shared_ptr<PeerRecord>> peers) {
  const std::lock_guard lock(wanted_mutex_);
  wanted_ = std::move(peers);
  wanted_changed_.store(true, std::memory_order_release);
  wake(rings_.wake_resolver);
}

void Resolver::set_settings(const ResolverSettings& settings) {
  const std::lock_guard lock(wanted_mutex_);
  settings_ = settings;
}

void Resolver::attach(Context& context, DatagramQueue& queue, const LocalGid& local) {
  const std::lock_guard lock(session_mutex_);
  context_ = &context;
  queue_ = &queue;
  local_ = local;
  ++session_;
  loopback_wanted_ = true;
  loopback_due_ = 0;
  repair_wanted_ = false;
  closing_.store(false, std::memory_order_release);
  wake(rings_.wake_resolver);
}

void Resolver::detach() {
  closing_.store(true, std::memory_order_release);
  const std::lock_guard lock(session_mutex_);
  ResolvedPeer* retired = nullptr;
  while (rings_.retired.pop(retired)) {
  }
  ResolverRequest request;
  while (rings_.requests.pop(request)) {
  }
  retired_.clear();
  // The handles go with the context.
  owned_.clear();
  context_ = nullptr;
  queue_ = nullptr;
}

void Resolver::take_requests(std::uint64_t now) {
  if (wanted_changed_.exchange(false, std::memory_order_acq_rel)) {
    std::vector<std::shared_ptr<PeerRecord>> wanted;
    {
      const std::lock_guard lock(wanted_mutex_);
      wanted = wanted_;
    }
    std::map<std::uint64_t, Work> next;
    for (auto& peer : wanted) {
      const auto found = work_.find(peer->id);
      Work& work = next[peer->id];
      if (found != work_.end()) work = std::move(found->second);
      work.peer = std::move(peer);
    }
    work_ = std::move(next);
  }
  const std::lock_guard lock(session_mutex_);
  if (context_ == nullptr) return;
  ResolverRequest request;
  while (rings_.requests.pop(request)) {
    switch (request.kind) {
      case ResolverRequest::Kind::kRefresh:
        if (const auto found = work_.find(request.peer); found != work_.end()) {
          Work& work = found->second;
          work.wants_endpoint = true;
          work.because_lost = true;
          work.session = 0;
          work.due = std::min(work.due, now);
        }
        break;
      case ResolverRequest::Kind::kAgain:
        if (const auto found = work_.find(request.peer); found != work_.end()) {
          found->second.session = 0;
          found->second.due = now + kSecond / 20;
        }
        break;
      case ResolverRequest::Kind::kRepair:
        repair_wanted_ = true;
        break;
      case ResolverRequest::Kind::kNone:
        break;
    }
  }
}

void Resolver::destroy(ResolvedPeer& resolved) {
  for (auto& of_class : resolved.addresses)
    for (Address*& address : of_class)
      if (address != nullptr) context_->destroy_address(std::exchange(address, nullptr));
}

void Resolver::collect(std::uint64_t now) {
  const std::lock_guard lock(session_mutex_);
  ResolvedPeer* retired = nullptr;
  while (rings_.retired.pop(retired)) {
    retired->retired = now;
    retired_.push_back(retired);
  }
  std::erase_if(retired_, [&](ResolvedPeer* each) {
    const std::uint64_t age = now - each->retired;
    if (age < kLinger || (each->in_flight.load(std::memory_order_acquire) != 0 && age < kLingerAtMost)) return false;
    if (context_ != nullptr) destroy(*each);
    std::erase_if(owned_, [&](const auto& owner) { return owner.get() == each; });
    return true;
  });
}

void Resolver::repair() {
  const std::lock_guard lock(session_mutex_);
  if (!repair_wanted_ || queue_ == nullptr) return;
  repair_wanted_ = false;
  const auto repaired = queue_->repair();
  if (!repaired) log::warn("repair of the probe queue failed", {{"error", repaired.error().message()}});
  if (repaired) record_.qp_repairs.add();
  ResolverAnswer answer;
  answer.kind = repaired ? ResolverAnswer::Kind::kRepaired : ResolverAnswer::Kind::kRepairFailed;
  if (rings_.answers.push(answer)) wake(rings_.wake_prober);
}

Result<std::unique_ptr<ResolvedPeer>> Resolver::make(const PeerRecord& peer, const Endpoint& endpoint,
                                                     std::uint64_t hour, const ResolverSettings& settings) {
  auto resolved = std::make_unique<ResolvedPeer>();
  resolved->endpoint = endpoint;
  resolved->local = local_;
  resolved->labels = std::clamp<std::uint32_t>(settings.labels, 1, kMaxLabels);
  for (std::uint32_t i = 0; i < resolved->labels; ++i)
    resolved->flow_labels[i] = flow_label(peer.peer.name, i, resolved->labels, hour);
  const std::size_t classes = std::min(peer.classes.size(), kMaxClasses);
  for (std::size_t c = 0; c < classes; ++c)
    for (std::uint32_t i = 0; i < resolved->labels; ++i) {
      if (closing_.load(std::memory_order_acquire)) {
        destroy(*resolved);
        return fail(ErrorKind::kBusy, record_.device + ": closing");
      }
      AddressSpec spec;
      spec.gid = endpoint.gid;
      spec.port = record_.port;
      spec.gid_index = local_.index;
      spec.traffic_class = static_cast<std::uint8_t>(peer.classes[c].dscp << 2 | kEctZero);
      spec.sl = peer.classes[c].sl;
      spec.hop_limit = settings.hop_limit;
      spec.flow_label = resolved->flow_labels[i];
      auto address = context_->create_address(spec);
      if (!address) {
        destroy(*resolved);
        return tl::unexpected<Error>(std::move(address).error());
      }
      resolved->addresses[c][i] = *address;
    }
  return resolved;
}

bool Resolver::hand_over(ResolverAnswer::Kind kind, std::uint64_t peer, std::unique_ptr<ResolvedPeer> resolved) {
  ResolverAnswer answer;
  answer.kind = kind;
  answer.peer = peer;
  answer.resolved = resolved.get();
  if (!rings_.answers.push(answer)) {
    destroy(*resolved);
    return false;
  }
  owned_.push_back(std::move(resolved));
  wake(rings_.wake_prober);
  return true;
}

void Resolver::resolve_loopback() {
  ResolverSettings settings;
  {
    const std::lock_guard lock(wanted_mutex_);
    settings = settings_;
  }
  const std::lock_guard lock(session_mutex_);
  if (context_ == nullptr || !loopback_wanted_ || closing_.load(std::memory_order_acquire)) return;
  const std::uint64_t now = clocks_.now();
  if (now < loopback_due_) return;
  AddressSpec spec;
  spec.gid = local_.gid;
  spec.port = record_.port;
  spec.gid_index = local_.index;
  spec.traffic_class = kEctZero;
  spec.hop_limit = settings.hop_limit;
  spec.flow_label = 1;
  auto address = context_->create_address(spec);
  if (!address) {
    loopback_due_ = now + 10 * kSecond;
    return;
  }
  auto resolved = std::make_unique<ResolvedPeer>();
  resolved->local = local_;
  resolved->endpoint.gid = local_.gid;
  resolved->labels = 1;
  resolved->addresses[0][0] = *address;
  loopback_wanted_ = !hand_over(ResolverAnswer::Kind::kLoopback, 0, std::move(resolved));
}

void Resolver::resolve(Work& work) {
  ResolverSettings settings;
  {
    const std::lock_guard lock(wanted_mutex_);
    settings = settings_;
  }
  const PeerRecord& peer = *work.peer;
  const std::uint64_t hour = clocks_.realtime() / kHour;
  bool same = true;
  if (work.wants_endpoint || !work.have_endpoint) {
    auto endpoint = source_.endpoint(peer.peer);
    if (endpoint) {
      same = work.have_endpoint && same_way(work.endpoint, *endpoint);
      if (work.have_endpoint && !same) record_.endpoint_refreshes.add();
      work.endpoint = std::move(*endpoint);
      work.have_endpoint = true;
      work.wants_endpoint = false;
      {
        const std::lock_guard lock(peer.counters->mutex);
        peer.counters->remote_node = work.endpoint.node;
        peer.counters->remote_device = work.endpoint.device;
      }
      if (on_endpoint_) on_endpoint_(peer, work.endpoint);
    } else {
      log::debug("endpoint of a peer", {{"peer", peer.peer.name}, {"error", endpoint.error().message()}});
      if (!work.have_endpoint) {
        work.peer->unresolved.store(Failure::kNoEndpoint, std::memory_order_relaxed);
        work.due = clocks_.now() + back_off(++work.failures);
        return;
      }
      // The one of before may still hold: new addresses are worth a try, and the question is asked again later.
    }
  }
  const std::lock_guard lock(session_mutex_);
  if (context_ == nullptr || closing_.load(std::memory_order_acquire)) return;
  auto resolved = make(peer, work.endpoint, hour, settings);
  const std::uint64_t now = clocks_.now();
  if (!resolved) {
    log::debug("address of a peer", {{"peer", peer.peer.name}, {"error", resolved.error().message()}});
    work.peer->unresolved.store(Failure::kUnresolved, std::memory_order_relaxed);
    work.wants_endpoint = true;
    work.due = now + back_off(++work.failures);
    return;
  }
  if (work.because_lost) {
    record_.ah_refreshes.add();
    (*resolved)->refreshed = same;
  }
  if (!hand_over(ResolverAnswer::Kind::kResolved, peer.id, std::move(*resolved))) {
    work.due = now + kSecond;
    return;
  }
  work.because_lost = false;
  work.failures = 0;
  work.session = session_;
  work.hour = hour;
}

std::uint64_t Resolver::run_once() {
  take_requests(clocks_.now());
  repair();
  resolve_loopback();
  // One that never failed comes before those that did.
  std::vector<Work*> due;
  std::uint64_t next = kNever;
  const std::uint64_t now = clocks_.now();
  const std::uint64_t hour = clocks_.realtime() / kHour;
  std::uint64_t session = 0;
  {
    const std::lock_guard lock(session_mutex_);
    session = context_ != nullptr ? session_ : 0;
  }
  if (session != 0) {
    for (auto& [id, work] : work_) {
      if (work.session == session && work.hour == hour) continue;
      if (work.due <= now)
        due.push_back(&work);
      else
        next = std::min(next, work.due);
    }
    std::sort(due.begin(), due.end(), [](const Work* a, const Work* b) {
      return std::pair(a->failures, a->due) < std::pair(b->failures, b->due);
    });
  }
  if (!due.empty()) {
    resolve(*due.front());
    next = clocks_.now();  // look again at once, at requests first
  }
  collect(clocks_.now());
  return next;
}

}  // namespace roce::probe

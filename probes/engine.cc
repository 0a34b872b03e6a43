// SPDX-License-Identifier: Apache-2.0
#include "probes/engine.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "exporter/base/log.h"
#include "exporter/base/random.h"
#include "probes/connect/connect_prober.h"
#include "probes/engine_device.h"
#include "probes/measure/detectors.h"
#include "probes/schedule/schedule.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLookAtPort = 10 * kSecond;
constexpr std::uint32_t kMaxBurstGap = 10'000;  // ms
constexpr std::size_t kMaxBursts = 4;
// The far end takes 50 a second of one source, and 50 at once; a longer burst leaves room for the probes beside it.
constexpr std::uint32_t kAtOnce = 40, kFreeBurst = 100;
constexpr std::chrono::milliseconds kShortGap{10}, kBurstGap{30};

template <class T, class U>
std::uint64_t nanoseconds(std::chrono::duration<T, U> duration) {
  const auto ns = std::chrono::nanoseconds(duration).count();
  return ns > 0 ? static_cast<std::uint64_t>(ns) : 0;
}

std::uint32_t random_epoch() {
  std::uint32_t value = 0;
  while (value == 0) value = random_number<std::uint32_t>();
  return value;
}

bool same_class(const QosClass& a, const QosClass& b) { return a.name == b.name && a.dscp == b.dscp && a.sl == b.sl; }

std::string baseline_name(const Peer& peer) { return fmt::format("{}@{}/{}", peer.name, peer.device, peer.port); }

// What is kept when a peer stays, though its address or a class may change.
struct KeptPeer {
  std::shared_ptr<PeerCounters> counters = std::make_shared<PeerCounters>();
  std::map<std::string, std::shared_ptr<PairRecord>> pairs;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(Verbs& verbs, EngineSettings settings, EndpointSource& source)
      : verbs_(verbs), source_(source), settings_(std::move(settings)), epoch_(random_epoch()) {}

  ~EngineImpl() override {
    stopping_.store(true);
    wake(wake_);
    if (supervisor_.joinable()) supervisor_.join();
    {
      const std::lock_guard lock(lifecycle_mutex_);
      for (auto& unit : units_) unit->close_session();
    }
    if (connects_) connects_->stop();  // it tells units of ports
    units_.clear();
    if (const int fd = wake_.exchange(-1); fd >= 0) (void)close(fd);
  }

  Result<void> start() {
    // The first thing of all: it forks, and there should be no threads yet.
    if (settings_.connect_interval.count() > 0) {
      auto agent = ConnectAgent::start();
      if (agent)
        connects_ =
            std::make_unique<ConnectProber>(verbs_, std::move(*agent), source_, epoch_, [this](const auto& ports) {
              for (auto& unit : units_) {
                const auto found = ports.find(unit->record().device);
                unit->set_cm_port(found == ports.end() ? 0 : found->second);
              }
            });
      else
        log::warn("no connect probe", {{"error", agent.error().message()}});
    }
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) return fail_errno(errno, "eventfd");
    wake_.store(fd);
    for (const std::string& device : settings_.devices) {
      DeviceUnit::Callbacks callbacks;
      callbacks.on_endpoint = [this](const PeerRecord& peer, const Endpoint& endpoint) {
        learn(peer.id, endpoint.gid);
        if (connects_) connects_->learn(peer.id, endpoint);
      };
      callbacks.wake_supervisor = &wake_;
      units_.push_back(std::make_unique<DeviceUnit>(verbs_, device, std::uint8_t{1}, source_, std::move(callbacks)));
      ROCE_TRY_VOID(units_.back()->start());
    }
    publish();
    supervisor_ = std::thread([this] { supervise(); });
    return {};
  }

  void set_peers(std::vector<Peer> peers) override {
    {
      const std::lock_guard lock(peers_mutex_);
      wanted_ = std::move(peers);
      rebuild_records();
    }
    publish();
  }

  void set_keys(std::vector<Key> keys) override {
    if (connects_) connects_->set_keys(keys);
    for (auto& unit : units_) {
      for (auto* box : {&unit->prober().keys(), &unit->responder().keys()}) {
        auto made = Authenticator::create(keys);
        if (!made) {
          log::error("keys are not taken", {{"error", made.error().message()}});
          return;
        }
        box->post(std::move(*made));
      }
      unit->wake_threads();
    }
  }

  void set_settings(const EngineSettings& settings) override {
    if (!connects_ && settings.connect_interval.count() > 0)
      log::warn("the connect probe is turned on by a restart only", {{"key", "probes.connect_interval"}});
    bool responder_changed = false;
    {
      const std::lock_guard lock(peers_mutex_);
      EngineSettings next = settings;
      next.devices = settings_.devices;
      next.payload = settings_.payload;
      responder_changed = next.responder != settings_.responder;
      settings_ = std::move(next);
      rebuild_records();
    }
    publish();
    if (responder_changed) {
      const std::lock_guard lock(lifecycle_mutex_);
      for (auto& unit : units_)
        if (unit->open()) {
          unit->close_session();
          unit->open_after = 0;
        }
      wake(wake_);
    }
  }

  std::vector<Endpoint> endpoints() const override {
    std::vector<Endpoint> out;
    for (const auto& unit : units_)
      if (auto endpoint = unit->endpoint()) out.push_back(std::move(*endpoint));
    return out;
  }

  Result<ReadGrant> accept_read(const ReadRequest& request) override {
    for (auto& unit : units_) {
      if (!request.device.empty() && unit->record().device != request.device) continue;
      if (unit->endpoint()) return unit->reads().accept(request);
    }
    return fail(ErrorKind::kAbsent,
                request.device.empty() ? std::string("no device answers") : request.device + ": does not answer");
  }

  EngineStats stats() const override;
  Result<BurstResult> burst(const BurstSpec& spec) override;

  Result<void> release(std::chrono::seconds duration) override {
    if (duration.count() < 0) return fail(ErrorKind::kMalformed, "release: a time of less than 0 s");
    const std::lock_guard lock(lifecycle_mutex_);
    released_until_ = verbs_.now() + nanoseconds(duration);
    const bool gone = !connects_ || connects_->close();
    for (auto& unit : units_) {
      unit->close_session();
      unit->open_after = 0;
      unit->failures = 0;
      unit->set_status("released", "");
    }
    wake(wake_);
    if (!gone) return fail(ErrorKind::kBusy, "a process of rdma_cm hangs in the kernel and may hold a device");
    log::info("released every device", {{"seconds", duration.count()}});
    return {};
  }

  std::string save_baselines() const override;
  void restore_baselines(std::string_view text) override;

 private:
  void supervise();
  std::uint64_t supervise_once();
  void try_open(DeviceUnit& unit, std::uint64_t now);
  void tell_connects();
  void rebuild_records();  // peers_mutex_ is held
  void publish();
  void publish_responders();  // peers_mutex_ is held
  void learn(std::uint64_t peer, const Gid& gid);

  Verbs& verbs_;
  EndpointSource& source_;
  std::vector<std::unique_ptr<DeviceUnit>> units_;  // of the start; never changed
  std::atomic<int> wake_{-1};
  std::atomic<bool> stopping_{false};
  std::thread supervisor_;

  std::mutex lifecycle_mutex_;  // of sessions; held while a device is opened or closed
  std::uint64_t released_until_ = 0;
  std::uint64_t looked_at_port_ = 0;

  mutable std::mutex peers_mutex_;
  EngineSettings settings_;
  const std::uint32_t epoch_;
  std::vector<Peer> wanted_;
  std::vector<std::shared_ptr<PeerRecord>> records_;
  std::map<std::string, KeptPeer> kept_;
  std::map<std::uint64_t, Gid> gids_;  // of peers, as they told
  std::uint64_t next_peer_ = 1;
  std::uint64_t refused_ = 0;
  ResolverSettings labels_;
  std::vector<SavedBaseline> saved_;

  std::unique_ptr<ConnectProber> connects_;

  mutable std::mutex snapshot_mutex_;
  mutable std::mutex bursts_mutex_;
  std::vector<std::string> bursts_;  // peers that one runs to
};

void EngineImpl::rebuild_records() {
  std::vector<std::shared_ptr<PeerRecord>> records;
  std::map<std::string, KeptPeer> kept;
  std::map<std::string, std::size_t> per_device;
  const bool same_labels = labels_.labels == settings_.labels && labels_.hop_limit == settings_.hop_limit;
  labels_.labels = settings_.labels;
  labels_.hop_limit = settings_.hop_limit;
  std::vector<QosClass> classes = settings_.classes;
  if (classes.size() > kMaxClasses) classes.resize(kMaxClasses);
  refused_ = 0;
  for (const Peer& peer : wanted_) {
    if (++per_device[peer.device] > kMaxPeers) {
      ++refused_;
      continue;
    }
    // Whoever adds up the rotating ones takes over what one had that stops being one.
    std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", peer.name, peer.device, peer.port, peer.remote_device,
                                  peer.rotating ? "rotating" : "fixed");
    if (kept.contains(key)) continue;  // the same peer twice
    KeptPeer mine;
    if (const auto before = kept_.find(key); before != kept_.end()) mine = before->second;
    std::shared_ptr<PeerRecord> record;
    if (same_labels)
      for (const auto& existing : records_)
        if (existing->peer == peer && existing->counters == mine.counters &&
            std::equal(existing->classes.begin(), existing->classes.end(), classes.begin(), classes.end(), same_class))
          record = existing;
    if (!record) {
      record = std::make_shared<PeerRecord>(next_peer_++, peer, classes);
      record->counters = mine.counters;
      for (const QosClass& qos : classes) {
        auto& pair = mine.pairs[qos.name];
        if (!pair) {
          pair = std::make_shared<PairRecord>(qos.name);
          if (!peer.rotating)
            for (const SavedBaseline& saved : saved_)
              if (saved.peer == baseline_name(peer) && saved.qos == qos.name) pair->detector.restore(saved.baseline);
        }
        record->pairs.push_back(pair);
      }
      std::erase_if(mine.pairs, [&](const auto& each) {
        return std::none_of(classes.begin(), classes.end(), [&](const QosClass& q) { return q.name == each.first; });
      });
    }
    kept.emplace(std::move(key), std::move(mine));
    records.push_back(std::move(record));
  }
  if (refused_ != 0) log::warn("more peers than one device probes", {{"refused", refused_}, {"at_most", kMaxPeers}});
  records_ = std::move(records);
  kept_ = std::move(kept);
  std::erase_if(gids_, [&](const auto& each) {
    return std::none_of(records_.begin(), records_.end(), [&](const auto& r) { return r->id == each.first; });
  });
}

void EngineImpl::publish() {
  const std::lock_guard lock(peers_mutex_);
  std::size_t pairs = 0;
  for (const auto& record : records_)
    for (const auto& unit : units_)
      if (unit->record().device == record->peer.device && unit->record().port == record->peer.port)
        pairs += record->pairs.size();
  const std::uint64_t interval = stretched_interval(nanoseconds(settings_.interval), settings_.budget, pairs);
  for (auto& unit : units_) {
    auto plan = std::make_unique<ProbePlan>();
    for (const auto& record : records_)
      if (unit->record().device == record->peer.device && unit->record().port == record->peer.port)
        plan->peers.push_back(record);
    plan->interval = interval;
    plan->deadline = std::clamp<std::uint64_t>(nanoseconds(settings_.deadline), 1'000'000, 5 * kSecond);
    plan->loopback_interval = nanoseconds(settings_.loopback_interval);
    plan->payload = std::clamp<std::uint32_t>(settings_.payload, kPacketBytes, kMaxPacketBytes);
    plan->hop_limit = settings_.hop_limit;
    // A busy wait on the only processor would keep whoever is waited for from running.
    plan->spin = std::thread::hardware_concurrency() > 1 ? nanoseconds(settings_.spin) : 0;
    plan->epoch = epoch_;
    unit->resolver().set_settings(labels_);
    auto peers = plan->peers;
    SlowSettings slow;
    slow.read_interval = nanoseconds(settings_.read_interval);
    slow.registration_interval = nanoseconds(settings_.registration_interval);
    slow.hop_limit = settings_.hop_limit;
    unit->reads().set_peers(peers, slow);
    // The plan first: what the resolver hands over is of a peer in it.
    unit->prober().plans().post(std::move(plan));
    unit->resolver().set_peers(std::move(peers));
  }
  if (connects_) connects_->set_peers(records_, nanoseconds(settings_.connect_interval));
  publish_responders();
  for (auto& unit : units_) unit->wake_threads();
}

void EngineImpl::publish_responders() {
  std::vector<Gid> peers;
  for (const auto& [id, gid] : gids_) peers.push_back(gid);
  std::sort(peers.begin(), peers.end());
  for (auto& unit : units_) {
    auto plan = std::make_unique<ResponderPlan>();
    plan->peers = peers;
    plan->allowed = settings_.allowed;
    plan->source_rate = settings_.source_rate;
    plan->total_rate = settings_.total_rate;
    plan->hop_limit = settings_.hop_limit;
    plan->epoch = epoch_;
    unit->responder().plans().post(std::move(plan));
  }
}

void EngineImpl::learn(std::uint64_t peer, const Gid& gid) {
  const std::lock_guard lock(peers_mutex_);
  if (std::none_of(records_.begin(), records_.end(), [&](const auto& r) { return r->id == peer; })) return;
  auto& known = gids_[peer];
  if (known == gid) return;
  known = gid;
  publish_responders();
  for (auto& unit : units_) unit->wake_threads();
}

void EngineImpl::try_open(DeviceUnit& unit, std::uint64_t now) {
  EngineSettings settings;
  {
    const std::lock_guard lock(peers_mutex_);
    settings = settings_;
  }
  const auto opened = unit.open_session(settings, epoch_);
  if (opened) {
    unit.failures = 0;
    unit.set_status("active", "");
    log::info("probing on", {{"device", unit.record().device},
                             {"hardware_timestamps", unit.hardware_timestamps()},
                             {"responder", settings.responder}});
    return;
  }
  const Error& error = opened.error();
  // Each failure waits twice as long, from 1 s to 30 s.
  unit.open_after = now + std::min<std::uint64_t>(30, 1ULL << std::min(unit.failures, 5U)) * kSecond;
  if (unit.failures++ == 0)
    log::warn("device not opened", {{"device", unit.record().device}, {"error", error.message()}});
  unit.set_status(error.kind == ErrorKind::kAbsent ? "absent" : "error", error.message());
}

std::uint64_t EngineImpl::supervise_once() {
  const std::lock_guard lock(lifecycle_mutex_);
  const std::uint64_t now = verbs_.now();
  const bool look = now - looked_at_port_ >= kLookAtPort;
  if (look) looked_at_port_ = now;
  std::uint64_t next = now + kSecond;
  for (auto& unit : units_) {
    unit->prober().plans().collect();
    unit->prober().keys().collect();
    unit->responder().plans().collect();
    unit->responder().keys().collect();
    if (unit->must_close(look)) {
      log::warn("device closed", {{"device", unit->record().device}});
      if (connects_ && !connects_->close()) log::warn("a process of rdma_cm hangs in the kernel");
      unit->close_session();
      unit->failures = 0;
      unit->open_after = now + kSecond / 5;
      unit->set_status("absent", "");
    }
    if (unit->open() || stopping_.load()) continue;
    if (now < released_until_) {
      next = std::min(next, released_until_);
      continue;
    }
    if (now >= unit->open_after) try_open(*unit, now);
    if (!unit->open()) next = std::min(next, unit->open_after);
  }
  tell_connects();
  return next;
}

void EngineImpl::tell_connects() {
  if (!connects_) return;
  std::vector<LocalEnd> ends;
  for (const auto& unit : units_)
    if (const auto gid = unit->gid()) ends.push_back({unit->record().device, *gid, unit->endpoint().has_value()});
  if (!ends.empty()) connects_->set_local(std::move(ends));
}

void EngineImpl::supervise() {
  sigset_t all;
  sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, nullptr);
  (void)pthread_setname_np(pthread_self(), "supervise");
  while (!stopping_.load()) {
    const std::uint64_t next = supervise_once();
    const std::uint64_t now = verbs_.now();
    const std::uint64_t wait = next > now ? std::min(next - now, kSecond) : 0;
    pollfd fds[2] = {{wake_.load(), POLLIN, 0}, {verbs_.removal_fd(), POLLIN, 0}};
    (void)poll(fds, 2, static_cast<int>((wait + 999'999) / 1'000'000));
    std::uint64_t count = 0;
    if (fds[0].revents != 0) (void)!read(fds[0].fd, &count, sizeof count);
    if (fds[1].revents != 0) verbs_.take_removals();
  }
}

EngineStats EngineImpl::stats() const {
  EngineStats out;
  for (const auto& unit : units_) {
    const DeviceRecord& record = unit->record();
    DeviceStats device;
    device.device = record.device;
    device.port = record.port;
    unit->status(device.state, device.error);
    device.hardware_timestamps = unit->hardware_timestamps();
    device.loopback_rtt = record.loopback_rtt.snapshot();
    device.registration = record.registration.snapshot();
    device.scheduler_lag = record.scheduler_lag.snapshot();
    device.local_delay = record.local_delay.snapshot();
    device.loopback_failures = record.loopback_failures.get();
    device.registration_failures = record.registration_failures.get();
    device.skipped = record.skipped.get();
    device.qp_repairs = record.qp_repairs.get() + record.responder_repairs.get();
    device.ah_refreshes = record.ah_refreshes.get();
    device.ah_refresh_recovered = record.ah_refresh_recovered.get();
    device.endpoint_refreshes = record.endpoint_refreshes.get();
    device.throttle = record.throttle.load(std::memory_order_relaxed);
    device.interval_seconds = static_cast<double>(record.interval.load(std::memory_order_relaxed)) * 1e-9;
    device.requests = record.requests.get();
    device.rejected_mac = record.rejected_mac.get();
    device.rejected_replay = record.rejected_replay.get();
    device.rejected_rate = record.rejected_rate.get();
    device.rejected_unknown = record.rejected_unknown.get();
    device.rejected_malformed = record.rejected_malformed.get();
    out.devices.push_back(std::move(device));
  }
  std::vector<std::shared_ptr<PeerRecord>> records;
  {
    const std::lock_guard lock(peers_mutex_);
    records = records_;
    out.refused_peers = refused_;
  }
  for (const auto& record : records) {
    const PeerCounters& counters = *record->counters;
    PeerStats peer;
    peer.peer = record->peer;
    peer.state = counters.state.load(std::memory_order_relaxed);
    peer.hops = counters.hops.load(std::memory_order_relaxed);
    peer.last_success = static_cast<double>(counters.last_success.load(std::memory_order_relaxed)) * 1e-9;
    peer.read_rtt = counters.read_rtt.snapshot();
    peer.connect = counters.connect.snapshot();
    peer.reads_sent = counters.reads_sent.get();
    peer.connects_sent = counters.connects_sent.get();
    peer.mtu_sent = counters.mtu_sent.get();
    peer.mtu_received = counters.mtu_received.get();
    for (std::size_t i = 0; i < kFailures; ++i) {
      peer.read_failures[i] = counters.read_failures[i].get();
      peer.connect_failures[i] = counters.connect_failures[i].get();
      peer.mtu_failures[i] = counters.mtu_failures[i].get();
    }
    peer.responder_delay = counters.responder_delay.snapshot();
    peer.responder_delay_hardware = counters.responder_delay_hardware.load(std::memory_order_relaxed);
    {
      const std::lock_guard lock(counters.mutex);
      peer.remote_node = counters.remote_node;
      peer.remote_device = counters.remote_device;
    }
    for (const auto& from : record->pairs) {
      PairStats pair;
      pair.qos = from->qos;
      pair.sent = from->sent.get();
      pair.received = from->received.get();
      for (std::size_t i = 0; i < kFailures; ++i) pair.failures[i] = from->failures[i].get();
      pair.late = from->late.get();
      pair.duplicates = from->duplicates.get();
      pair.corrupt = from->corrupt.get();
      pair.skipped = from->skipped.get();
      pair.ecn_capable_forward = from->ecn_capable_forward.get();
      pair.ecn_marked_forward = from->ecn_marked_forward.get();
      pair.ecn_capable_back = from->ecn_capable_back.get();
      pair.ecn_marked_back = from->ecn_marked_back.get();
      pair.rtt = from->rtt.snapshot();
      pair.service = from->service.snapshot();
      pair.network = from->network.snapshot();
      pair.baseline_seconds = from->baseline.load(std::memory_order_relaxed);
      pair.anomaly_shift = from->anomaly_shift.load(std::memory_order_relaxed);
      pair.anomaly_tail = from->anomaly_tail.load(std::memory_order_relaxed);
      pair.anomaly_loss = from->anomaly_loss.load(std::memory_order_relaxed);
      peer.classes.push_back(std::move(pair));
    }
    out.peers.push_back(std::move(peer));
  }
  return out;
}

std::string EngineImpl::save_baselines() const {
  const std::lock_guard snapshot_lock(snapshot_mutex_);
  std::vector<std::shared_ptr<PeerRecord>> records;
  {
    const std::lock_guard lock(peers_mutex_);
    records = records_;
  }
  std::vector<SavedBaseline> out;
  for (const auto& unit : units_) {
    BaselineSnapshot snapshot;
    std::vector<std::string> names;
    for (const auto& record : records) {
      if (record->peer.device != unit->record().device || record->peer.rotating) continue;
      for (const auto& pair : record->pairs) {
        snapshot.entries.push_back({pair, PairDetector()});
        names.push_back(baseline_name(record->peer));
      }
    }
    if (snapshot.entries.empty() || !unit->snapshot(snapshot)) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Baseline baseline = snapshot.entries[i].detector.baseline();
      if (baseline == Baseline()) continue;
      out.push_back({names[i], snapshot.entries[i].pair->qos, std::move(baseline)});
    }
  }
  return write_baselines(out);
}

void EngineImpl::restore_baselines(std::string_view text) {
  auto read = read_baselines(text);
  if (!read) {
    log::warn("baselines are not taken", {{"error", read.error().message()}});
    return;
  }
  const std::lock_guard lock(peers_mutex_);
  saved_ = std::move(*read);
}

Result<BurstResult> EngineImpl::burst(const BurstSpec& spec) {
  if (spec.count == 0 || spec.count > kMostBurstProbes)
    return fail(ErrorKind::kMalformed, fmt::format("count {}: 1 to {} are allowed", spec.count, kMostBurstProbes));
  const std::uint32_t least = spec.kind == BurstSpec::Kind::kRead ? 1 : kPacketBytes;
  if (spec.size < least || spec.size > kMaxPacketBytes)
    return fail(ErrorKind::kMalformed,
                fmt::format("size {}: {} to {} bytes are allowed", spec.size, least, kMaxPacketBytes));
  if (spec.gap.count() < 0 || spec.gap.count() > kMaxBurstGap)
    return fail(ErrorKind::kMalformed, fmt::format("gap {} ms: 0 to {} are allowed", spec.gap.count(), kMaxBurstGap));
  std::string device;
  {
    const std::lock_guard lock(peers_mutex_);
    for (const auto& record : records_)
      if (record->peer.name == spec.peer) device = record->peer.device;
  }
  if (device.empty()) return fail(ErrorKind::kAbsent, spec.peer + ": no such peer");
  DeviceUnit* unit = nullptr;
  for (auto& candidate : units_)
    if (candidate->record().device == device) unit = candidate.get();
  if (unit == nullptr) return fail(ErrorKind::kAbsent, device + ": not a device of the prober");
  {
    const std::lock_guard lock(bursts_mutex_);
    if (std::find(bursts_.begin(), bursts_.end(), spec.peer) != bursts_.end())
      return fail(ErrorKind::kBusy, spec.peer + ": a burst to it is under way");
    if (bursts_.size() >= kMaxBursts) return fail(ErrorKind::kBusy, fmt::format("{} bursts are under way", kMaxBursts));
    bursts_.push_back(spec.peer);
  }
  const auto end_burst = [&] {
    const std::lock_guard lock(bursts_mutex_);
    std::erase(bursts_, spec.peer);
  };
  if (spec.kind == BurstSpec::Kind::kRead) {
    auto result = unit->reads().burst(spec);
    end_burst();
    return result;
  }
  BurstJob job;
  job.spec = spec;
  job.spec.gap = spec.kept_gap();
  job.result.rtt.reserve(spec.count);
  job.result.network.reserve(spec.count);
  job.event_fd = eventfd(0, EFD_CLOEXEC);
  if (job.event_fd < 0) {
    const int err = errno;
    end_burst();
    return fail_errno(err, "eventfd");
  }
  BurstResult result;
  // Right after the start the device is not open yet.
  bool submitted = unit->submit(job);
  for (int i = 0; i < 300 && !submitted; ++i) {
    std::string state, error;
    unit->status(state, error);
    if (state != "starting") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    submitted = unit->submit(job);
  }
  if (submitted) {
    // The probe thread always finishes it: in time, or when the device is closed.
    while (!job.done.load(std::memory_order_acquire)) {
      pollfd fd{job.event_fd, POLLIN, 0};
      (void)poll(&fd, 1, 1000);
    }
    std::uint64_t count = 0;
    (void)!read(job.event_fd, &count, sizeof count);  // written after `done`: the probe thread is through with it
    result = std::move(job.result);
  } else {
    std::string state, error;
    unit->status(state, error);
    result.failure = fmt::format("{}: the device is {}{}{}", device, state, error.empty() ? "" : ": ", error);
  }
  (void)close(job.event_fd);
  end_burst();
  return result;
}

}  // namespace

std::chrono::milliseconds BurstSpec::kept_gap() const {
  if (kind != Kind::kEcho || count <= kAtOnce) return gap;
  return std::max(gap, count <= kFreeBurst ? kShortGap : kBurstGap);
}

Result<std::unique_ptr<Engine>> start_engine(Verbs& verbs, const EngineSettings& settings, EndpointSource& source) {
  if (settings.classes.empty()) return fail(ErrorKind::kMalformed, "no class of service to probe");
  auto engine = std::make_unique<EngineImpl>(verbs, settings, source);
  ROCE_TRY_VOID(engine->start());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace roce::probe

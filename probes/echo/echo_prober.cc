// SPDX-License-Identifier: Apache-2.0
#include "probes/echo/echo_prober.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "exporter/base/random.h"

namespace roce::probe {
namespace {

constexpr std::uint8_t kEctZero = 2;
constexpr std::uint8_t kEcnMask = 3;
constexpr std::uint8_t kMarked = 3;
constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::uint32_t kConfirmations = 10;  // probes of a confirmation burst
constexpr std::uint64_t kConfirmGap = 20 * kMillisecond;
constexpr std::uint64_t kResolveTime = 3 * kSecond;  // that a burst waits for an address
constexpr std::uint64_t kPatternEvery = 32;          // one probe in so many carries a pattern
constexpr std::uint64_t kPollAgain = 50'000;         // after EBUSY

constexpr std::uint64_t kHostLag = kMillisecond;  // above it a sample is the host's

std::int64_t signed_time(std::uint64_t now) { return static_cast<std::int64_t>(now); }

std::unique_ptr<Authenticator> make_own() {
  Key key;
  key.id = 255;
  key.secret.resize(32);
  fill_random(std::as_writable_bytes(std::span(key.secret)));
  key.not_after = std::chrono::system_clock::time_point::max();
  auto made = Authenticator::create({&key, 1});
  return made ? std::move(*made) : std::make_unique<Authenticator>();
}

}  // namespace

EchoProber::EchoProber(const Verbs& clocks, DeviceRecord& record, ResolverRings& rings)
    : clocks_(clocks),
      record_(record),
      rings_(rings),
      own_(make_own()),
      pending_(kPending),
      // Far from any sequence of an earlier process, with room to count.
      next_sequence_(random_number<std::uint64_t>() >> 8 | 1),
      oldest_waiting_(next_sequence_),
      random_(random_number<std::uint64_t>()) {}

void EchoProber::attach(DatagramQueue& queue, std::uint32_t qkey, bool port_active) {
  queue_ = &queue;
  qkey_ = qkey;
  clock_ = queue.clock();
  port_active_ = port_active;
  broken_ = repairing_ = poll_again_ = false;
  repair_after_ = 0;
  slot_sequence_.fill(0);
  free_count_ = kSendSlots;
  for (std::size_t i = 0; i < kSendSlots; ++i) free_slots_[i] = static_cast<std::uint32_t>(i);
  const std::uint64_t now = clocks_.now();
  loopback_schedule_ = JitteredSchedule(random_.next());
  if (plan_) loopback_schedule_.start(now, plan_->loopback_interval);
  (void)queue_->arm(true);
}

void EchoProber::detach() {
  for (Pending& entry : pending_) {
    if (entry.state == State::kWaiting) fail(entry, Failure::kFlushed);
    entry = Pending{};
  }
  oldest_waiting_ = next_sequence_;
  for (BurstJob*& job : active_bursts_)
    if (job != nullptr) {
      job->result.failure = record_.device + ": the device was closed";
      finish_burst(*job);
    }
  BurstJob* waiting = nullptr;
  while (bursts_.pop(waiting)) {
    waiting->result.failure = record_.device + ": the device was closed";
    finish_burst(*waiting);
  }
  if (plan_)
    for (const auto& peer : plan_->peers) {
      peer->resolved = nullptr;
      peer->unresolved.store(Failure::kCount_, std::memory_order_relaxed);
    }
  ResolverAnswer answer;
  while (rings_.answers.pop(answer)) {
  }
  loopback_ = nullptr;
  all_unknown();
  queue_ = nullptr;
}

void EchoProber::ask(ResolverRequest request) {
  if (rings_.requests.push(request)) wake(rings_.wake_resolver);
}

void EchoProber::retire(ResolvedPeer* resolved) {
  // When the ring is full the resolver still owns it and ends it with the session.
  if (resolved != nullptr && rings_.retired.push(resolved)) wake(rings_.wake_resolver);
}

EchoProber::Pending* EchoProber::find(std::uint64_t sequence) {
  Pending& entry = pending_[sequence & (kPending - 1)];
  return entry.sequence == sequence && entry.state != State::kFree ? &entry : nullptr;
}

EchoProber::Pending* EchoProber::create() {
  Pending& entry = pending_[next_sequence_ & (kPending - 1)];
  if (entry.state == State::kWaiting) return nullptr;  // more in flight than there is room for
  if (entry.resolved != nullptr) entry.resolved->in_flight.fetch_sub(1, std::memory_order_acq_rel);
  entry = Pending{};
  entry.sequence = next_sequence_++;
  return &entry;
}

// --- what comes from other threads ---

void EchoProber::forget(const ProbePlan& keep) {
  if (!plan_) return;
  for (const auto& peer : plan_->peers) {
    if (std::find(keep.peers.begin(), keep.peers.end(), peer) != keep.peers.end()) continue;
    for (Pending& entry : pending_)
      if (entry.peer == peer.get()) {
        if (entry.state == State::kWaiting) settle(entry);
        if (entry.resolved != nullptr) entry.resolved->in_flight.fetch_sub(1, std::memory_order_acq_rel);
        entry = Pending{};
      }
    for (BurstJob* job : active_bursts_)
      if (job != nullptr && job->peer == peer->id) {
        job->result.failure = peer->peer.name + ": the peer was removed";
        finish_burst(*job);
      }
    retire(std::exchange(peer->resolved, nullptr));
  }
}

void EchoProber::take_mail(std::uint64_t now) {
  take_snapshot();
  (void)keys_.take(authenticator_);
  const bool fresh = plans_.take(plan_, [this](const ProbePlan& next) {
    forget(next);
    // The place of a rotating peer is another peer's now.
    for (const auto& peer : next.peers)
      if (peer->peer.rotating &&
          (!plan_ || std::find(plan_->peers.begin(), plan_->peers.end(), peer) == plan_->peers.end()))
        for (const auto& pair : peer->pairs) pair->detector = PairDetector();
  });
  if (fresh) {
    const std::uint64_t interval = plan_->interval << throttle_.shift();
    record_.interval.store(interval, std::memory_order_relaxed);
    for (const auto& peer : plan_->peers)
      for (const auto& pair : peer->pairs) {
        if (pair->stream == 0) {
          pair->stream = next_stream_++;
          pair->schedule = JitteredSchedule(random_.next());
        }
        pair->schedule.set_period(now, interval);
      }
    if (loopback_schedule_.period() != plan_->loopback_interval)
      loopback_schedule_.start(now, plan_->loopback_interval);
  }
  BurstJob* job = nullptr;
  for (BurstJob*& place : active_bursts_) {
    if (place != nullptr) continue;
    if (!bursts_.pop(job)) break;
    job->stream = next_stream_++;
    job->due = now;
    job->ends = now + kResolveTime;
    place = job;
  }
}

void EchoProber::take_answers(std::uint64_t now) {
  ResolverAnswer answer;
  while (rings_.answers.pop(answer)) adopt(answer, now);
}

void EchoProber::adopt(ResolverAnswer& answer, std::uint64_t now) {
  switch (answer.kind) {
    case ResolverAnswer::Kind::kLoopback:
      retire(std::exchange(loopback_, answer.resolved));
      return;
    case ResolverAnswer::Kind::kRepaired: {
      repairing_ = broken_ = false;
      // What was in the send queue is gone without a completion.
      for (std::size_t slot = 0; slot < kSendSlots; ++slot) {
        Pending* entry = slot_sequence_[slot] != 0 ? find(slot_sequence_[slot]) : nullptr;
        if (entry == nullptr) continue;
        if (entry->resolved != nullptr) entry->resolved->in_flight.fetch_sub(1, std::memory_order_acq_rel);
        entry->resolved = nullptr;
        if (entry->state == State::kWaiting) fail(*entry, Failure::kFlushed);
      }
      slot_sequence_.fill(0);
      free_count_ = kSendSlots;
      for (std::size_t i = 0; i < kSendSlots; ++i) free_slots_[i] = static_cast<std::uint32_t>(i);
      (void)queue_->arm(true);
      return;
    }
    case ResolverAnswer::Kind::kRepairFailed:
      repairing_ = false;
      repair_after_ = now + kSecond;
      return;
    case ResolverAnswer::Kind::kResolved:
      break;
    case ResolverAnswer::Kind::kNone:
      return;
  }
  if (plan_)
    for (const auto& peer : plan_->peers)
      if (peer->id == answer.peer) {
        retire(std::exchange(peer->resolved, answer.resolved));
        peer->recovering = answer.resolved->refreshed;
        if (peer->refreshes == 0) peer->refresh_after = now;
        return;
      }
  // Its plan is still on the way, or the peer has left.
  retire(answer.resolved);
  ask({ResolverRequest::Kind::kAgain, answer.peer});
}

void EchoProber::on_event(DeviceEvent event) {
  switch (event) {
    case DeviceEvent::kPortError:
      port_active_ = false;
      all_unknown();
      break;
    case DeviceEvent::kPortActive:
      port_active_ = true;
      break;
    default:
      break;
  }
}

void EchoProber::all_unknown() {
  if (!plan_) return;
  for (const auto& peer : plan_->peers) {
    for (const auto& pair : peer->pairs) pair->confirm_left = 0;
    peer->counters->state.store(PeerState::kUnknown, std::memory_order_relaxed);
  }
}

void EchoProber::broken() { broken_ = true; }

// --- sending ---

bool EchoProber::post(Pending& entry, Packet& packet, const Gid& to, const Address& address, std::uint32_t qpn,
                      std::uint32_t qkey, Authenticator& authenticator, const Gid& from) {
  if (free_count_ == 0) return false;
  const std::uint32_t slot = free_slots_[free_count_ - 1];
  const auto bytes = queue_->send_slot(slot);
  if (packet.length > bytes.size()) return false;
  write_packet(packet, bytes);
  if (!authenticator.sign(bytes.first(packet.length), from, to, clocks_.realtime())) return false;
  entry.posted = clocks_.now();
  if (queue_->post_send(slot, packet.length, address, qpn, qkey, true) != 0) return false;
  --free_count_;
  slot_sequence_[slot] = entry.sequence;
  entry.state = State::kWaiting;
  return true;
}

bool EchoProber::send(PeerRecord& peer, std::size_t index, Purpose purpose, std::uint64_t scheduled, BurstJob* burst,
                      Failure* why) {
  *why = Failure::kSendError;
  ResolvedPeer& resolved = *peer.resolved;
  PairRecord& pair = *peer.pairs[index];
  Pending* entry = create();
  if (entry == nullptr) return false;
  const std::uint64_t now = clocks_.now();
  const QosClass& qos = peer.classes[index];
  Packet packet;
  packet.kind = PacketKind::kRequest;
  packet.key_id = static_cast<std::uint8_t>(authenticator_->signing_key(clocks_.realtime()));
  packet.flags = clock_.usable() ? kFlagHardware : 0;
  if (++probes_ % kPatternEvery == 0) packet.flags |= kFlagPattern;
  // Never longer than the far end has room for: that would break its queue.
  packet.length = static_cast<std::uint16_t>(
      std::min(burst != nullptr ? burst->spec.size : plan_->payload, resolved.endpoint.payload));
  packet.traffic_class = static_cast<std::uint8_t>(qos.dscp << 2 | kEctZero);
  packet.sl = qos.sl;
  packet.epoch = plan_->epoch;
  packet.sequence = entry->sequence;
  packet.responder_epoch = resolved.endpoint.epoch;
  packet.stream = burst != nullptr ? burst->stream : pair.stream;
  packet.order = ++(burst != nullptr ? burst->order : pair.order);
  packet.delay = now > scheduled ? now - scheduled : 0;
  packet.label = static_cast<std::uint8_t>(pair.next_label++ % resolved.labels);
  packet.flow_label = resolved.flow_labels[packet.label];
  packet.hop_limit = plan_->hop_limit;
  packet.qkey = qkey_;
  entry->purpose = purpose;
  entry->label = packet.label;
  entry->peer = &peer;
  entry->pair = &pair;
  entry->burst = burst;
  entry->scheduled = scheduled;
  Address* address = resolved.addresses[index][packet.label];
  if (address == nullptr || !post(*entry, packet, resolved.endpoint.gid, *address, resolved.endpoint.qpn,
                                  resolved.endpoint.qkey, *authenticator_, resolved.local.gid)) {
    *entry = Pending{};
    return false;
  }
  entry->deadline =
      entry->posted + (burst != nullptr
                           ? static_cast<std::uint64_t>(std::chrono::nanoseconds(burst->spec.deadline).count())
                           : plan_->deadline);
  entry->resolved = &resolved;
  resolved.in_flight.fetch_add(1, std::memory_order_acq_rel);
  if (purpose == Purpose::kProbe) {
    pair.sent.add();
    ++pair.outstanding;
  }
  // Software timestamps are no better than this thread is fast: wait a moment for a reply that is usually fast.
  if (!clock_.usable() && plan_->spin != 0 && recent_rtt_ != 0 && recent_rtt_ < plan_->spin) {
    const std::uint64_t spin = std::min(plan_->spin, 2 * recent_rtt_);
    spin_budget_ = std::min<std::uint64_t>(10 * kMillisecond, spin_budget_ + (now - spin_checked_) / 100);
    spin_checked_ = now;
    if (spin_budget_ >= spin) {
      spin_budget_ -= spin;
      spin_until_ = now + spin;
    }
  } else if (spin_checked_ == 0) {
    spin_checked_ = now;
  }
  return true;
}

void EchoProber::skip(PairRecord& pair, std::uint64_t probes) {
  pair.skipped.add(probes);
  record_.skipped.add(probes);  // the device's own: peers leave
}

void EchoProber::send_probe(PeerRecord& peer, std::size_t index, std::uint64_t scheduled, std::uint64_t now) {
  PairRecord& pair = *peer.pairs[index];
  if (!port_active_ || broken_ || record_.no_key.load(std::memory_order_relaxed) ||
      pair.outstanding >= kMaxOutstanding) {
    skip(pair);
    return;
  }
  if (peer.resolved == nullptr) {
    const Failure why = peer.unresolved.load(std::memory_order_relaxed);
    if (why == Failure::kCount_) {
      skip(pair);  // nobody tried yet
      return;
    }
    pair.fail(why);
    // A neighbour that does not answer is one that is gone; a prober that tells no endpoint may only be restarting.
    if (why == Failure::kUnresolved) {
      pair.detector.lost(signed_time(now));
      if (pair.detector.take_burst()) pair.detector.burst(signed_time(now), kConfirmations, 0);
    }
    update_state(peer);
    return;
  }
  Failure why{};
  if (!send(peer, index, Purpose::kProbe, scheduled, nullptr, &why)) pair.fail(why);
  (void)now;
}

void EchoProber::send_loopback(std::uint64_t scheduled) {
  if (loopback_ == nullptr || !port_active_ || broken_) return;
  if (const Pending* before = find(loopback_sequence_); before != nullptr && before->state == State::kWaiting) return;
  Pending* entry = create();
  if (entry == nullptr) return;
  Packet packet;
  packet.kind = PacketKind::kLoopback;
  packet.key_id = 255;
  packet.traffic_class = kEctZero;
  packet.epoch = plan_->epoch;
  packet.sequence = entry->sequence;
  packet.order = ++loopback_order_;
  entry->purpose = Purpose::kLoopback;
  entry->scheduled = scheduled;
  loopback_sequence_ = entry->sequence;
  if (!post(*entry, packet, loopback_->local.gid, *loopback_->addresses[0][0], queue_->qpn(), qkey_, *own_,
            loopback_->local.gid)) {
    *entry = Pending{};
    record_.loopback_failures.add();
    return;
  }
  entry->deadline = entry->posted + plan_->deadline;
  entry->resolved = loopback_;
  loopback_->in_flight.fetch_add(1, std::memory_order_acq_rel);
}

void EchoProber::finish_burst(BurstJob& job) {
  for (BurstJob*& place : active_bursts_)
    if (place == &job) place = nullptr;
  for (Pending& entry : pending_)
    if (entry.burst == &job) {
      if (entry.resolved != nullptr) entry.resolved->in_flight.fetch_sub(1, std::memory_order_acq_rel);
      entry = Pending{};
    }
  const int fd = job.event_fd;
  job.done.store(true, std::memory_order_release);
  // From here on the job is its owner's.
  const std::uint64_t one = 1;
  if (fd >= 0) (void)!write(fd, &one, sizeof one);
}

void EchoProber::advance_burst(BurstJob& job, std::uint64_t now) {
  if (job.spec.gap.count() == 0 && job.waiting == 0 && job.due == kNever) job.due = now;
  if (job.due > now || job.last_sent) {
    if (job.last_sent && (job.waiting == 0 || now >= job.ends)) finish_burst(job);
    return;
  }
  PeerRecord* peer = nullptr;
  if (plan_)
    for (const auto& candidate : plan_->peers)
      if (candidate->peer.name == job.spec.peer) peer = candidate.get();
  const auto give_up = [&](std::string why) {
    job.result.failure = std::move(why);
    finish_burst(job);
  };
  if (peer == nullptr) return give_up(job.spec.peer + ": no such peer");
  std::size_t index = 0;
  if (!job.spec.qos.empty())
    while (index < peer->classes.size() && peer->classes[index].name != job.spec.qos) ++index;
  if (index >= peer->classes.size()) return give_up(job.spec.qos + ": no such class");
  job.peer = peer->id;
  const bool ready = peer->resolved != nullptr && port_active_ && !broken_ && queue_ != nullptr &&
                     !record_.no_key.load(std::memory_order_relaxed);
  if (job.result.sent == 0 && !ready) {
    if (now < job.ends) {
      job.due = now + 10 * kMillisecond;
      return;
    }
    if (!port_active_) return give_up(record_.device + ": the port is down");
    if (record_.no_key.load(std::memory_order_relaxed)) return give_up("no key is in force");
    if (peer->unresolved.load(std::memory_order_relaxed) == Failure::kUnresolved)
      return give_up(job.spec.peer + ": its address does not resolve");
    return give_up(job.spec.peer + ": its endpoint is not known");
  }
  if (peer->resolved != nullptr && job.spec.size > peer->resolved->endpoint.payload)
    return give_up(
        fmt::format("size {}: {} takes at most {}", job.spec.size, job.spec.peer, peer->resolved->endpoint.payload));
  if (job.spec.size > queue_->send_slot(0).size())
    return give_up(fmt::format("size {}: at most {}", job.spec.size, queue_->send_slot(0).size()));
  Failure why{};
  if (ready && send(*peer, index, Purpose::kBurst, job.due, &job, &why)) ++job.waiting;
  ++job.result.sent;
  if (job.spec.gap.count() != 0)
    job.due += static_cast<std::uint64_t>(std::chrono::nanoseconds(job.spec.gap).count());
  else  // the next one goes when this one is answered or lost
    job.due = job.waiting == 0 ? now + 10 * kMillisecond : kNever;
  if (job.result.sent >= job.spec.count) {
    job.last_sent = true;
    job.ends = now + static_cast<std::uint64_t>(std::chrono::nanoseconds(job.spec.deadline).count());
    if (job.waiting == 0) finish_burst(job);
  }
}

std::uint64_t EchoProber::send_due(std::uint64_t now) {
  std::uint64_t next = kNever;
  if (!plan_) return next;
  const bool no_key = !authenticator_ || authenticator_->signing_key(clocks_.realtime()) < 0;
  record_.no_key.store(no_key, std::memory_order_relaxed);
  std::uint64_t earliest = kNever;
  for (const auto& peer : plan_->peers)
    for (std::size_t index = 0; index < peer->pairs.size(); ++index) {
      PairRecord& pair = *peer->pairs[index];
      // One at most: after a stall there is no burst.
      for (bool first = true; pair.schedule.due() <= now; first = false) {
        const std::uint64_t scheduled = pair.schedule.due();
        earliest = std::min(earliest, scheduled);
        const std::uint64_t lost_intervals = pair.schedule.advance(now);
        if (lost_intervals != 0) skip(pair, lost_intervals);
        if (first)
          send_probe(*peer, index, scheduled, now);
        else
          skip(pair);
      }
      next = std::min(next, pair.schedule.due());
      if (pair.confirm_left != 0) {
        if (pair.confirm_due <= now) {
          Failure why{};
          --pair.confirm_left;
          pair.confirm_due = now + kConfirmGap;
          if (peer->resolved != nullptr && port_active_ && !broken_ && !no_key &&
              send(*peer, index, Purpose::kConfirm, now, nullptr, &why)) {
            ++pair.confirm_waiting;
            ++pair.confirm_sent;
          }
          if (pair.confirm_left == 0 && pair.confirm_waiting == 0) confirmed(*peer, pair, now);
        }
        if (pair.confirm_left != 0) next = std::min(next, pair.confirm_due);
      }
    }
  if (plan_->loopback_interval != 0) {
    while (loopback_schedule_.due() <= now) {
      const std::uint64_t scheduled = loopback_schedule_.due();
      (void)loopback_schedule_.advance(now);
      send_loopback(scheduled);
    }
    next = std::min(next, loopback_schedule_.due());
  }
  for (BurstJob* job : active_bursts_)
    if (job != nullptr) advance_burst(*job, now);
  for (const BurstJob* job : active_bursts_)
    if (job != nullptr) next = std::min(next, job->last_sent ? job->ends : job->due);
  if (earliest != kNever) {
    record_.scheduler_lag.record(now - earliest);
    recent_lag_ = now - earliest;
    if (throttle_.observe(now, now - earliest)) {
      record_.throttle.store(throttle_.share(), std::memory_order_relaxed);
      const std::uint64_t interval = plan_->interval << throttle_.shift();
      record_.interval.store(interval, std::memory_order_relaxed);
      for (const auto& peer : plan_->peers)
        for (const auto& pair : peer->pairs) pair->schedule.set_period(now, interval);
    }
  }
  return next;
}

// --- receiving ---

void EchoProber::on_sent(const Completion& completion) {
  if (completion.slot >= kSendSlots || slot_sequence_[completion.slot] == 0) return;
  Pending* entry = find(slot_sequence_[completion.slot]);
  slot_sequence_[completion.slot] = 0;
  free_slots_[free_count_++] = completion.slot;
  if (completion.status != kWorkSuccess) broken();
  if (entry == nullptr) return;
  if (entry->resolved != nullptr) entry->resolved->in_flight.fetch_sub(1, std::memory_order_acq_rel);
  entry->resolved = nullptr;
  if (completion.status != kWorkSuccess) {
    if (entry->state == State::kWaiting) fail(*entry, failure_of(completion.status));
    return;
  }
  entry->sent = true;
  entry->sent_ticks = completion.ticks;
}

void EchoProber::on_report(const Packet& packet) {
  if ((packet.flags & kFlagReport) == 0 || !clock_.usable()) return;
  Pending* entry = find(packet.report_sequence);
  if (entry == nullptr || entry->pair == nullptr || entry->state != State::kAnswered || !entry->sent ||
      !entry->have_reply_ticks)
    return;
  entry->have_reply_ticks = false;  // once
  const std::uint64_t total = clock_.nanoseconds(entry->sent_ticks, entry->reply_ticks);
  entry->peer->counters->responder_delay.record(packet.report_delay);
  entry->peer->counters->responder_delay_hardware.store(true, std::memory_order_relaxed);
  if (total < packet.report_delay) {
    if (entry->burst == nullptr) entry->pair->fail(Failure::kInvalidTimestamp);
    return;
  }
  const std::uint64_t network = total - packet.report_delay;
  if (entry->burst != nullptr) {
    BurstJob& job = *entry->burst;
    if (job.result.network.size() < job.result.network.capacity()) job.result.network.push_back(network);
  } else {
    entry->pair->network.record(network);
    if (entry->judge_later) {
      entry->pair->detector.answered(signed_time(clocks_.now()), network);
      update_state(*entry->peer);
    }
  }
}

bool EchoProber::on_reply(const Packet& packet, std::span<const std::uint8_t> bytes, const ReceivedHeader* header,
                          const Completion& completion, std::uint64_t polled) {
  if (plan_ == nullptr || packet.epoch != plan_->epoch || !authenticator_) return false;
  Pending* entry = find(packet.sequence);
  if (entry == nullptr || entry->pair == nullptr || entry->peer->resolved == nullptr) return false;
  PairRecord& pair = *entry->pair;
  PeerRecord& peer = *entry->peer;
  const ResolvedPeer& resolved = *peer.resolved;
  Gid sender = resolved.endpoint.gid, receiver = resolved.local.gid;
  if (header != nullptr) {
    sender.raw = header->source;
    receiver.raw = header->destination;
  }
  if (!authenticator_->verify(bytes, sender, receiver, clocks_.realtime()) || !pattern_intact(packet, bytes)) {
    if (entry->burst != nullptr)
      ++entry->burst->result.corrupt;
    else
      pair.corrupt.add();
    return false;
  }
  BurstResult* burst = entry->burst != nullptr ? &entry->burst->result : nullptr;
  if (entry->state == State::kAnswered) {
    if (burst != nullptr)
      ++burst->duplicates;
    else
      pair.duplicates.add();
    return true;
  }
  if (polled - entry->posted > kLateTime) return true;
  // It came before anybody looked, yet after its time.
  if (entry->state == State::kWaiting && polled > entry->deadline) lost(*entry);
  const bool late = entry->state != State::kWaiting;
  entry->rtt = polled - entry->posted;
  if (entry->state == State::kWaiting) settle(*entry);
  entry->state = State::kAnswered;
  if (clock_.usable()) {
    entry->reply_ticks = completion.ticks;
    entry->have_reply_ticks = (packet.flags & kFlagHardware) != 0;
  }
  const std::uint64_t total =
      clock_.usable() && entry->sent ? clock_.nanoseconds(entry->sent_ticks, completion.ticks) : 0;
  recent_rtt_ = recent_rtt_ == 0 ? entry->rtt : (recent_rtt_ * 7 + entry->rtt) / 8;
  if (header != nullptr) {
    // One hop is the wire to the neighbour; each router takes one off.
    if (packet.hop_limit >= header->hop_limit) {
      const std::uint32_t hops = packet.hop_limit - header->hop_limit + 1U;
      peer.counters->hops.store(hops, std::memory_order_relaxed);
      if (burst != nullptr) burst->hops = hops;
    }
    if ((header->traffic_class & kEcnMask) != 0) {
      const bool marked = (header->traffic_class & kEcnMask) == kMarked;
      if (burst != nullptr) {
        ++burst->ecn_capable;
        burst->ecn_marked += marked ? 1 : 0;
      } else {
        pair.ecn_capable_back.add();
        if (marked) pair.ecn_marked_back.add();
      }
    }
  }
  if ((packet.flags & kFlagReceivedHeader) != 0 && (packet.received_traffic_class & kEcnMask) != 0) {
    const bool marked = (packet.received_traffic_class & kEcnMask) == kMarked;
    if (burst != nullptr) {
      ++burst->ecn_capable;
      burst->ecn_marked += marked ? 1 : 0;
    } else {
      pair.ecn_capable_forward.add();
      if (marked) pair.ecn_marked_forward.add();
    }
  }
  if ((packet.flags & kFlagHardware) == 0) {
    peer.counters->responder_delay.record(packet.delay);
    peer.counters->responder_delay_hardware.store(false, std::memory_order_relaxed);
  }
  on_report(packet);
  if (burst != nullptr) {
    if (late) {
      ++burst->late;
    } else {
      ++burst->received;
      if (burst->rtt.size() < burst->rtt.capacity()) burst->rtt.push_back(entry->rtt);
      burst->hardware_timestamps = clock_.usable() && (packet.flags & kFlagHardware) != 0;
    }
    return true;
  }
  if (entry->purpose == Purpose::kConfirm) {
    if (!late) ++pair.confirm_answered;
    if (pair.confirm_left == 0 && pair.confirm_waiting == 0 && !late) confirmed(peer, pair, polled);
    return true;
  }
  // A late one counts as lost already, but how late it was is known.
  pair.rtt.record(entry->rtt);
  pair.service.record(polled > entry->scheduled ? polled - entry->scheduled : 0);
  const std::uint64_t local = total != 0 && entry->rtt >= total ? entry->rtt - total : 0;
  if (total != 0 && entry->rtt >= total) record_.local_delay.record(local);
  if (late) {
    pair.late.add();
    pair.detector.late(signed_time(polled));
    update_state(peer);
    return true;
  }
  pair.received.add();
  // What this host or the far one spoilt says nothing of the network.
  const bool host_limited = recent_lag_ > kHostLag || packet.delay > kHostLag || local > kHostLag;
  if (entry->have_reply_ticks) {
    // Judged by the network's part, which the next reply tells; that the peer is there is known now.
    entry->judge_later = true;
    pair.detector.late(signed_time(polled));
  } else {
    pair.detector.answered(signed_time(polled), total > packet.delay ? total - packet.delay : entry->rtt, host_limited);
  }
  answered(*entry, polled);
  return true;
}

void EchoProber::on_loopback(const Packet& packet, std::span<const std::uint8_t> bytes, const ReceivedHeader* header,
                             std::uint64_t polled) {
  Pending* entry = find(packet.sequence);
  if (entry == nullptr || entry->purpose != Purpose::kLoopback || entry->state != State::kWaiting ||
      loopback_ == nullptr)
    return;
  Gid sender = loopback_->local.gid, receiver = sender;
  if (header != nullptr) {
    sender.raw = header->source;
    receiver.raw = header->destination;
  }
  if (!own_->verify(bytes, sender, receiver, clocks_.realtime())) return;
  settle(*entry);
  entry->state = State::kAnswered;
  record_.loopback_rtt.record(polled - entry->posted);
}

bool EchoProber::on_received(const Completion& completion, std::uint64_t polled) {
  bool reply = false;
  const auto slot = queue_->receive_slot(completion.slot);
  if (completion.status == kWorkSuccess && completion.bytes >= kGrhBytes && completion.bytes <= slot.size()) {
    const auto bytes = slot.subspan(kGrhBytes, completion.bytes - kGrhBytes);
    Packet packet;
    if (read_packet(bytes, packet) == PacketFault::kNone) {
      const auto header = completion.grh ? read_header(slot.first(kGrhBytes)) : std::nullopt;
      const ReceivedHeader* const known = header ? &*header : nullptr;
      if (packet.kind == PacketKind::kReply)
        reply = on_reply(packet, bytes, known, completion, polled);
      else if (packet.kind == PacketKind::kLoopback)
        on_loopback(packet, bytes, known, polled);
    }
  }
  if (completion.status != kWorkSuccess || queue_->post_receive(completion.slot) != 0) broken();
  return reply;
}

bool EchoProber::poll() {
  bool reply = false;
  poll_again_ = false;
  if (queue_ == nullptr || repairing_) return false;
  std::array<Completion, 16> batch;
  // Bounded, so that a flood delays sending by little.
  for (int round = 0; round < 64; ++round) {
    const int n = queue_->poll(batch);
    if (n <= 0) {
      if (n == -EBUSY)
        poll_again_ = true;
      else if (n < 0)
        broken();
      return reply;
    }
    const std::uint64_t polled = clocks_.now();
    for (int i = 0; i < n; ++i) {
      const Completion& completion = batch[static_cast<std::size_t>(i)];
      if (completion.receive)
        reply = on_received(completion, polled) || reply;
      else
        on_sent(completion);
    }
  }
  poll_again_ = true;
  return reply;
}

// --- accounts ---

void EchoProber::settle(Pending& entry) {
  if (entry.burst != nullptr && entry.burst->waiting > 0) --entry.burst->waiting;
  if (entry.pair == nullptr) return;
  if (entry.purpose == Purpose::kProbe && entry.pair->outstanding > 0) --entry.pair->outstanding;
  if (entry.purpose == Purpose::kConfirm && entry.pair->confirm_waiting > 0) --entry.pair->confirm_waiting;
}

void EchoProber::fail(Pending& entry, Failure failure) {
  settle(entry);
  entry.state = State::kFailed;
  if (entry.purpose == Purpose::kLoopback) record_.loopback_failures.add();
  if (entry.pair == nullptr || entry.burst != nullptr || entry.purpose != Purpose::kProbe) return;
  entry.pair->fail(failure);
}

void EchoProber::lost(Pending& entry) {
  const std::uint64_t now = clocks_.now();
  settle(entry);
  entry.state = State::kTimedOut;
  if (entry.purpose == Purpose::kLoopback) {
    record_.loopback_failures.add();
    return;
  }
  if (entry.burst != nullptr) return;
  PairRecord& pair = *entry.pair;
  PeerRecord& peer = *entry.peer;
  if (entry.purpose == Purpose::kConfirm) {
    if (pair.confirm_left == 0 && pair.confirm_waiting == 0) confirmed(peer, pair, now);
    return;
  }
  pair.fail(Failure::kTimeout);
  if (!port_active_) return;  // it says nothing of the peer
  // When this thread itself slept past the deadline the reply may have been dropped for that.
  pair.detector.lost(signed_time(now), recent_lag_ > kHostLag * 10);
  if (pair.detector.take_burst() && pair.confirm_left == 0) {
    pair.confirm_left = kConfirmations;
    pair.confirm_answered = pair.confirm_waiting = pair.confirm_sent = 0;
    pair.confirm_due = now;
  }
  update_state(peer);
  ask_refresh(peer, pair, now);
}

// New addresses and the endpoint again, for a peer that is gone; ever more seldom.
void EchoProber::ask_refresh(PeerRecord& peer, const PairRecord& pair, std::uint64_t now) {
  if (pair.detector.state(signed_time(now)) != PeerState::kDown || now < peer.refresh_after) return;
  peer.refresh_after = now + std::min<std::uint64_t>(30, 2ULL << std::min<std::uint32_t>(peer.refreshes, 4)) * kSecond;
  ++peer.refreshes;
  ask({ResolverRequest::Kind::kRefresh, peer.id});
}

void EchoProber::confirmed(PeerRecord& peer, PairRecord& pair, std::uint64_t now) {
  if (!port_active_) return;
  pair.detector.burst(signed_time(now), pair.confirm_sent, pair.confirm_answered);
  pair.confirm_sent = 0;
  update_state(peer);
  ask_refresh(peer, pair, now);
}

void EchoProber::answered(Pending& entry, std::uint64_t now) {
  PeerRecord& peer = *entry.peer;
  peer.counters->last_success.store(clocks_.realtime(), std::memory_order_relaxed);
  if (peer.recovering) {
    peer.recovering = false;
    record_.ah_refresh_recovered.add();
  }
  peer.refreshes = 0;
  peer.refresh_after = now;
  update_state(peer);
}

void EchoProber::update_state(PeerRecord& peer) {
  const std::int64_t now = signed_time(clocks_.now());
  std::size_t down = 0, known = 0;
  std::array<PeerState, kMaxClasses> states{};
  std::size_t n = 0;
  for (const auto& pair : peer.pairs) {
    const PairDetector& detector = pair->detector;
    pair->anomaly_shift.store(detector.shift(), std::memory_order_relaxed);
    pair->anomaly_tail.store(detector.tail(), std::memory_order_relaxed);
    pair->anomaly_loss.store(detector.loss(), std::memory_order_relaxed);
    pair->baseline.store(static_cast<double>(detector.baseline_ns()) * 1e-9, std::memory_order_relaxed);
    if (n == states.size()) break;
    states[n] = detector.state(now);
    if (states[n] == PeerState::kDown) ++down;
    if (states[n] != PeerState::kUnknown) ++known;
    ++n;
  }
  PeerState worst = worst_state(std::span(states).first(n));
  // One class that is down while another answers is not a peer that is down.
  if (down != 0 && down != known) worst = PeerState::kLossy;
  if (!port_active_) worst = PeerState::kUnknown;
  peer.counters->state.store(worst, std::memory_order_relaxed);
}

void EchoProber::take_snapshot() {
  BaselineSnapshot* const wanted = snapshot_.exchange(nullptr, std::memory_order_acq_rel);
  if (wanted == nullptr) return;
  for (BaselineSnapshot::Entry& entry : wanted->entries) entry.detector = entry.pair->detector;
  wanted->done.store(true, std::memory_order_release);
}

void EchoProber::expire(std::uint64_t now) {
  bool all_before_settled = true;
  const std::uint64_t end = next_sequence_;
  if (end - oldest_waiting_ > kPending) oldest_waiting_ = end - kPending;
  for (std::uint64_t sequence = oldest_waiting_; sequence != end; ++sequence) {
    Pending* entry = find(sequence);
    if (entry != nullptr && entry->state == State::kWaiting && entry->deadline <= now) lost(*entry);
    if (entry != nullptr && entry->state == State::kWaiting) all_before_settled = false;
    if (all_before_settled) oldest_waiting_ = sequence + 1;
  }
}

std::uint64_t EchoProber::step() {
  if (queue_ == nullptr) return kNever;
  std::uint64_t now = clocks_.now();
  take_mail(now);
  take_answers(now);
  (void)poll();
  if (broken_ && !repairing_ && port_active_ && now >= repair_after_) {
    repairing_ = true;
    ask({ResolverRequest::Kind::kRepair, 0});
  }
  now = clocks_.now();
  expire(now);
  std::uint64_t next = send_due(now);
  for (std::uint64_t sequence = oldest_waiting_; sequence != next_sequence_; ++sequence) {
    const Pending* entry = find(sequence);
    if (entry != nullptr && entry->state == State::kWaiting) next = std::min(next, entry->deadline);
  }
  if (!repairing_) {
    // Arm, then look once more: what came in between gives no event.
    if (queue_->arm(true) != 0) broken();
    (void)poll();
    for (const BurstJob* job : active_bursts_)  // that waits for nothing but what was polled just now
      if (job != nullptr && job->waiting == 0 && (job->last_sent || job->due == kNever)) next = now;
  }
  if (broken_ && !repairing_ && port_active_) next = std::min(next, std::max(repair_after_, now));
  if (poll_again_) next = std::min(next, clocks_.now() + kPollAgain);
  return next;
}

}  // namespace roce::probe

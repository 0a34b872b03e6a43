// SPDX-License-Identifier: Apache-2.0
#include "probes/responder/responder.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "exporter/base/random.h"

namespace roce::probe {
namespace {

constexpr std::uint8_t kEctZero = 2;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::uint64_t kIdleWindow = 60 * kSecond;
constexpr std::uint64_t kRetryAddress = 5 * kSecond;
constexpr std::uint64_t kPollAgain = 50'000;
constexpr std::uint64_t kWaitAtMost = 2 * kSecond;  // for an address; nobody waits longer for the reply

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) { return Random(hash ^ value).next(); }
std::uint64_t mix(std::uint64_t hash, const Gid& gid) {
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), gid.raw.data(), sizeof words);
  return mix(mix(hash, words[0]), words[1]);
}

// The entry of a set that matches, else the one to take: a free one, else the one that was not used for longest.
template <class T, class Matches, class Free>
std::pair<std::size_t, bool> look_up(std::vector<T>& table, std::uint64_t hash, std::size_t ways, Matches matches,
                                     Free free) {
  const std::size_t begin = static_cast<std::size_t>(hash % (table.size() / ways)) * ways;
  std::size_t best = begin;
  for (std::size_t i = begin; i < begin + ways; ++i) {
    if (!free(table[i]) && matches(table[i])) return {i, true};
    const bool better = free(table[i]) ? !free(table[best]) : !free(table[best]) && table[i].used < table[best].used;
    if (better) best = i;
  }
  return {best, false};
}

}  // namespace

bool ResponderPlan::allows(const Gid& source) const {
  if (std::binary_search(peers.begin(), peers.end(), source)) return true;
  return std::any_of(allowed.begin(), allowed.end(), [&](const EngineSettings::Prefix& prefix) {
    const std::size_t bits = std::min<std::size_t>(prefix.bits, 128);
    if (!std::equal(source.raw.begin(), source.raw.begin() + static_cast<std::ptrdiff_t>(bits / 8),
                    prefix.gid.raw.begin()))
      return false;
    if (bits % 8 == 0) return true;
    const auto mask = static_cast<std::uint8_t>(0xff00U >> (bits % 8));
    return ((source.raw[bits / 8] ^ prefix.gid.raw[bits / 8]) & mask) == 0;
  });
}

Responder::Responder(const Verbs& clocks, DeviceRecord& record, HelperRings& rings)
    : clocks_(clocks),
      record_(record),
      rings_(rings),
      seed_(random_number<std::uint64_t>()),
      addresses_(kAddresses),
      sources_(kSources),
      windows_(kWindows),
      waiting_(kWaiting) {}

void Responder::reset_slots() {
  for (Sent& sent : sent_) sent.taken = false;
  free_count_ = kSendSlots;
  for (std::size_t i = 0; i < kSendSlots; ++i) free_slots_[i] = static_cast<std::uint32_t>(i);
}

void Responder::attach(DatagramQueue& queue, std::uint32_t gid_index) {
  queue_ = &queue;
  clock_ = queue.clock();
  gid_index_ = gid_index;
  broken_ = repairing_ = poll_again_ = false;
  port_active_ = true;
  repair_after_ = 0;
  reset_slots();
  for (AddressEntry& entry : addresses_) entry = AddressEntry{};
  for (Request& request : waiting_) request.taken = false;
  waiting_count_ = 0;
  (void)queue_->arm(true);
}

void Responder::detach() {
  HelperAnswer answer;
  while (rings_.answers.pop(answer)) {
  }
  for (AddressEntry& entry : addresses_) entry = AddressEntry{};
  queue_ = nullptr;
}

void Responder::on_event(DeviceEvent event) {
  if (event == DeviceEvent::kPortError) port_active_ = false;
  if (event == DeviceEvent::kPortActive) port_active_ = true;
}

bool Responder::source_allowed(const Gid& gid, std::uint64_t now) {
  const auto [at, found] = look_up(
      sources_, mix(seed_, gid), kWays, [&](const Source& s) { return s.gid == gid; },
      [](const Source& s) { return !s.taken; });
  Source& source = sources_[at];
  if (!found) {
    // Whoever is dropped from a full set for a new one must not gain by it: only after its bucket is full again.
    if (source.taken && now - source.used < kSecond) return false;
    source.taken = true;
    source.gid = gid;
    source.bucket = TokenBucket(plan_->source_rate, plan_->source_rate, now);
  } else {
    source.bucket.set(plan_->source_rate, plan_->source_rate);
  }
  source.used = now;
  return source.bucket.take(now) && total_.take(now);
}

std::size_t Responder::find_window(const Gid& gid, const Packet& packet, std::uint64_t now) {
  const std::uint64_t hash = mix(mix(seed_, gid), std::uint64_t{packet.epoch} << 32 | packet.stream);
  const auto [at, found] = look_up(
      windows_, hash, kWays,
      [&](const Window& w) { return w.gid == gid && w.epoch == packet.epoch && w.stream == packet.stream; },
      [](const Window& w) { return !w.taken; });
  Window& window = windows_[at];
  if (!found) {
    if (window.taken && now - window.used < kIdleWindow) return kWindows;
    window = Window{};
    window.gid = gid;
    window.epoch = packet.epoch;
    window.stream = packet.stream;
    window.taken = true;
  }
  window.used = now;
  return at;
}

std::size_t Responder::find_address(const AddressSpec& spec, std::uint64_t now) {
  const std::uint64_t hash = mix(
      mix(seed_, spec.gid), std::uint64_t{spec.flow_label} << 16 | std::uint64_t{spec.traffic_class} << 8 | spec.sl);
  using State = AddressEntry::State;
  const auto [at, found] = look_up(
      addresses_, hash, kWays, [&](const AddressEntry& e) { return e.spec == spec; },
      [](const AddressEntry& e) { return e.state == State::kFree; });
  AddressEntry& entry = addresses_[at];
  const bool retry = found && entry.state == State::kFailed && now - entry.failed >= kRetryAddress;
  if (!found || retry) {
    if (!found && entry.state == State::kAsked) return kAddresses;
    HelperRequest request;
    if (entry.state == State::kReady) {
      request.kind = HelperRequest::Kind::kDestroy;
      request.address = entry.address;
      if (!rings_.requests.push(request)) return kAddresses;
      entry = AddressEntry{};
    }
    request = HelperRequest{};
    request.kind = HelperRequest::Kind::kCreate;
    request.cookie = static_cast<std::uint32_t>(at);
    request.spec = spec;
    if (!rings_.requests.push(request)) return kAddresses;
    wake(rings_.wake_helper);
    entry.state = State::kAsked;
    entry.spec = spec;
    entry.address = nullptr;
  }
  entry.used = now;
  return at;
}

void Responder::take_answers() {
  HelperAnswer answer;
  while (rings_.answers.pop(answer)) {
    if (answer.kind == HelperAnswer::Kind::kRepaired) {
      broken_ = repairing_ = false;
      reset_slots();
      (void)queue_->arm(true);
    } else if (answer.kind == HelperAnswer::Kind::kRepairFailed) {
      repairing_ = false;
      repair_after_ = clocks_.now() + kSecond;
    } else if (answer.kind == HelperAnswer::Kind::kCreated) {
      AddressEntry& entry = addresses_[answer.cookie];
      entry.address = answer.address;
      entry.state = answer.address != nullptr ? AddressEntry::State::kReady : AddressEntry::State::kFailed;
      entry.failed = clocks_.now();
      for (Request& request : waiting_) {
        if (!request.taken || request.address != answer.cookie) continue;
        request.taken = false;
        --waiting_count_;
        if (answer.address != nullptr && clocks_.now() - request.polled < kWaitAtMost) reply(request);
      }
    }
  }
}

void Responder::reply(const Request& request) {
  if (queue_ == nullptr || broken_ || free_count_ == 0) return;
  const AddressEntry& to = addresses_[request.address];
  Window& window = windows_[request.window];
  const std::uint32_t slot = free_slots_[free_count_ - 1];
  const auto bytes = queue_->send_slot(slot);
  Packet packet;
  packet.kind = PacketKind::kReply;
  packet.key_id = request.packet.key_id;
  packet.flags = static_cast<std::uint8_t>((clock_.usable() ? kFlagHardware : 0) |
                                           (request.have_header ? kFlagReceivedHeader : 0) |
                                           (request.packet.flags & kFlagPattern));
  packet.length = request.packet.length;
  if (packet.length > bytes.size()) return;
  packet.traffic_class = to.spec.traffic_class;
  packet.sl = to.spec.sl;
  packet.epoch = request.packet.epoch;
  packet.sequence = request.packet.sequence;
  packet.responder_epoch = plan_->epoch;
  packet.stream = request.packet.stream;
  packet.order = request.packet.order;
  packet.flow_label = request.packet.flow_label;
  packet.label = request.packet.label;
  packet.hop_limit = plan_->hop_limit;
  packet.received_traffic_class = request.received_traffic_class;
  packet.received_hop_limit = request.received_hop_limit;
  // The window may be another's by now; then there is nothing to report.
  const bool same =
      window.taken && window.gid == request.source && window.epoch == packet.epoch && window.stream == packet.stream;
  if (same && window.have_report) {
    packet.flags |= kFlagReport;
    packet.report_sequence = window.report_sequence;
    packet.report_delay = window.report_delay;
  }
  packet.delay = clocks_.now() - request.polled;
  write_packet(packet, bytes);
  if (!authenticator_->sign(bytes.first(packet.length), request.destination, request.source, clocks_.realtime()))
    return;
  if (queue_->post_send(slot, packet.length, *to.address, request.qpn, request.qkey, true) != 0) return;
  --free_count_;
  Sent& sent = sent_[slot];
  sent.taken = true;
  sent.window = request.window;
  sent.sequence = packet.sequence;
  sent.received_ticks = request.ticks;
  sent.source = request.source;
  record_.requests.add();
}

void Responder::on_request(const Completion& completion, std::uint64_t polled) {
  const auto slot = queue_->receive_slot(completion.slot);
  const auto bytes = slot.subspan(kGrhBytes, std::min<std::size_t>(completion.bytes, slot.size()) - kGrhBytes);
  Request request;
  if (completion.bytes > slot.size() || read_packet(bytes, request.packet) != PacketFault::kNone ||
      request.packet.kind != PacketKind::kRequest) {
    record_.rejected_malformed.add();
    return;
  }
  const auto header = completion.grh ? read_header(slot.first(kGrhBytes)) : std::nullopt;
  if (!header) {  // from nowhere
    record_.rejected_malformed.add();
    return;
  }
  request.source.raw = header->source;
  request.destination.raw = header->destination;
  if (!plan_ || !plan_->allows(request.source)) {
    record_.rejected_unknown.add();
    return;
  }
  if (!source_allowed(request.source, polled)) {
    record_.rejected_rate.add();
    return;
  }
  if (!authenticator_ || !authenticator_->verify(bytes, request.source, request.destination, clocks_.realtime()) ||
      !pattern_intact(request.packet, bytes)) {
    record_.rejected_mac.add();
    return;
  }
  // Recorded for an earlier run of this responder.
  if (request.packet.responder_epoch != plan_->epoch) {
    record_.rejected_replay.add();
    return;
  }
  request.window = find_window(request.source, request.packet, polled);
  if (request.window == kWindows) {
    record_.rejected_rate.add();
    return;
  }
  if (!windows_[request.window].seen.accept(request.packet.order)) {
    record_.rejected_replay.add();
    return;
  }
  request.polled = polled;
  request.ticks = completion.ticks;
  request.qpn = completion.source_qpn;
  request.qkey = request.packet.qkey;
  request.have_header = true;
  request.received_traffic_class = header->traffic_class;
  request.received_hop_limit = header->hop_limit;
  AddressSpec spec;
  spec.gid = request.source;
  spec.port = record_.port;
  spec.gid_index = gid_index_;
  // The class that was asked for, never the mark that the request got on its way.
  spec.traffic_class = static_cast<std::uint8_t>((request.packet.traffic_class & ~3) | kEctZero);
  spec.sl = request.packet.sl;
  spec.hop_limit = plan_->hop_limit;
  spec.flow_label = request.packet.flow_label;
  request.address = find_address(spec, polled);
  if (request.address == kAddresses) {
    record_.rejected_rate.add();
    return;
  }
  const AddressEntry& entry = addresses_[request.address];
  if (entry.state == AddressEntry::State::kReady) {
    reply(request);
  } else if (entry.state == AddressEntry::State::kAsked && waiting_count_ < kWaiting) {
    for (Request& place : waiting_)
      if (!place.taken) {
        place = request;
        place.taken = true;
        ++waiting_count_;
        break;
      }
  }
}

void Responder::on_sent(const Completion& completion) {
  if (completion.slot >= kSendSlots || !sent_[completion.slot].taken) return;
  Sent& sent = sent_[completion.slot];
  sent.taken = false;
  free_slots_[free_count_++] = completion.slot;
  if (completion.status != kWorkSuccess) {
    broken_ = true;
    return;
  }
  Window& window = windows_[sent.window];
  if (!clock_.usable() || !window.taken || window.gid != sent.source) return;
  window.report_sequence = sent.sequence;
  window.report_delay = clock_.nanoseconds(sent.received_ticks, completion.ticks);
  window.have_report = true;
}

void Responder::poll(std::uint64_t now) {
  poll_again_ = false;
  std::array<Completion, 16> batch;
  for (int round = 0; round < 64; ++round) {
    const int n = queue_->poll(batch);
    if (n <= 0) {
      if (n == -EBUSY)
        poll_again_ = true;
      else if (n < 0)
        broken_ = true;
      return;
    }
    if (round != 0) now = clocks_.now();
    for (int i = 0; i < n; ++i) {
      const Completion& completion = batch[static_cast<std::size_t>(i)];
      if (!completion.receive) {
        on_sent(completion);
        continue;
      }
      if (completion.status != kWorkSuccess) {
        broken_ = true;
        continue;
      }
      if (completion.bytes >= kGrhBytes) on_request(completion, now);
      if (queue_->post_receive(completion.slot) != 0) broken_ = true;
    }
  }
  poll_again_ = true;
}

void Responder::answer() {
  if (queue_ != nullptr && !repairing_) poll(clocks_.now());
}

std::uint64_t Responder::step() {
  if (queue_ == nullptr) return kNever;
  (void)keys_.take(authenticator_);
  const bool fresh = plans_.take(plan_);
  if (fresh) {
    if (total_rate_ != plan_->total_rate) {
      total_rate_ = plan_->total_rate;
      total_ = TokenBucket(plan_->total_rate, plan_->total_rate, clocks_.now());
    }
  }
  take_answers();
  answer();
  if (!repairing_) {
    if (queue_->arm(true) != 0) broken_ = true;
    poll(clocks_.now());
  }
  const std::uint64_t now = clocks_.now();
  if (broken_ && !repairing_ && port_active_ && now >= repair_after_) {
    HelperRequest request;
    request.kind = HelperRequest::Kind::kRepair;
    if (rings_.requests.push(request)) {
      repairing_ = true;
      wake(rings_.wake_helper);
    }
  }
  if (poll_again_) return now + kPollAgain;
  if (broken_ && !repairing_ && port_active_) return std::max(repair_after_, now + kPollAgain);
  return kNever;
}

}  // namespace roce::probe

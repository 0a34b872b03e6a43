// SPDX-License-Identifier: Apache-2.0
//
// The UD prober of one device: sends on an absolute schedule, matches replies, accounts for what is late, lost, doubled
// or damaged. All of it is one thread's, which calls step() when something happened or is due; nothing here blocks or
// allocates after attach(). What blocks is asked of the resolver, through rings.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "probes/echo/records.h"
#include "probes/schedule/handover.h"
#include "probes/schedule/schedule.h"
#include "probes/verbs/verbs.h"
#include "probes/wire/authenticator.h"
#include "probes/wire/packet.h"

namespace roce::probe {

// What to probe and how often; never changed once handed over.
struct ProbePlan {
  std::vector<std::shared_ptr<PeerRecord>> peers;
  std::uint64_t interval = 1'000'000'000;  // of a pair and class, stretched to the budget
  std::uint64_t deadline = 500'000'000;
  std::uint64_t loopback_interval = 1'000'000'000;  // 0: off
  std::uint32_t payload = kPacketBytes;
  std::uint8_t hop_limit = 64;
  std::uint64_t spin = 0;
  std::uint32_t epoch = 0;
};

// A burst that somebody waits for. The probe thread has it from accept() until `done`.
struct BurstJob {
  BurstSpec spec;
  BurstResult result;  // the vectors have room for all
  std::atomic<bool> done{false};
  int event_fd = -1;  // written when done

  // The probe thread's own.
  std::uint64_t peer = 0;
  std::uint32_t stream = 0;
  std::uint64_t order = 0, due = 0, ends = 0;
  bool last_sent = false;
  std::uint32_t waiting = 0;
};

// Detectors as they are now, copied by the thread that they belong to.
struct BaselineSnapshot {
  struct Entry {
    std::shared_ptr<PairRecord> pair;
    PairDetector detector;
  };
  std::vector<Entry> entries;
  std::atomic<bool> done{false};
};

// What the probe thread asks of the resolver.
struct ResolverRequest {
  enum class Kind : std::uint8_t { kNone, kRefresh, kAgain, kRepair } kind = Kind::kNone;
  std::uint64_t peer = 0;  // kRefresh after losses; kAgain: what was handed over could not be used
};
struct ResolverAnswer {
  enum class Kind : std::uint8_t { kNone, kResolved, kLoopback, kRepaired, kRepairFailed } kind = Kind::kNone;
  std::uint64_t peer = 0;
  ResolvedPeer* resolved = nullptr;
};
// The rings between the two, and how each wakes the other (eventfd; -1: nobody to wake).
struct ResolverRings {
  Ring<ResolverRequest, 256> requests;
  Ring<ResolverAnswer, 256> answers;
  Ring<ResolvedPeer*, 1024> retired;
  std::atomic<int> wake_resolver{-1}, wake_prober{-1};
};

class EchoProber {
 public:
  static constexpr std::size_t kPending = 4096;  // a power of two
  static constexpr std::uint64_t kLateTime = 10'000'000'000;
  static constexpr std::uint32_t kSendSlots = 64;
  static constexpr std::uint32_t kReceiveSlots = 256;
  static constexpr std::size_t kBursts = 4;

  EchoProber(const Verbs& clocks, DeviceRecord& record, ResolverRings& rings);

  // From any thread.
  Mailbox<ProbePlan>& plans() { return plans_; }
  Mailbox<Authenticator>& keys() { return keys_; }
  Ring<BurstJob*, 8>& bursts() { return bursts_; }  // one writer at a time
  // Filled at the next step; `done` then. One at a time.
  void want_snapshot(BaselineSnapshot* snapshot) { snapshot_.store(snapshot, std::memory_order_release); }
  // Takes it back, if it was not filled yet.
  bool cancel_snapshot() { return snapshot_.exchange(nullptr, std::memory_order_acq_rel) != nullptr; }

  // While no thread is in step(). The queue outlives detach(), which finishes bursts and gives all addresses back.
  void attach(DatagramQueue& queue, std::uint32_t qkey, bool port_active);
  void detach();

  // Takes everything that came and sends what is due. Returns the time of the next thing to do.
  std::uint64_t step();
  // Only completions; true when a reply was among them. For the busy wait after a send.
  bool poll();
  bool spinning(std::uint64_t now) const { return now < spin_until_; }
  void on_event(DeviceEvent event);
  bool port_active() const { return port_active_; }

 private:
  enum class State : std::uint8_t { kFree, kWaiting, kTimedOut, kAnswered, kFailed };
  enum class Purpose : std::uint8_t { kProbe, kConfirm, kBurst, kLoopback };
  struct Pending {
    std::uint64_t sequence = 0;
    State state = State::kFree;
    Purpose purpose = Purpose::kProbe;
    std::uint8_t label = 0;
    bool sent = false;  // its send completion came
    bool have_reply_ticks = false;
    bool judge_later = false;  // by the detector, once the network's part is known
    PeerRecord* peer = nullptr;
    PairRecord* pair = nullptr;
    BurstJob* burst = nullptr;
    ResolvedPeer* resolved = nullptr;  // while its send is under way
    std::uint64_t scheduled = 0, posted = 0, deadline = 0;
    std::uint64_t sent_ticks = 0, reply_ticks = 0, rtt = 0;
  };

  void take_mail(std::uint64_t now);
  void take_answers(std::uint64_t now);
  void adopt(ResolverAnswer& answer, std::uint64_t now);
  void forget(const ProbePlan& keep);
  void ask(ResolverRequest request);
  void retire(ResolvedPeer* resolved);

  std::uint64_t send_due(std::uint64_t now);
  bool send(PeerRecord& peer, std::size_t index, Purpose purpose, std::uint64_t scheduled, BurstJob* burst,
            Failure* why);
  void send_probe(PeerRecord& peer, std::size_t index, std::uint64_t scheduled, std::uint64_t now);
  void skip(PairRecord& pair, std::uint64_t probes = 1);
  void send_loopback(std::uint64_t scheduled);
  bool post(Pending& entry, Packet& packet, const Gid& to, const Address& address, std::uint32_t qpn,
            std::uint32_t qkey, Authenticator& authenticator, const Gid& from);
  void advance_burst(BurstJob& job, std::uint64_t now);
  void finish_burst(BurstJob& job);

  void on_sent(const Completion& completion);
  bool on_received(const Completion& completion, std::uint64_t polled);
  bool on_reply(const Packet& packet, std::span<const std::uint8_t> bytes, const ReceivedHeader* header,
                const Completion& completion, std::uint64_t polled);
  void on_loopback(const Packet& packet, std::span<const std::uint8_t> bytes, const ReceivedHeader* header,
                   std::uint64_t polled);
  void on_report(const Packet& packet);
  void expire(std::uint64_t now);
  void fail(Pending& entry, Failure failure);
  void settle(Pending& entry);  // no longer waited for
  void lost(Pending& entry);
  void answered(Pending& entry, std::uint64_t now);
  void ask_refresh(PeerRecord& peer, const PairRecord& pair, std::uint64_t now);
  void take_snapshot();
  void confirmed(PeerRecord& peer, PairRecord& pair, std::uint64_t now);
  void update_state(PeerRecord& peer);
  void all_unknown();
  Pending* find(std::uint64_t sequence);
  Pending* create();
  void broken();

  const Verbs& clocks_;
  DeviceRecord& record_;
  ResolverRings& rings_;
  Mailbox<ProbePlan> plans_;
  Mailbox<Authenticator> keys_;
  Ring<BurstJob*, 8> bursts_;
  std::atomic<BaselineSnapshot*> snapshot_{nullptr};

  std::unique_ptr<ProbePlan> plan_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Authenticator> own_;  // of loopback packets, with a key that nobody knows
  DatagramQueue* queue_ = nullptr;
  std::uint32_t qkey_ = 0;
  DeviceClock clock_;
  std::vector<Pending> pending_;
  std::uint64_t next_sequence_;  // of this process, not from 1: an old reply matches nothing
  std::uint64_t oldest_waiting_;
  std::array<std::uint64_t, kSendSlots> slot_sequence_{};  // 0: the slot is free
  std::array<std::uint32_t, kSendSlots> free_slots_{};
  std::size_t free_count_ = 0;
  std::array<BurstJob*, kBursts> active_bursts_{};
  ResolvedPeer* loopback_ = nullptr;
  std::uint64_t loopback_sequence_ = 0;
  JitteredSchedule loopback_schedule_;
  std::uint64_t loopback_order_ = 0;
  Throttle throttle_;
  Random random_;
  std::uint32_t next_stream_ = 1;
  std::uint64_t spin_until_ = 0, spin_budget_ = 0, spin_checked_ = 0, recent_rtt_ = 0, recent_lag_ = 0;
  std::uint64_t repair_after_ = 0;
  std::uint64_t probes_ = 0;
  bool port_active_ = false, broken_ = false, repairing_ = false, poll_again_ = false;
};

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// Answers probes on one device. A request is looked at in this order: length, form, source, rate, code, replay; what
// fails is counted and never answered. A reply is as long as its request and there is one at most. step() belongs to
// one thread, never blocks and never allocates; addresses are made by a helper thread, and a request waits for its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "probes/echo/records.h"
#include "probes/schedule/handover.h"
#include "probes/schedule/schedule.h"
#include "probes/verbs/verbs.h"
#include "probes/wire/authenticator.h"
#include "probes/wire/packet.h"
#include "probes/wire/replay_window.h"

namespace roce::probe {

// Whom to answer; never changed once handed over.
struct ResponderPlan {
  std::vector<Gid> peers;  // sorted
  std::vector<EngineSettings::Prefix> allowed;
  double source_rate = 50, total_rate = 2000;
  std::uint8_t hop_limit = 64;
  std::uint32_t epoch = 0;

  bool allows(const Gid& source) const;
};

struct HelperRequest {
  enum class Kind : std::uint8_t { kNone, kCreate, kDestroy, kRepair } kind = Kind::kNone;
  std::uint32_t cookie = 0;
  AddressSpec spec;
  Address* address = nullptr;
};
struct HelperAnswer {
  enum class Kind : std::uint8_t { kNone, kCreated, kRepaired, kRepairFailed } kind = Kind::kNone;
  std::uint32_t cookie = 0;
  Address* address = nullptr;  // null: it does not resolve
};
struct HelperRings {
  Ring<HelperRequest, 2048> requests;
  Ring<HelperAnswer, 2048> answers;
  std::atomic<int> wake_helper{-1}, wake_responder{-1};
};

// Makes and ends the responder's addresses.
class ResponderHelper {
 public:
  ResponderHelper(const Verbs& clocks, DeviceRecord& record, HelperRings& rings);
  ~ResponderHelper();
  ResponderHelper(const ResponderHelper&) = delete;
  ResponderHelper& operator=(const ResponderHelper&) = delete;
  Result<void> start();
  void stop();
  void attach(Context& context, DatagramQueue& queue);
  void detach();
  bool run_once();  // true when there may be more to do

 private:
  void loop();
  const Verbs& clocks_;
  DeviceRecord& record_;
  HelperRings& rings_;
  int wake_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::mutex session_mutex_;
  Context* context_ = nullptr;
  DatagramQueue* queue_ = nullptr;
  std::vector<std::pair<std::uint64_t, Address*>> doomed_;  // since when
};

class Responder {
 public:
  static constexpr std::uint32_t kSendSlots = 256;
  static constexpr std::uint32_t kReceiveSlots = 512;
  static constexpr std::size_t kAddresses = 1024, kSources = 1024, kWindows = 4096, kWaiting = 256;
  static constexpr std::size_t kWays = 8;

  Responder(const Verbs& clocks, DeviceRecord& record, HelperRings& rings);

  Mailbox<ResponderPlan>& plans() { return plans_; }
  Mailbox<Authenticator>& keys() { return keys_; }

  void attach(DatagramQueue& queue, std::uint32_t gid_index);
  void detach();
  // Answers what came.
  void answer();
  // The same, and whatever else is due; asks for the next event. Returns when to come again at the latest.
  std::uint64_t step();
  void on_event(DeviceEvent event);

 private:
  struct AddressEntry {
    enum class State : std::uint8_t { kFree, kAsked, kReady, kFailed } state = State::kFree;
    AddressSpec spec;
    Address* address = nullptr;
    std::uint64_t used = 0;
    std::uint64_t failed = 0;
  };
  struct Source {
    Gid gid;
    bool taken = false;
    TokenBucket bucket;
    std::uint64_t used = 0;
  };
  struct Window {
    Gid gid;
    std::uint32_t epoch = 0, stream = 0;
    bool taken = false, have_report = false;
    ReplayWindow seen;
    std::uint64_t used = 0, report_sequence = 0, report_delay = 0;
  };
  // A request whose reply is being made.
  struct Request {
    bool taken = false;
    Packet packet;
    Gid source, destination;
    std::uint64_t polled = 0, ticks = 0;
    std::uint32_t qpn = 0, qkey = 0;
    std::size_t address = 0, window = 0;
    std::uint8_t received_traffic_class = 0, received_hop_limit = 0;
    bool have_header = false;
  };
  struct Sent {
    bool taken = false;
    std::size_t window = 0;
    std::uint64_t sequence = 0, received_ticks = 0;
    Gid source;
  };

  void poll(std::uint64_t now);
  void on_request(const Completion& completion, std::uint64_t polled);
  void on_sent(const Completion& completion);
  void reply(const Request& request);
  void take_answers();
  bool source_allowed(const Gid& gid, std::uint64_t now);
  std::size_t find_window(const Gid& gid, const Packet& packet, std::uint64_t now);  // kWindows: no room
  std::size_t find_address(const AddressSpec& spec, std::uint64_t now);              // kAddresses: no room
  void reset_slots();

  const Verbs& clocks_;
  DeviceRecord& record_;
  HelperRings& rings_;
  Mailbox<ResponderPlan> plans_;
  Mailbox<Authenticator> keys_;
  std::unique_ptr<ResponderPlan> plan_;
  std::unique_ptr<Authenticator> authenticator_;
  DatagramQueue* queue_ = nullptr;
  DeviceClock clock_;
  std::uint32_t gid_index_ = 0;
  TokenBucket total_;
  double total_rate_ = -1;
  std::uint64_t seed_;  // of the hash of the tables, so that nobody can aim at one set
  std::vector<AddressEntry> addresses_;
  std::vector<Source> sources_;
  std::vector<Window> windows_;
  std::vector<Request> waiting_;
  std::size_t waiting_count_ = 0;
  std::array<Sent, kSendSlots> sent_{};
  std::array<std::uint32_t, kSendSlots> free_slots_{};
  std::size_t free_count_ = 0;
  bool broken_ = false, repairing_ = false, port_active_ = true, poll_again_ = false;
  std::uint64_t repair_after_ = 0;
};

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
#include "probes/web/page.h"

#include <algorithm>
#include <array>

#include "probes/measure/histogram_sample.h"

namespace roce::probe {
namespace {

constexpr std::array kStates{PeerState::kOk, PeerState::kDegraded, PeerState::kLossy, PeerState::kDown,
                             PeerState::kUnknown};
constexpr std::array<std::string_view, 5> kDeviceStates{"active", "down", "absent", "released", "error"};
constexpr std::size_t kFailures = static_cast<std::size_t>(Failure::kCount_);
constexpr std::size_t kClassicSeries = kLatencyBounds.size() + 3;  // buckets, +Inf, sum, count

std::uint64_t failures_of(const std::array<std::uint64_t, kFailures>& failures, Failure failure) {
  return failures[static_cast<std::size_t>(failure)];
}

// The page of one device: writes while there is room.
class DevicePage {
 public:
  DevicePage(const DeviceStats& device, const std::vector<const PeerStats*>& peers, bool native, std::size_t most,
             ProbePage& page)
      : device_(device), peers_(peers), histogram_cost_(native ? 1 : kClassicSeries), left_(most), page_(page) {
    port_ = std::to_string(device.port);
  }

  void write() {
    device_itself();
    for (const PeerStats* peer : peers_) loss(*peer);
    for (const PeerStats* peer : peers_) state(*peer);
    for (const PeerStats* peer : peers_) failures_that_happened(*peer);
    histogram(metric::loopback_rtt, {device_.device, port_}, device_.loopback_rtt);
    histogram(metric::scheduler_lag, {device_.device, port_}, device_.scheduler_lag);
    if (device_.hardware_timestamps) histogram(metric::local_delay, {device_.device, port_}, device_.local_delay);
    for (const PeerStats* peer : peers_) counters(*peer);
    for (const PeerStats* peer : peers_) rtt(*peer, true);
    for (const PeerStats* peer : peers_) {
      rtt(*peer, false);
      const std::vector<std::string_view> labels{device_.device, port_, peer->peer.name};
      histogram(metric::read_rtt, labels, peer->read_rtt);
      if (!device_.hardware_timestamps) continue;
      for (const PairStats& pair : peer->classes)
        histogram(metric::network_rtt, {device_.device, port_, peer->peer.name, pair.qos}, pair.network);
      if (peer->responder_delay_hardware) histogram(metric::responder_delay, labels, peer->responder_delay);
    }
    for (const PeerStats* peer : peers_)
      histogram(metric::connect_duration, {device_.device, port_, peer->peer.name}, peer->connect);
    histogram(metric::memory_registration, {device_.device, port_}, device_.registration);
    for (const PeerStats* peer : peers_) failures_at_zero(*peer);
  }

 private:
  bool take(std::size_t series) {
    if (series > left_) {
      page_.dropped += series;
      return false;
    }
    left_ -= series;
    return true;
  }

  void histogram(const MetricDesc& metric, const std::vector<std::string_view>& labels,
                 const HistogramSnapshot& value) {
    if (take(histogram_cost_)) page_.samples.add(metric, labels, to_histogram(value));
  }
  template <class... L>
  void add(const MetricDesc& metric, Value value, const L&... labels) {
    page_.samples.add(metric, {device_.device, port_, std::string_view(labels)...}, value);
  }

  void device_itself() {
    if (!take(kDeviceStates.size() + 1 + 1 + 1 + 2 + 5 + 1 + 5)) return;
    for (const std::string_view state : kDeviceStates) add(metric::device_state, device_.state == state, state);
    add(metric::device_info, 1, device_.hardware_timestamps ? "hardware" : "software");
    add(metric::throttle, device_.throttle);
    add(metric::interval, device_.interval_seconds);
    add(metric::loopback_failures, device_.loopback_failures);
    add(metric::registration_failures, device_.registration_failures);
    add(metric::qp_repairs, device_.qp_repairs);
    add(metric::ah_refreshes, device_.ah_refreshes);
    add(metric::ah_refresh_recovered, device_.ah_refresh_recovered);
    add(metric::endpoint_refreshes, device_.endpoint_refreshes);
    add(metric::skipped, device_.skipped);
    add(metric::responder_requests, device_.requests);
    add(metric::responder_rejected, device_.rejected_mac, "mac");
    add(metric::responder_rejected, device_.rejected_replay, "replay");
    add(metric::responder_rejected, device_.rejected_rate, "rate");
    add(metric::responder_rejected, device_.rejected_unknown, "unknown_peer");
    add(metric::responder_rejected, device_.rejected_malformed, "malformed");
  }

  void loss(const PeerStats& peer) {
    const std::string& name = peer.peer.name;
    for (const PairStats& pair : peer.classes) {
      if (!take(2)) continue;
      add(metric::sent, pair.sent, name, pair.qos);
      add(metric::failures, failures_of(pair.failures, Failure::kTimeout), name, pair.qos,
          to_string(Failure::kTimeout));
    }
  }

  void state(const PeerStats& peer) {
    if (peer.peer.rotating) return;
    const std::string& name = peer.peer.name;
    if (take(kStates.size() + 1)) {
      for (const PeerState one : kStates) add(metric::peer_state, peer.state == one, name, to_string(one));
      if (peer.last_success > 0) add(metric::last_success, peer.last_success, name);
    }
    if (take(1))
      add(metric::peer_info, 1, name, peer.remote_node, peer.remote_device, peer.peer.storage ? "true" : "false");
  }

  // Calls f(failure) for the reasons but timeout.
  template <class F>
  static void each_other(F f) {
    for (std::size_t i = 0; i < kFailures; ++i)
      if (const auto failure = static_cast<Failure>(i); failure != Failure::kTimeout) f(failure);
  }

  void failures_that_happened(const PeerStats& peer) {
    each_other([&](Failure failure) {
      for (const PairStats& pair : peer.classes)
        if (const auto n = failures_of(pair.failures, failure); n != 0 && take(1))
          add(metric::failures, n, peer.peer.name, pair.qos, to_string(failure));
      if (const auto n = failures_of(peer.read_failures, failure); n != 0 && take(1))
        add(metric::read_failures, n, peer.peer.name, to_string(failure));
      if (const auto n = failures_of(peer.mtu_failures, failure); n != 0 && take(1))
        add(metric::mtu_read_failures, n, peer.peer.name, to_string(failure));
      if (const auto n = failures_of(peer.connect_failures, failure); n != 0 && take(1))
        add(metric::connect_failures, n, peer.peer.name, to_string(failure));
    });
  }

  void failures_at_zero(const PeerStats& peer) {
    each_other([&](Failure failure) {
      for (const PairStats& pair : peer.classes)
        if (failures_of(pair.failures, failure) == 0 && take(1))
          add(metric::failures, 0, peer.peer.name, pair.qos, to_string(failure));
    });
    for (const Failure failure : {Failure::kRetryExceeded, Failure::kRemoteAccess, Failure::kNoEndpoint})
      if (failures_of(peer.read_failures, failure) == 0 && take(1))
        add(metric::read_failures, 0, peer.peer.name, to_string(failure));
    if (failures_of(peer.mtu_failures, Failure::kRetryExceeded) == 0 && take(1))
      add(metric::mtu_read_failures, 0, peer.peer.name, to_string(Failure::kRetryExceeded));
  }

  void counters(const PeerStats& peer) {
    const std::string& name = peer.peer.name;
    for (const PairStats& pair : peer.classes) {
      if (!take(3 + 4)) continue;
      add(metric::late, pair.late, name, pair.qos);
      add(metric::duplicates, pair.duplicates, name, pair.qos);
      add(metric::corrupt, pair.corrupt, name, pair.qos);
      add(metric::ecn_capable, pair.ecn_capable_forward, name, pair.qos, "forward");
      add(metric::ecn_capable, pair.ecn_capable_back, name, pair.qos, "back");
      add(metric::ecn_marked, pair.ecn_marked_forward, name, pair.qos, "forward");
      add(metric::ecn_marked, pair.ecn_marked_back, name, pair.qos, "back");
    }
    if (take(7)) {
      add(metric::reads_sent, peer.reads_sent, name);
      add(metric::read_failures, failures_of(peer.read_failures, Failure::kTimeout), name, "timeout");
      add(metric::mtu_reads_sent, peer.mtu_sent, name);
      add(metric::mtu_reads_received, peer.mtu_received, name);
      add(metric::mtu_read_failures, failures_of(peer.mtu_failures, Failure::kTimeout), name, "timeout");
      add(metric::connects_sent, peer.connects_sent, name);
      add(metric::connect_failures, failures_of(peer.connect_failures, Failure::kTimeout), name, "timeout");
    }
    if (peer.peer.rotating) return;
    if (peer.hops != 0 && take(1)) add(metric::hops, peer.hops, name);
    for (const PairStats& pair : peer.classes) {
      if (!take(4)) continue;
      if (pair.baseline_seconds > 0) add(metric::baseline_rtt, pair.baseline_seconds, name, pair.qos);
      add(metric::anomaly, pair.anomaly_shift, name, pair.qos, "shift");
      add(metric::anomaly, pair.anomaly_tail, name, pair.qos, "tail");
      add(metric::anomaly, pair.anomaly_loss, name, pair.qos, "loss");
    }
  }

  void rtt(const PeerStats& peer, bool first) {
    for (std::size_t i = 0; i < peer.classes.size(); ++i)
      if ((i == 0) == first)
        histogram(metric::rtt, {device_.device, port_, peer.peer.name, peer.classes[i].qos}, peer.classes[i].rtt);
  }

  const DeviceStats& device_;
  const std::vector<const PeerStats*>& peers_;
  std::size_t histogram_cost_;
  std::size_t left_;
  ProbePage& page_;
  std::string port_;
};

int rank(const PeerStats& peer) { return peer.peer.rotating ? 2 : peer.peer.storage ? 0 : 1; }

template <std::size_t N>
void add_all(std::array<std::uint64_t, N>& into, const std::array<std::uint64_t, N>& from) {
  for (std::size_t i = 0; i < N; ++i) into[i] += from[i];
}

}  // namespace

void add_to(HistogramSnapshot& into, const HistogramSnapshot& from) {
  add_all(into.buckets, from.buckets);
  into.count += from.count;
  into.sum_ns += from.sum_ns;
  std::vector<std::pair<std::uint16_t, std::uint64_t>> merged;
  merged.reserve(into.fine.size() + from.fine.size());
  auto a = into.fine.begin();
  auto b = from.fine.begin();
  while (a != into.fine.end() || b != from.fine.end()) {
    if (b == from.fine.end() || (a != into.fine.end() && a->first < b->first)) {
      merged.push_back(*a++);
    } else if (a == into.fine.end() || b->first < a->first) {
      merged.push_back(*b++);
    } else {
      merged.emplace_back(a->first, a->second + b->second);
      ++a;
      ++b;
    }
  }
  into.fine = std::move(merged);
}

void add_to(PeerStats& into, const PeerStats& from) {
  for (const PairStats& pair : from.classes) {
    auto own =
        std::find_if(into.classes.begin(), into.classes.end(), [&](const PairStats& p) { return p.qos == pair.qos; });
    if (own == into.classes.end()) {
      own = into.classes.insert(into.classes.end(), PairStats{});
      own->qos = pair.qos;
    }
    own->sent += pair.sent;
    own->received += pair.received;
    add_all(own->failures, pair.failures);
    own->late += pair.late;
    own->duplicates += pair.duplicates;
    own->corrupt += pair.corrupt;
    own->skipped += pair.skipped;
    own->ecn_capable_forward += pair.ecn_capable_forward;
    own->ecn_marked_forward += pair.ecn_marked_forward;
    own->ecn_capable_back += pair.ecn_capable_back;
    own->ecn_marked_back += pair.ecn_marked_back;
    add_to(own->rtt, pair.rtt);
    add_to(own->service, pair.service);
    add_to(own->network, pair.network);
  }
  into.reads_sent += from.reads_sent;
  into.connects_sent += from.connects_sent;
  add_all(into.read_failures, from.read_failures);
  add_all(into.connect_failures, from.connect_failures);
  into.mtu_sent += from.mtu_sent;
  into.mtu_received += from.mtu_received;
  add_all(into.mtu_failures, from.mtu_failures);
  add_to(into.read_rtt, from.read_rtt);
  add_to(into.connect, from.connect);
  add_to(into.responder_delay, from.responder_delay);
  into.responder_delay_hardware = into.responder_delay_hardware || from.responder_delay_hardware;
}

void RotatingTotals::change(Engine& engine, std::vector<Peer> next) {
  const std::lock_guard lock(change_mutex_);
  retire(engine.stats(), next);
  engine.set_peers(std::move(next));
}

RotatingTotals::Reading RotatingTotals::read(const Engine& engine) const {
  const std::lock_guard lock(change_mutex_);
  Reading reading;
  reading.stats = engine.stats();
  reading.published = published(reading.stats);
  return reading;
}

void RotatingTotals::retire(const EngineStats& before, const std::vector<Peer>& next) {
  const std::lock_guard lock(mutex_);
  for (const PeerStats& stats : before.peers) {
    if (!stats.peer.rotating) continue;
    const bool stays = std::any_of(next.begin(), next.end(), [&](const Peer& peer) {
      // As the engine knows a peer again.
      return peer.rotating && peer.name == stats.peer.name && peer.device == stats.peer.device &&
             peer.port == stats.peer.port && peer.remote_device == stats.peer.remote_device;
    });
    if (!stays) add_to(gone_[{stats.peer.device, stats.peer.port}], stats);
  }
}

std::vector<PeerStats> RotatingTotals::published(const EngineStats& stats) const {
  std::vector<PeerStats> peers;
  std::map<std::pair<std::string, std::uint8_t>, PeerStats> sums;
  {
    const std::lock_guard lock(mutex_);
    sums = gone_;
  }
  for (const PeerStats& peer : stats.peers) {
    if (peer.peer.rotating)
      add_to(sums[{peer.peer.device, peer.peer.port}], peer);
    else
      peers.push_back(peer);
  }
  for (auto& [where, sum] : sums) {
    sum.peer.name = kRotating;
    sum.peer.device = where.first;
    sum.peer.port = where.second;
    sum.peer.rotating = true;
    peers.push_back(std::move(sum));
  }
  return peers;
}

ProbePage make_page(const std::vector<DeviceStats>& devices, const std::vector<PeerStats>& peers, bool native,
                    std::size_t most_series) {
  ProbePage page;
  for (const DeviceStats& device : devices) {
    std::vector<const PeerStats*> own;
    for (const PeerStats& peer : peers)
      if (peer.peer.device == device.device && peer.peer.port == device.port) own.push_back(&peer);
    std::sort(own.begin(), own.end(), [](const PeerStats* a, const PeerStats* b) {
      return rank(*a) != rank(*b) ? rank(*a) < rank(*b) : a->peer.name < b->peer.name;
    });
    DevicePage(device, own, native, most_series, page).write();
  }
  return page;
}

}  // namespace roce::probe

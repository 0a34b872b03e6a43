// SPDX-License-Identifier: Apache-2.0
//
// One host of the fabric in memory: a device with prober and responder, whose threads are the test's to play.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "probes/echo/echo_prober.h"
#include "probes/echo/resolver.h"
#include "probes/responder/responder.h"
#include "tests/unit/probes/fake_verbs.h"

namespace roce::probe::fake {

inline Key key_of(std::uint8_t id, char fill = 'k') {
  Key key;
  key.id = id;
  key.secret.assign(32, static_cast<std::uint8_t>(fill));
  key.not_after = std::chrono::system_clock::time_point::max();
  return key;
}

// Endpoints as the peers' HTTPS would tell them.
class Directory final : public EndpointSource {
 public:
  std::map<std::string, Endpoint> endpoints;
  std::uint64_t asked = 0;
  Result<Endpoint> endpoint(const Peer& peer) override {
    ++asked;
    const auto found = endpoints.find(peer.name);
    if (found == endpoints.end()) return fail(ErrorKind::kIo, peer.name + ": connection refused");
    return found->second;
  }
  Result<ReadGrant> connect_read(const Peer&, const ReadRequest&) override { return fail(ErrorKind::kIo, "no"); }
};

class Host {
 public:
  static constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

  Host(Fabric& fabric, Directory& directory, const std::string& device, std::uint32_t epoch = 7)
      : fabric_(fabric),
        device_(*fabric.devices.at(device)),
        record(device, 1),
        prober(fabric, record, rings),
        resolver(fabric, record, rings, directory, nullptr),
        responder(fabric, record, helper_rings),
        helper(fabric, record, helper_rings),
        epoch_(epoch) {
    keys({key_of(1)});
    plan_.epoch = epoch;
    responder_plan_.epoch = epoch;
    responder_plan_.allowed.push_back({*parse_gid("10.0.0.0"), 104});
    responder_plan_.allowed.push_back({*parse_gid("fd00::"), 8});
    open();
  }
  ~Host() { close(); }

  void open() {
    context = std::move(*fabric_.open(record.device));
    QueueSpec spec;
    spec.qkey = 1111;
    spec.send_slots = EchoProber::kSendSlots;
    spec.receive_slots = EchoProber::kReceiveSlots;
    probe_queue = std::move(*context->create_datagram_queue(spec));
    spec.qkey = 2222;
    spec.send_slots = Responder::kSendSlots;
    spec.receive_slots = Responder::kReceiveSlots;
    responder_queue = std::move(*context->create_datagram_queue(spec));
    prober.attach(*probe_queue, 1111, device_.link);
    resolver.attach(*context, *probe_queue, {device_.gid, device_.gid_index});
    responder.attach(*responder_queue, device_.gid_index);
    helper.attach(*context, *responder_queue);
    publish_responder();
  }
  void close() {
    if (!context) return;
    resolver.detach();
    prober.detach();
    helper.detach();
    responder.detach();
    probe_queue.reset();
    responder_queue.reset();
    context.reset();
  }

  void keys(const std::vector<Key>& keys) {
    prober.keys().post(std::move(*Authenticator::create(keys)));
    responder.keys().post(std::move(*Authenticator::create(keys)));
  }
  Endpoint endpoint() const {
    Endpoint out;
    out.node = record.device;
    out.device = record.device;
    out.gid = device_.gid;
    out.qpn = responder_queue->qpn();
    out.qkey = 2222;
    out.epoch = epoch_;
    return out;
  }
  void publish() { prober.plans().post(std::make_unique<ProbePlan>(plan_)); }
  void publish_responder() { responder.plans().post(std::make_unique<ResponderPlan>(responder_plan_)); }
  std::shared_ptr<PeerRecord> probe(const std::string& name, std::vector<QosClass> classes = {{"best", 0, 0}}) {
    Peer peer;
    peer.name = name;
    peer.device = record.device;
    static std::uint64_t next = 1;
    auto made = std::make_shared<PeerRecord>(next++, peer, classes);
    made->counters = std::make_shared<PeerCounters>();
    for (const auto& qos : classes) made->pairs.push_back(std::make_shared<PairRecord>(qos.name));
    plan_.peers.push_back(made);
    resolver.set_peers(plan_.peers);
    publish();
    return made;
  }
  ProbePlan& plan() { return plan_; }
  ResponderPlan& responder_plan() { return responder_plan_; }
  Device& device() { return device_; }

  // One turn of each thread.
  void turn() {
    (void)prober.step();
    (void)resolver.run_once();
    (void)responder.step();
    while (helper.run_once()) {
    }
  }

 private:
  Fabric& fabric_;
  Device& device_;

 public:
  DeviceRecord record;
  ResolverRings rings;
  EchoProber prober;
  Resolver resolver;
  HelperRings helper_rings;
  Responder responder;
  ResponderHelper helper;
  std::unique_ptr<Context> context;
  std::unique_ptr<DatagramQueue> probe_queue, responder_queue;

 private:
  std::uint32_t epoch_;
  ProbePlan plan_;
  ResponderPlan responder_plan_;
};

}  // namespace roce::probe::fake

// SPDX-License-Identifier: Apache-2.0
//
// The command ping: the acceptance test of a node. It has an engine of its own that answers nobody.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "exporter/base/log.h"
#include "exporter/config/text.h"
#include "exporter/config/values.h"
#include "exporter/kernel/files.h"
#include "probes/daemon.h"
#include "probes/measure/summary.h"
#include "probes/peers/discovery.h"
#include "probes/peers/exchange.h"
#include "probes/peers/local.h"
#include "probes/peers/selection.h"
#include "probes/verbs/verbs.h"

namespace roce::probe {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void leave(int code) {
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);
}

[[noreturn]] void end(int code, const std::string& why) {
  std::fprintf(stderr, "roce_prober: %s\n", config::one_line(why, 500).c_str());
  leave(code);
}

// A name of the configuration, or else a host.
std::optional<Peer> find_target(const Options& options, const std::string& device) {
  std::vector<PeerEntry> entries = options.static_peers;
  for (const std::string& pattern : options.file_sd)
    for (const std::string& file : expand(pattern))
      if (const auto text = read_file(file, std::size_t{8} << 20U))
        if (const auto more = parse_file_sd(*text, options.exchange.port))
          entries.insert(entries.end(), more->begin(), more->end());
  Peer peer;
  peer.name = options.ping.target;
  peer.device = device;
  const std::size_t slash = peer.name.rfind('/');
  for (const PeerEntry& entry : entries) {
    const bool whole = entry.node == peer.name;
    const bool of_device = slash != std::string::npos && entry.node == peer.name.substr(0, slash) &&
                           entry.device == peer.name.substr(slash + 1);
    if (!whole && !of_device) continue;
    peer.url = entry.url;
    peer.remote_device = entry.device;
    return peer;
  }
  const auto target = parse_target(peer.name, options.exchange.port);
  if (!target) return std::nullopt;
  peer.url = target->url();
  return peer;
}

// The peer was asked once; the engine is told the same, and asks for a connection of READs alone.
class KnownEndpoint final : public EndpointSource {
 public:
  KnownEndpoint(Endpoint known, EndpointSource& source) : known_(std::move(known)), source_(source) {}
  Result<Endpoint> endpoint(const Peer&) override { return known_; }
  Result<ReadGrant> connect_read(const Peer& peer, const ReadRequest& request) override {
    return source_.connect_read(peer, request);
  }

 private:
  Endpoint known_;
  EndpointSource& source_;
};

struct Measured {
  BurstResult result;
  Summary rtt;
  double loss = 1;
  std::chrono::milliseconds gap{};  // as kept
};

std::vector<std::string> exceeded(const PingOptions& ping, const Measured& m) {
  std::vector<std::string> over;
  const auto time = [&](std::string_view name, const std::optional<std::chrono::microseconds>& limit,
                        std::uint64_t ns) {
    if (limit && ns > static_cast<std::uint64_t>(limit->count()) * 1000)
      over.push_back(
          fmt::format("{} {:.2f} us is above {}", name, static_cast<double>(ns) / 1e3, config::duration_text(*limit)));
  };
  time("median", ping.max_median, m.rtt.median);
  time("p99", ping.max_p99, m.rtt.p99);
  if (ping.max_loss && m.loss > *ping.max_loss)
    over.push_back(fmt::format("loss {:.4g} % is above {:.4g} %", 100 * m.loss, 100 * *ping.max_loss));
  return over;
}

std::string text_of(const Options& options, const Peer& peer, const Measured& m) {
  const PingOptions& ping = options.ping;
  const auto us = [](double ns) { return fmt::format("{:.2f} us", ns / 1e3); };
  const auto line = [](std::string_view name, const std::string& value) {
    return fmt::format("  {:<10}{}\n", name, value);
  };
  const BurstResult& r = m.result;
  std::string out = fmt::format("{} from {}: {} x {} bytes, {}, class {}, {}\n", peer.name, peer.device, r.sent,
                                ping.size, ping.kind == BurstSpec::Kind::kRead ? "RC READ" : "UD echo",
                                ping.qos.empty() ? options.engine.classes.front().name : ping.qos,
                                m.gap.count() == 0 ? "one after another" : "every " + config::duration_text(m.gap));
  out += line("min", us(static_cast<double>(m.rtt.min)));
  out += line("median", us(static_cast<double>(m.rtt.median)));
  out += line("p99", us(static_cast<double>(m.rtt.p99)));
  out += line("p99.9", us(static_cast<double>(m.rtt.p999)));
  out += line("max", us(static_cast<double>(m.rtt.max)));
  out += line("stdev", us(m.rtt.deviation));
  out += line("loss", fmt::format("{} of {} ({:.4g} %), late {}, duplicate {}, corrupt {}",
                                  r.sent - std::min(r.sent, r.received), r.sent, 100 * m.loss, r.late, r.duplicates,
                                  r.corrupt));
  if (r.ecn_capable > 0)
    out += line("marks", fmt::format("{} of {} packets came with a congestion mark", r.ecn_marked, r.ecn_capable));
  if (ping.kind == BurstSpec::Kind::kEcho) out += line("hops", r.hops > 0 ? fmt::to_string(r.hops) : "0");
  if (!r.network.empty())
    out += line("network", us(static_cast<double>(summarise(r.network).median)) + " median, by hardware timestamps");
  out += ping.kind == BurstSpec::Kind::kRead
             ? "These are round trips, as those of `ib_read_lat`.\n"
             : "These are round trips: twice what `ib_send_lat` calls latency, which is one way, and with the wake-ups "
               "of\n"
               "both programs in them, which a tool that spins on an idle pair does not have.\n";
  return out;
}

std::string json_of(const Options& options, const Peer& peer, const Measured& m, const std::vector<std::string>& over) {
  const auto seconds = [](double ns) { return ns / 1e9; };
  const BurstResult& r = m.result;
  return Json{{"peer", peer.name},
              {"device", peer.device},
              {"kind", options.ping.kind == BurstSpec::Kind::kRead ? "read" : "echo"},
              {"size", options.ping.size},
              {"gap_seconds", std::chrono::duration<double>(m.gap).count()},
              {"sent", r.sent},
              {"received", r.received},
              {"late", r.late},
              {"duplicates", r.duplicates},
              {"corrupt", r.corrupt},
              {"loss_ratio", m.loss},
              {"rtt_seconds",
               {{"min", seconds(static_cast<double>(m.rtt.min))},
                {"median", seconds(static_cast<double>(m.rtt.median))},
                {"p99", seconds(static_cast<double>(m.rtt.p99))},
                {"p999", seconds(static_cast<double>(m.rtt.p999))},
                {"max", seconds(static_cast<double>(m.rtt.max))},
                {"stdev", seconds(m.rtt.deviation)}}},
              {"ecn_capable", r.ecn_capable},
              {"ecn_marked", r.ecn_marked},
              {"hops", r.hops},
              {"exceeded", over}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

int ping(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT
  const PingOptions& ping = options.ping;
  if (!ping.qos.empty() && std::none_of(options.engine.classes.begin(), options.engine.classes.end(),
                                        [&](const QosClass& c) { return c.name == ping.qos; }))
    end(2, fmt::format("--qos: found {}, allowed the name of a class of the configuration", config::ticked(ping.qos)));

  EngineSettings settings = engine_settings(options);
  if (!ping.device.empty()) settings.devices = {ping.device};
  if (settings.devices.empty()) end(1, "nothing measured: this host shows no RDMA device");
  settings.responder = false;
  settings.payload = std::max(settings.payload, ping.size);
  // Only the burst: nothing else is sent.
  settings.loopback_interval = settings.connect_interval = settings.registration_interval =
      std::chrono::milliseconds(0);
  settings.read_interval = std::chrono::milliseconds(0);
  const auto peer = find_target(options, settings.devices.front());
  if (!peer)
    end(2, fmt::format("ping: found {}, allowed the name of a peer or HOST[:PORT]", config::ticked(ping.target)));
  settings.devices = {peer->device};
  if (options.keys.empty() && ping.kind == BurstSpec::Kind::kEcho)
    end(1, "nothing measured: no key, without which no responder answers (--keys.file, or keys_file in --config.file)");

  const auto verbs = system_verbs();
  HttpsSource source;
  source.configure(options.exchange,
                   {{peer->device, options.rails.contains(peer->device) ? options.rails.at(peer->device) : "",
                     subnets_of(options.sysfs, peer->device)}});
  // Asked here first, so that the reason is told in its own words. A peer that is slow to answer is asked again.
  auto known = source.endpoint(*peer);
  for (int again = 0; again < 4 && !known && known.error().kind == ErrorKind::kTimeout; ++again)
    known = source.endpoint(*peer);
  if (!known) end(1, "nothing measured: " + known.error().message());
  KnownEndpoint once(std::move(*known), source);
  auto engine = start_engine(*verbs, settings, once);
  if (!engine) end(1, "nothing measured: " + engine.error().message());
  (*engine)->set_keys(options.keys);
  (*engine)->set_peers({*peer});

  BurstSpec spec;
  spec.peer = peer->name;
  spec.count = ping.count;
  spec.gap = std::chrono::ceil<std::chrono::milliseconds>(ping.gap);
  spec.deadline =
      std::max(std::chrono::duration_cast<std::chrono::milliseconds>(ping.deadline), std::chrono::milliseconds(1));
  spec.qos = ping.qos;
  spec.size = ping.size;
  spec.kind = ping.kind;
  auto result = (*engine)->burst(spec);
  if (!result) end(1, "nothing measured: " + result.error().message());
  Measured measured;
  measured.result = std::move(*result);
  measured.gap = spec.kept_gap();
  const BurstResult& r = measured.result;
  if (!r.failure.empty() && r.received == 0) end(1, "nothing measured: " + r.failure);
  measured.rtt = summarise(r.rtt);
  measured.loss = r.sent == 0 ? 1 : 1 - static_cast<double>(std::min(r.received, r.sent)) / static_cast<double>(r.sent);
  if (r.rtt.empty()) end(1, fmt::format("nothing measured: none of {} probes was answered", r.sent));
  const auto over = exceeded(ping, measured);
  std::fputs((ping.json ? json_of(options, *peer, measured, over) : text_of(options, *peer, measured)).c_str(), stdout);
  for (const std::string& limit : over) std::fprintf(stderr, "roce_prober: %s\n", limit.c_str());
  leave(over.empty() ? 0 : 1);
}

}  // namespace roce::probe

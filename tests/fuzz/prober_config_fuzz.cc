// SPDX-License-Identifier: Apache-2.0
//
// The prober's configuration and its keys file. A refusal is one printable line that names the file; what is accepted
// keeps the ceilings, and no burst is configured that the engine would refuse.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "probes/config/options.h"
#include "probes/wire/packet.h"
#include "tests/fuzz/require.h"

namespace {

using namespace roce::probe;

void refused(std::string_view line) {
  require(line.starts_with("fuzz.yml:"), line);
  require(
      std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; }),
      line);
}

void check(const Options& options) {
  const EngineSettings& engine = options.engine;
  require(!engine.classes.empty() && engine.classes.size() <= kMostClasses, "classes");
  for (const QosClass& qos : engine.classes) require(!qos.name.empty() && qos.dscp < 64 && qos.sl < 16, qos.name);
  require(engine.budget > 0 && engine.budget <= kMostProbesASecond, "budget");
  require(engine.payload >= kPacketBytes && engine.payload <= kMaxPacketBytes, "payload");
  require(engine.deadline.count() <= 8 * engine.interval.count(), "deadline");
  require(options.graph.max_peers <= kMostPeers && options.static_peers.size() <= kMostEntries, "peers");
  for (const PeerEntry& entry : options.static_peers)
    require(!entry.node.empty() && entry.url.starts_with("https://"), entry.url);
  for (const DnsSource& source : options.dns) require(!source.name.empty() && source.port != 0, source.name);
  for (const char* name : {"echo", "read"}) require(options.modules.contains(name), name);
  for (const auto& [name, module] : options.modules) {
    const BurstSpec& burst = module.burst;
    const std::size_t least = burst.kind == BurstSpec::Kind::kRead ? 1 : kPacketBytes;
    require(burst.size >= least && burst.size <= kMaxPacketBytes, name);
    require(burst.count >= 1 && burst.count <= kMostBurstProbes && burst.gap.count() >= 1, name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto options = apply_config_text(text, "fuzz.yml", Options()))
    check(*options);
  else
    refused(options.error());
  if (const auto keys = read_keys_text(text, "fuzz.yml", false))
    require(keys->size() == 1 || (keys->size() == 2 && (*keys)[0].id != (*keys)[1].id), "keys");
  else
    refused(keys.error());
  (void)parse_time(text);
  if (const auto prefix = parse_prefix(text)) require(prefix->bits <= 128, text);
  return 0;
}

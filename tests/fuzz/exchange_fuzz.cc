// SPDX-License-Identifier: Apache-2.0
//
// JSON from elsewhere that the prober reads: lists of targets in file_sd files, endpoints and READ halves of other
// nodes. What is accepted is within its limits and reads the same when it is written again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "probes/peers/entry.h"
#include "probes/peers/exchange.h"
#include "probes/peers/token.h"
#include "tests/fuzz/require.h"

namespace {

using namespace roce::probe;

void read_targets(std::string_view text) {
  const auto entries = parse_file_sd(text, 14792);
  if (!entries) {
    const std::string& line = entries.error();
    require(line.starts_with("found "), line);
    require(std::all_of(line.begin(), line.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; }),
            line);
    return;
  }
  require(entries->size() <= kMostEntries, "too many entries");
  for (const PeerEntry& entry : *entries) require(!entry.node.empty() && entry.url.starts_with("https://"), entry.url);
}

void read_endpoints(std::string_view text) {
  const auto endpoints = parse_endpoints(text);
  if (!endpoints) return;
  require(endpoints->size() <= kMostEndpoints, "too many endpoints");
  const std::string node = endpoints->empty() ? std::string() : endpoints->front().endpoint.node;
  for (const auto& [e, rail] : *endpoints) {
    require(e.node == node && e.port >= 1 && e.qpn >= 1 && e.qpn <= 0xFFFFFF, e.device);
    require(e.payload >= 128 && e.payload <= 4096 && e.mtu >= 256, e.device);
    const auto* chosen = choose_endpoint(*endpoints, e.device, {e.device, rail, {}});
    require(chosen != nullptr && (e.device.empty() || chosen->endpoint.device == e.device), e.device);
    require(parse_gid(to_text(e.gid)) == e.gid, e.device);
    require(!address_text(e.gid).empty(), e.device);
  }
  const std::string once = endpoints_json(node, *endpoints);
  // Written out in full it may be above the limit.
  const auto again = parse_endpoints(once);
  require(once.size() > kMostExchangeBytes || (again && endpoints_json(node, *again) == once), once);
}

template <class T>
void read_half(const roce::Result<T>& half, roce::Result<T> (*parse)(std::string_view)) {
  if (!half) return;
  const std::string once = to_json(*half);
  const auto again = parse(once);
  require(again && to_json(*again) == once, once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_targets(text);
  read_endpoints(text);
  read_half(parse_read_request(text), parse_read_request);
  read_half(parse_read_grant(text), parse_read_grant);
  if (const auto target = parse_target(text, 14792)) require(target->url().starts_with("https://"), text);
  const std::string_view token = bearer_of(text);
  require(token.size() < std::max<std::size_t>(size, 1), token);
  return 0;
}

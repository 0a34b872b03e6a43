// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/dcb_messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace roce {
namespace {

using namespace dcb_abi;

// Offsets and sizes of the structs; their 64-bit members are not aligned on the wire, so they are copied out.
constexpr std::size_t kEtsSize = 59;
constexpr std::size_t kPfcSize = 136;
constexpr std::size_t kMaxRateSize = 64;
constexpr std::size_t kBufferSize = 44;
constexpr std::size_t kAppSize = 4;

tl::unexpected<Error> malformed(std::string_view what) {
  return fail(ErrorKind::kMalformed, "dcb netlink: " + std::string(what));
}

template <class T>
T load(Bytes bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T, class Raw>
PerPriority<T> load_array(Bytes bytes, std::size_t offset) {
  PerPriority<T> all{};
  for (std::size_t i = 0; i < kPriorities; ++i) all[i] = static_cast<T>(load<Raw>(bytes, offset + i * sizeof(Raw)));
  return all;
}

DcbEts read_ets(Bytes bytes) {
  DcbEts ets;
  ets.willing = load<std::uint8_t>(bytes, 0) != 0;
  ets.bandwidth = load_array<std::uint8_t, std::uint8_t>(bytes, 3);
  ets.algorithm = load_array<DcbAlgorithm, std::uint8_t>(bytes, 19);
  ets.traffic_class = load_array<std::uint8_t, std::uint8_t>(bytes, 27);
  return ets;
}

DcbPfc read_pfc(Bytes bytes) {
  DcbPfc pfc;
  pfc.capable = load<std::uint8_t>(bytes, 0);
  pfc.enabled = load<std::uint8_t>(bytes, 1);
  pfc.delay = load<std::uint16_t>(bytes, 4);
  pfc.sent = load_array<std::uint64_t, std::uint64_t>(bytes, 8);
  pfc.received = load_array<std::uint64_t, std::uint64_t>(bytes, 72);
  return pfc;
}

DcbBuffers read_buffers(Bytes bytes) {
  DcbBuffers buffers;
  buffers.of_priority = load_array<std::uint8_t, std::uint8_t>(bytes, 0);
  buffers.size = load_array<std::uint64_t, std::uint32_t>(bytes, 8);
  buffers.total = load<std::uint32_t>(bytes, 40);
  return buffers;
}

// Entries of the kernel's table that are no application entry of a known kind are passed over.
bool read_apps(Bytes table, std::vector<DcbApp>& out) {
  AttributeReader reader(table);
  for (NetlinkAttribute a; reader.next(a);) {
    if (a.type != kIeeeApp && a.type != kDcbApp) continue;
    if (a.payload.size() < kAppSize) return false;
    out.push_back({static_cast<DcbSelector>(load<std::uint8_t>(a.payload, 0)), load<std::uint8_t>(a.payload, 1),
                   load<std::uint16_t>(a.payload, 2)});
  }
  return !reader.malformed();
}

bool read_trust(Bytes table, std::vector<DcbSelector>& out) {
  AttributeReader reader(table);
  for (NetlinkAttribute a; reader.next(a);) {
    if (a.type != kIeeeApp && a.type != kDcbApp) continue;
    if (a.payload.empty()) return false;
    out.push_back(static_cast<DcbSelector>(load<std::uint8_t>(a.payload, 0)));
  }
  return !reader.malformed();
}

bool read_ieee(Bytes nest, DcbState& state) {
  AttributeReader reader(nest);
  for (NetlinkAttribute a; reader.next(a);) {
    const auto holds = [&](std::size_t size) { return a.payload.size() >= size; };
    switch (a.type) {
      case kEts:
        if (!holds(kEtsSize)) return false;
        state.ets = read_ets(a.payload);
        break;
      case kPfc:
        if (!holds(kPfcSize)) return false;
        state.pfc = read_pfc(a.payload);
        break;
      case kPeerPfc:
        if (!holds(kPfcSize)) return false;
        state.peer_pfc = read_pfc(a.payload);
        break;
      case kMaxRate: {
        if (!holds(kMaxRateSize)) return false;
        auto rates = load_array<std::uint64_t, std::uint64_t>(a.payload, 0);
        for (std::uint64_t& rate : rates) rate = rate > UINT64_MAX / 125 ? UINT64_MAX : rate * 125;  // kbit/s
        state.max_rate = rates;
        break;
      }
      case kBuffer:
        if (!holds(kBufferSize)) return false;
        state.buffers = read_buffers(a.payload);
        break;
      case kAppTable:
        if (!read_apps(a.payload, state.apps.emplace())) return false;
        break;
      case kAppTrust:
        if (!read_trust(a.payload, state.trust.emplace())) return false;
        break;
      default:
        break;
    }
  }
  return !reader.malformed();
}

}  // namespace

Result<DcbState> parse_dcb_state(Bytes payload) {
  if (payload.size() < kHeaderSize) return malformed("header");
  DcbState state;
  AttributeReader reader(payload.subspan(kHeaderSize));
  for (NetlinkAttribute a; reader.next(a);) {
    if (a.type == kIeee && !read_ieee(a.payload, state)) return malformed("ieee");
    if (a.type != kDcbx) continue;
    if (a.payload.empty()) return malformed("dcbx");
    state.dcbx = load<std::uint8_t>(a.payload, 0);
  }
  if (reader.malformed()) return malformed("attributes");
  return state;
}

}  // namespace roce

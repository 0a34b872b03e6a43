// SPDX-License-Identifier: Apache-2.0
#include "probes/wire/packet.h"

#include <algorithm>

namespace roce::probe {
namespace {

constexpr std::size_t kPatternOffset = 84;

template <class T>
void put(std::span<std::uint8_t> out, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out[at + i] = static_cast<std::uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
}
template <class T>
T get(std::span<const std::uint8_t> in, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | in[at + i]);
  return value;
}

// Differs from packet to packet and from byte to byte, so that neither a stuck bit nor stale memory looks right.
std::uint8_t pattern_byte(std::uint64_t sequence, std::size_t at) {
  const std::uint64_t mixed = (sequence + at / 8) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::uint8_t>(mixed >> (8 * (at % 8)));
}

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

std::uint32_t pattern_crc(std::span<const std::uint8_t> bytes) {
  const std::uint32_t crc = crc32c(bytes.subspan(kPatternOffset, kMacOffset - kPatternOffset));
  return crc32c(bytes.subspan(kPacketBytes), crc);
}

}  // namespace

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const std::uint8_t byte : bytes) crc = kCrcTable[(crc ^ byte) & 0xff] ^ crc >> 8;
  return ~crc;
}

void write_packet(const Packet& p, std::span<std::uint8_t> out) {
  out = out.first(p.length);
  put(out, 0, kPacketMagic);
  out[4] = kPacketVersion;
  out[5] = static_cast<std::uint8_t>(p.kind);
  out[6] = p.flags;
  out[7] = p.key_id;
  put(out, 8, p.length);
  out[10] = p.traffic_class;
  out[11] = p.sl;
  put(out, 12, p.epoch);
  put(out, 16, p.sequence);
  put(out, 24, p.responder_epoch);
  put(out, 28, p.stream);
  put(out, 32, p.order);
  put(out, 40, p.delay);
  put(out, 48, p.report_sequence);
  put(out, 56, p.report_delay);
  put(out, 64, p.flow_label);
  out[68] = p.label;
  out[69] = p.hop_limit;
  out[70] = p.received_traffic_class;
  out[71] = p.received_hop_limit;
  out[72] = p.status;
  out[73] = p.load;
  put(out, 74, std::uint16_t{0});
  put(out, 80, p.qkey);
  if ((p.flags & kFlagPattern) != 0) {
    for (std::size_t at = kPatternOffset; at < kMacOffset; ++at) out[at] = pattern_byte(p.sequence, at);
    for (std::size_t at = kPacketBytes; at < p.length; ++at) out[at] = pattern_byte(p.sequence, at);
  } else {
    std::fill(out.begin() + kPatternOffset, out.begin() + kMacOffset, std::uint8_t{0});
    std::fill(out.begin() + kPacketBytes, out.end(), std::uint8_t{0});
  }
  put(out, 76, (p.flags & kFlagPattern) != 0 ? pattern_crc(out) : p.crc);
  std::fill_n(out.begin() + kMacOffset, kMacBytes, std::uint8_t{0});
}

PacketFault read_packet(std::span<const std::uint8_t> in, Packet& p) {
  if (in.size() < kPacketBytes || in.size() > kMaxPacketBytes) return PacketFault::kLength;
  if (get<std::uint32_t>(in, 0) != kPacketMagic || in[4] != kPacketVersion) return PacketFault::kMagic;
  if (get<std::uint16_t>(in, 8) != in.size()) return PacketFault::kLength;
  if (in[5] < 1 || in[5] > 3 || (in[6] & ~0xf) != 0 || get<std::uint16_t>(in, 74) != 0) return PacketFault::kKind;
  p.kind = static_cast<PacketKind>(in[5]);
  p.flags = in[6];
  p.key_id = in[7];
  p.length = get<std::uint16_t>(in, 8);
  p.traffic_class = in[10];
  p.sl = in[11];
  p.epoch = get<std::uint32_t>(in, 12);
  p.sequence = get<std::uint64_t>(in, 16);
  p.responder_epoch = get<std::uint32_t>(in, 24);
  p.stream = get<std::uint32_t>(in, 28);
  p.order = get<std::uint64_t>(in, 32);
  p.delay = get<std::uint64_t>(in, 40);
  p.report_sequence = get<std::uint64_t>(in, 48);
  p.report_delay = get<std::uint64_t>(in, 56);
  p.flow_label = get<std::uint32_t>(in, 64);
  p.label = in[68];
  p.hop_limit = in[69];
  p.received_traffic_class = in[70];
  p.received_hop_limit = in[71];
  p.status = in[72];
  p.load = in[73];
  p.crc = get<std::uint32_t>(in, 76);
  p.qkey = get<std::uint32_t>(in, 80);
  if (p.flow_label > 0xfffff || p.sl > 15) return PacketFault::kKind;
  return PacketFault::kNone;
}

bool pattern_intact(const Packet& packet, std::span<const std::uint8_t> bytes) {
  return (packet.flags & kFlagPattern) == 0 || pattern_crc(bytes) == packet.crc;
}

std::optional<ReceivedHeader> read_header(std::span<const std::uint8_t> grh) {
  if (grh.size() < 40) return std::nullopt;
  ReceivedHeader out;
  // Bytes 0-19 before an IPv4 header are undefined, so they may look like the start of an IPv6 one; then a check sum
  // that fits decides. Where they do not look so, a device may leave the sum out.
  const auto ip4 = grh.subspan(20, 20);
  const bool like_ip6 = grh[0] >> 4 == 6;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2) sum += get<std::uint16_t>(ip4, i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  if (ip4[0] == 0x45 && ip4[9] == 17 && (!like_ip6 || sum == 0xffff)) {
    out.traffic_class = ip4[1];
    out.hop_limit = ip4[8];
    for (auto* address : {&out.source, &out.destination}) (*address)[10] = (*address)[11] = 0xff;
    std::copy_n(ip4.begin() + 12, 4, out.source.begin() + 12);
    std::copy_n(ip4.begin() + 16, 4, out.destination.begin() + 12);
    return out;
  }
  if (!like_ip6) return std::nullopt;
  out.traffic_class = static_cast<std::uint8_t>((grh[0] & 0xf) << 4 | grh[1] >> 4);
  out.hop_limit = grh[7];
  std::copy_n(grh.begin() + 8, 16, out.source.begin());
  std::copy_n(grh.begin() + 24, 16, out.destination.begin());
  return out;
}

}  // namespace roce::probe

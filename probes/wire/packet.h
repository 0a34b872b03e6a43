// SPDX-License-Identifier: Apache-2.0
//
// The packet of a probe: 128 bytes, big endian; longer ones repeat a pattern after them. A reply is never longer than
// its request.
//
//   0  4 magic           4  1 version        5  1 kind           6  1 flags          7  1 key id
//   8  2 length         10  1 traffic class 11  1 service level 12  4 epoch of the prober
//  16  8 sequence       24  4 epoch of the responder            28  4 stream
//  32  8 order in the stream                40  8 delay (ns)
//  48  8 reported sequence                  56  8 reported delay (ns)
//  64  4 flow label     68  1 label index   69  1 first hop limit
//  70  1 received traffic class             71  1 received hop limit
//  72  1 status         73  1 load          74  2 zero          76  4 CRC32C of the pattern
//  80  4 queue key of the prober             84 28 pattern      112 16 message authentication code
// 128 .. pattern
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace roce::probe {

inline constexpr std::size_t kPacketBytes = 128;
inline constexpr std::size_t kMacOffset = 112;
inline constexpr std::size_t kMacBytes = 16;
inline constexpr std::size_t kMaxPacketBytes = 4096;
inline constexpr std::uint32_t kPacketMagic = 0x526f5062;  // "RoPb"
inline constexpr std::uint8_t kPacketVersion = 1;

enum class PacketKind : std::uint8_t { kRequest = 1, kReply = 2, kLoopback = 3 };

enum PacketFlag : std::uint8_t {
  kFlagReport = 1,          // the reported sequence and delay are valid
  kFlagHardware = 2,        // the sender has hardware timestamps
  kFlagReceivedHeader = 4,  // received traffic class and hop limit are valid
  kFlagPattern = 8,         // the CRC32C is of the pattern and is to be checked
};

struct Packet {
  PacketKind kind = PacketKind::kRequest;
  std::uint8_t flags = 0;
  std::uint8_t key_id = 0;
  std::uint16_t length = kPacketBytes;
  std::uint8_t traffic_class = 0;  // as sent
  std::uint8_t sl = 0;
  std::uint32_t epoch = 0;            // of the prober's process
  std::uint64_t sequence = 0;         // of its device
  std::uint32_t responder_epoch = 0;  // request: as the endpoint document says
  std::uint32_t stream = 0;           // pair and class; the replay window is of (GID, epoch, stream)
  std::uint64_t order = 0;            // rises by one with each packet of the stream
  std::uint64_t delay = 0;            // request: how late it was posted; reply: from receipt to posting, host clock
  std::uint64_t report_sequence = 0;  // reply: an earlier sequence of the stream ...
  std::uint64_t report_delay = 0;     // ... and how long its reply took on the device clock
  std::uint32_t flow_label = 0;       // to be used for the reply
  std::uint8_t label = 0;
  std::uint8_t hop_limit = 0;  // with which it was sent
  std::uint8_t received_traffic_class = 0;
  std::uint8_t received_hop_limit = 0;
  std::uint8_t status = 0;
  std::uint8_t load = 0;
  std::uint32_t crc = 0;
  std::uint32_t qkey = 0;  // to be used for the reply
};

// Writes the packet with a zero authentication code and a pattern up to its length; with kFlagPattern also the CRC32C.
// `out` holds at least `packet.length` bytes, which is at least kPacketBytes.
void write_packet(const Packet& packet, std::span<std::uint8_t> out);

enum class PacketFault : std::uint8_t { kNone, kLength, kMagic, kKind };

// Reads a packet; anything that is not exactly one of version 1 is refused. The code is not checked here.
PacketFault read_packet(std::span<const std::uint8_t> bytes, Packet& out);

// Whether the pattern is what was sent; true without kFlagPattern.
bool pattern_intact(const Packet& packet, std::span<const std::uint8_t> bytes);

std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc = 0);

// What the IP header in front of a received UD payload says.
struct ReceivedHeader {
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::array<std::uint8_t, 16> source{};  // as a GID
  std::array<std::uint8_t, 16> destination{};
};
// `grh`: the 40 bytes. An IPv4 header is in the last 20, an IPv6 one (or a GRH of InfiniBand) in all of them.
std::optional<ReceivedHeader> read_header(std::span<const std::uint8_t> grh);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// What a stranger may put on the wire: 40 bytes of headers and a payload. Whatever comes in is refused or read; what
// was read and written again reads the same; nobody without the key makes a code that is taken.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "probes/wire/authenticator.h"
#include "probes/wire/packet.h"
#include "tests/fuzz/require.h"

namespace {

using roce::probe::Packet;
using roce::probe::PacketFault;

roce::probe::Authenticator& authenticator() {
  static const auto made = [] {
    roce::probe::Key key;
    key.id = 1;
    key.secret.assign(32, 0xa5);
    key.not_after = std::chrono::system_clock::time_point::max();
    return std::move(*roce::probe::Authenticator::create({&key, 1}));
  }();
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> all(data, size);
  const auto header = roce::probe::read_header(all.first(std::min<std::size_t>(40, size)));
  if (size < 40) {
    require(!header);
    return 0;
  }
  const auto payload = all.subspan(40);
  Packet packet;
  if (roce::probe::read_packet(payload, packet) != PacketFault::kNone) return 0;
  require(packet.length == payload.size() && payload.size() >= roce::probe::kPacketBytes);
  require(packet.flow_label <= 0xfffff && packet.sl <= 15);
  roce::probe::Gid from, to;
  if (header) {
    from.raw = header->source;
    to.raw = header->destination;
  }
  require(!authenticator().verify(payload, from, to, 1));
  const bool intact = roce::probe::pattern_intact(packet, payload);
  require(intact || (packet.flags & roce::probe::kFlagPattern) != 0);
  std::vector<std::uint8_t> bytes(packet.length);
  roce::probe::write_packet(packet, bytes);
  Packet again;
  require(roce::probe::read_packet(bytes, again) == PacketFault::kNone);
  // All that is in front of the check sum is a field.
  require(std::equal(bytes.begin(), bytes.begin() + 76, payload.begin()));
  require(again.qkey == packet.qkey);
  require(roce::probe::pattern_intact(again, bytes));
  bytes[7] = 1;
  require(authenticator().sign(bytes, from, to, 1) && authenticator().verify(bytes, from, to, 1));
  bytes[size % bytes.size()] ^= 1;
  require(!authenticator().verify(bytes, from, to, 1));
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/netlink_attribute.h"

#include <algorithm>
#include <cstring>

namespace roce {
namespace {

constexpr std::size_t kHeaderSize = 4;
constexpr std::uint16_t kTypeMask = 0x3fff;  // without NLA_F_NESTED and NLA_F_NET_BYTEORDER

}  // namespace

std::optional<std::uint64_t> NetlinkAttribute::number() const {
  const auto load = [&]<class T>(T value) -> std::uint64_t {
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
  };
  switch (payload.size()) {
    case 1:
      return load(std::uint8_t{});
    case 2:
      return load(std::uint16_t{});
    case 4:
      return load(std::uint32_t{});
    case 8:
      return load(std::uint64_t{});
    default:
      return std::nullopt;
  }
}

std::string_view NetlinkAttribute::text() const {
  const std::string_view all(reinterpret_cast<const char*>(payload.data()), payload.size());
  return all.substr(0, all.find('\0'));
}

bool AttributeReader::next(NetlinkAttribute& out) {
  while (!rest_.empty()) {
    if (rest_.size() < kHeaderSize) break;
    std::uint16_t length = 0;
    std::uint16_t type = 0;
    std::memcpy(&length, rest_.data(), sizeof length);
    std::memcpy(&type, rest_.data() + sizeof length, sizeof type);
    if (length < kHeaderSize || length > rest_.size()) break;
    out.type = type & kTypeMask;
    out.payload = rest_.subspan(kHeaderSize, length - kHeaderSize);
    // The last attribute may lack its padding to four bytes.
    const std::size_t aligned = (static_cast<std::size_t>(length) + 3) & ~std::size_t{3};
    rest_ = rest_.subspan(std::min(aligned, rest_.size()));
    if (out.type != 0) return true;
  }
  malformed_ = !rest_.empty();
  rest_ = {};
  return false;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Attributes of a netlink message. Thread-safe: pure views over the caller's bytes; nothing is read outside of them,
// whatever they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace roce {

using Bytes = std::span<const std::byte>;

// One netlink attribute: its type without the flag bits, and its payload.
struct NetlinkAttribute {
  std::uint16_t type = 0;
  Bytes payload;

  // An unsigned number of 1, 2, 4 or 8 bytes in host order.
  std::optional<std::uint64_t> number() const;
  // The text up to the first NUL or the end.
  std::string_view text() const;
};

// Walks a sequence of attributes. Padding (type 0) is passed over.
class AttributeReader {
 public:
  explicit AttributeReader(Bytes bytes) : rest_(bytes) {}
  // False at the end and at the first attribute whose length does not add up; then `malformed` tells which.
  bool next(NetlinkAttribute& out);
  bool malformed() const { return malformed_; }

 private:
  Bytes rest_;
  bool malformed_ = false;
};

}  // namespace roce

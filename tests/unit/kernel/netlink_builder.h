// SPDX-License-Identifier: Apache-2.0
//
// Hand-made netlink attributes and messages for tests.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace roce::made {

using ByteVector = std::vector<std::byte>;

class Attributes {
 public:
  Attributes& raw(std::uint16_t type, const void* data, std::size_t size) {
    const auto length = static_cast<std::uint16_t>(4 + size);
    append(&length, sizeof length);
    append(&type, sizeof type);
    append(data, size);
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
    return *this;
  }
  Attributes& u8(std::uint16_t type, std::uint8_t value) { return raw(type, &value, sizeof value); }
  Attributes& u32(std::uint16_t type, std::uint32_t value) { return raw(type, &value, sizeof value); }
  Attributes& u64(std::uint16_t type, std::uint64_t value) { return raw(type, &value, sizeof value); }
  // As the kernel writes it, with the NUL.
  Attributes& text(std::uint16_t type, std::string_view value) {
    ByteVector bytes(value.size() + 1);
    std::memcpy(bytes.data(), value.data(), value.size());
    return raw(type, bytes.data(), bytes.size());
  }
  Attributes& nest(std::uint16_t type, const Attributes& inner, bool flag = false) {
    return raw(static_cast<std::uint16_t>(flag ? type | NLA_F_NESTED : type), inner.bytes_.data(), inner.bytes_.size());
  }
  // Before a u64, where the kernel wants it aligned.
  Attributes& padding() { return raw(0, nullptr, 0); }

  const ByteVector& bytes() const { return bytes_; }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    if (size != 0) bytes_.insert(bytes_.end(), first, first + size);
  }
  ByteVector bytes_;
};

// A message with its header; `sequence` 0 is filled in by the fake kernel.
inline ByteVector message(std::uint16_t type, const ByteVector& payload, std::uint16_t flags = 0,
                          std::uint32_t sequence = 0) {
  nlmsghdr header{};
  header.nlmsg_len = static_cast<std::uint32_t>(sizeof header + payload.size());
  header.nlmsg_type = type;
  header.nlmsg_flags = flags;
  header.nlmsg_seq = sequence;
  ByteVector bytes(sizeof header + ((payload.size() + 3) & ~std::size_t{3}));
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!payload.empty()) std::memcpy(bytes.data() + sizeof header, payload.data(), payload.size());
  return bytes;
}

}  // namespace roce::made

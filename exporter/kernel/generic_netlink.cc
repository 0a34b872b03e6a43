// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/generic_netlink.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace roce {
namespace {

constexpr auto kLookAgain = std::chrono::seconds(60);

std::vector<std::byte> with_header(std::uint8_t command, std::uint8_t version, Bytes attributes) {
  genlmsghdr header{};
  header.cmd = command;
  header.version = version;
  std::vector<std::byte> payload(GENL_HDRLEN + attributes.size());
  std::memcpy(payload.data(), &header, sizeof header);
  std::copy(attributes.begin(), attributes.end(), payload.begin() + GENL_HDRLEN);
  return payload;
}

// The number of the family in one entry of the list; nothing for the entry of another one.
std::optional<std::uint16_t> id_in(Bytes payload, std::string_view family) {
  if (payload.size() < GENL_HDRLEN) return std::nullopt;
  std::optional<std::uint16_t> id;
  bool found = false;
  AttributeReader reader(payload.subspan(GENL_HDRLEN));
  for (NetlinkAttribute a; reader.next(a);) {
    if (a.type == CTRL_ATTR_FAMILY_NAME) found = a.text() == family;
    if (a.type == CTRL_ATTR_FAMILY_ID)
      if (const auto number = a.number(); number && *number <= 0xffffU) id = static_cast<std::uint16_t>(*number);
  }
  return found ? id : std::nullopt;
}

}  // namespace

AttributeWriter& AttributeWriter::raw(std::uint16_t type, Bytes payload) {
  const auto length = static_cast<std::uint16_t>(NLA_HDRLEN + payload.size());
  const std::size_t begin = bytes_.size();
  bytes_.resize(begin + NLA_HDRLEN + ((payload.size() + 3) & ~std::size_t{3}));
  std::memcpy(bytes_.data() + begin, &length, sizeof length);
  std::memcpy(bytes_.data() + begin + sizeof length, &type, sizeof type);
  std::copy(payload.begin(), payload.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin) + NLA_HDRLEN);
  return *this;
}

AttributeWriter& AttributeWriter::u32(std::uint16_t type, std::uint32_t value) {
  return raw(type, std::as_bytes(std::span(&value, 1)));
}

AttributeWriter& AttributeWriter::text(std::uint16_t type, std::string_view value) {
  const std::string copy(value);
  return raw(type, std::as_bytes(std::span(copy.c_str(), copy.size() + 1)));
}

AttributeWriter& AttributeWriter::nest(std::uint16_t type, const AttributeWriter& inner) {
  return raw(static_cast<std::uint16_t>(type | NLA_F_NESTED), inner.bytes());
}

GenericNetlink::GenericNetlink(std::string family, std::uint8_t version, std::shared_ptr<CallTracker> tracker,
                               NetlinkConnect connect)
    : family_(std::move(family)),
      version_(version),
      tracker_(std::move(tracker)),
      connect_(connect ? std::move(connect)
                       : NetlinkConnect([] { return open_netlink_channel(NETLINK_GENERIC, "generic netlink"); })) {}

Result<std::vector<std::byte>> GenericNetlink::ask(std::uint8_t command, Bytes attributes, std::string_view call,
                                                   const std::string& object) {
  ROCE_TRY(const auto channel, connect_());
  const CallTracker::Scope scope(tracker_.get(), call, object);
  ROCE_TRY(const std::uint16_t id, family_id(*channel));
  auto answer = netlink_ask(*channel, id, with_header(command, version_, attributes), std::string(call) + " " + object);
  if (!answer) {
    if (answer.error().err == ENOENT) forget_family();
    return answer;
  }
  if (answer->size() < GENL_HDRLEN) return fail(ErrorKind::kMalformed, std::string(call) + " " + object);
  answer->erase(answer->begin(), answer->begin() + GENL_HDRLEN);
  return answer;
}

Result<void> GenericNetlink::dump(std::uint8_t command, Bytes attributes, std::string_view call,
                                  const std::string& object, const std::function<Result<void>(Bytes)>& take) {
  ROCE_TRY(const auto channel, connect_());
  const CallTracker::Scope scope(tracker_.get(), call, object);
  ROCE_TRY(const std::uint16_t id, family_id(*channel));
  const std::string title = std::string(call) + " " + object;
  auto done = netlink_dump(*channel, id, with_header(command, version_, attributes), title, [&](Bytes payload) {
    if (payload.size() < GENL_HDRLEN) return Result<void>(fail(ErrorKind::kMalformed, title));
    return take(payload.subspan(GENL_HDRLEN));
  });
  if (!done && done.error().err == ENOENT) forget_family();
  return done;
}

// No family of that number any more: its module was loaded anew.
void GenericNetlink::forget_family() {
  const std::lock_guard lock(mutex_);
  id_.reset();
  look_again_ = {};
}

Result<std::uint16_t> GenericNetlink::family_id(NetlinkChannel& channel) {
  const std::string title = "generic netlink family " + family_;
  {
    const std::lock_guard lock(mutex_);
    if (id_) return *id_;
    if (Clock::now() < look_again_) return fail(ErrorKind::kAbsent, title);
  }
  std::optional<std::uint16_t> id;
  const auto listed = netlink_dump(channel, GENL_ID_CTRL, with_header(CTRL_CMD_GETFAMILY, 1, {}), title,
                                   [&](Bytes payload) -> Result<void> {
                                     if (!id) id = id_in(payload, family_);
                                     return {};
                                   });
  // A list that changed while it was read may lack a family, but what it holds is there.
  if (!listed && !id) return tl::unexpected(listed.error());
  const std::lock_guard lock(mutex_);
  id_ = id;
  if (id) return *id;
  look_again_ = Clock::now() + kLookAgain;
  return fail(ErrorKind::kAbsent, title);
}

}  // namespace roce

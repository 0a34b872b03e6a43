// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>

#include <cerrno>

#include "probes/engine.h"

namespace roce::probe {

std::string to_text(const Gid& gid) {
  std::string out;
  for (std::size_t i = 0; i < gid.raw.size(); i += 2) {
    if (i != 0) out += ':';
    fmt::format_to(std::back_inserter(out), "{:02x}{:02x}", gid.raw[i], gid.raw[i + 1]);
  }
  return out;
}

Result<Gid> parse_gid(std::string_view text) {
  Gid gid;
  // inet_pton takes every IPv6 spelling, and IPv4 alone as well.
  const std::string copy(text.substr(0, INET6_ADDRSTRLEN));
  in_addr ip4{};
  const bool whole = text.size() == copy.size() && copy.find('\0') == std::string::npos;
  if (whole && inet_pton(AF_INET, copy.c_str(), &ip4) == 1) {
    gid.raw[10] = gid.raw[11] = 0xff;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&ip4);
    std::copy(bytes, bytes + 4, gid.raw.begin() + 12);
    return gid;
  }
  if (!whole || inet_pton(AF_INET6, copy.c_str(), gid.raw.data()) != 1)
    return fail(ErrorKind::kMalformed, fmt::format("\"{}\" is no GID: an IPv6 or IPv4 address is expected", copy));
  return gid;
}

std::string_view to_string(Failure failure) {
  switch (failure) {
    case Failure::kTimeout:
      return "timeout";
    case Failure::kSendError:
      return "send_error";
    case Failure::kUnresolved:
      return "unresolved";
    case Failure::kNoEndpoint:
      return "no_endpoint";
    case Failure::kQpError:
      return "qp_error";
    case Failure::kRetryExceeded:
      return "retry_exceeded";
    case Failure::kRnrExceeded:
      return "rnr_exceeded";
    case Failure::kRemoteAccess:
      return "remote_access";
    case Failure::kFlushed:
      return "flushed";
    case Failure::kInvalidTimestamp:
      return "invalid_timestamp";
    case Failure::kCount_:
      break;
  }
  return "unknown";
}

std::string_view to_string(PeerState state) {
  switch (state) {
    case PeerState::kUnknown:
      return "unknown";
    case PeerState::kOk:
      return "ok";
    case PeerState::kDegraded:
      return "degraded";
    case PeerState::kLossy:
      return "lossy";
    case PeerState::kDown:
      return "down";
  }
  return "unknown";
}

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// What is known of another node before it is asked: one row of a static list, a discovery file or DNS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace roce::probe {

struct PeerEntry {
  std::string node;                    // name in labels
  std::string url;                     // of its prober: https://HOST:PORT
  std::string device;                  // its RDMA device; empty: one on each rail
  std::string rail;                    // empty: every rail of this host
  std::vector<std::string> addresses;  // of its RDMA ports, where a storage session may end
  bool operator==(const PeerEntry&) const = default;
};

inline constexpr std::size_t kMostEntries = 20000;

struct Target {
  std::string host;  // IPv6 without brackets
  std::uint16_t port = 0;
  std::string url() const;
};
// "HOST", "HOST:PORT", "[V6]:PORT"; a name as DNS has them, or an address.
std::optional<Target> parse_target(std::string_view text, std::uint16_t default_port);

// A file_sd file in Prometheus' JSON: [{"targets": ["HOST:PORT"], "labels": {...}}]. Of the labels node, device, rail
// and addresses (separated by commas) count. On failure one line: "found ..., allowed ...". Throws only bad_alloc.
tl::expected<std::vector<PeerEntry>, std::string> parse_file_sd(std::string_view text, std::uint16_t default_port);

}  // namespace roce::probe

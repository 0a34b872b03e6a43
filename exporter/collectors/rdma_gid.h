// SPDX-License-Identifier: Apache-2.0
//
// Health of the GID table: how many entries of which type, how many that a router forwards, and which index an
// application should use. Source: ports/N/gids and ports/N/gid_attrs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "exporter/collectors/collector.h"

namespace roce {

using Gid = std::array<std::uint8_t, 16>;

// "fe80:0000:0000:0000:0202:c9ff:fe00:0001"; nothing when the text is not a GID.
std::optional<Gid> parse_gid(std::string_view text);

enum class GidScope { kEmpty, kLinkLocal, kIpv4, kIpv6 };

// What an address in the table is good for: RoCE v2 carries IPv4 addresses as ::ffff:a.b.c.d.
GidScope gid_scope(const Gid& gid);

std::unique_ptr<Collector> make_rdma_gid_collector(const CollectorContext& context);

}  // namespace roce

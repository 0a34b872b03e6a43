// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/route.h"

#include <arpa/inet.h>

#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::size_t kTableLimit = std::size_t{4} << 20;
constexpr std::uint64_t kReject = 0x200;  // RTF_REJECT: the route says that nothing leads there

std::optional<std::array<std::uint8_t, 16>> parse_hex_address(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < 16; ++i) {
    const auto byte = parse_hex(text.substr(2 * i, 2));
    if (!byte || *byte > 255) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(*byte);
  }
  return bytes;
}

bool in_prefix(const std::array<std::uint8_t, 16>& address, const std::array<std::uint8_t, 16>& prefix,
               std::size_t length) {
  for (std::size_t i = 0; i < 16 && length > 0; ++i) {
    const std::size_t bits = length < 8 ? length : 8;
    const auto mask = static_cast<std::uint8_t>(0xff00U >> bits);
    if ((address[i] & mask) != (prefix[i] & mask)) return false;
    length -= bits;
  }
  return true;
}

class TableRoutes : public RouteSource {
 public:
  explicit TableRoutes(std::string procfs) : procfs_(std::move(procfs)) {}

  Result<std::string> route(const IpAddress& target) override {
    const std::string path = procfs_ + (target.v6 ? "/net/ipv6_route" : "/net/route");
    ROCE_TRY(const std::string table, read_file(path, kTableLimit));
    auto name = target.v6 ? find_ipv6_route(table, target) : find_ipv4_route(table, target, false);
    if (!name) return fail(ErrorKind::kAbsent, path);
    return std::move(*name);
  }

  Result<std::string> owner(const IpAddress& own) override {
    const std::string path = procfs_ + (own.v6 ? "/net/if_inet6" : "/net/route");
    ROCE_TRY(const std::string table, read_file(path, kTableLimit));
    auto name = own.v6 ? find_ipv6_owner(table, own) : find_ipv4_route(table, own, true);
    if (!name) return fail(ErrorKind::kAbsent, path);
    return std::move(*name);
  }

 private:
  std::string procfs_;
};

}  // namespace

std::optional<IpAddress> parse_ip_address(std::string_view text) {
  text = trim(text);
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  text = text.substr(0, text.find('%'));
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return std::nullopt;
  IpAddress address;
  if (inet_pton(AF_INET, copy.c_str(), address.bytes.data()) == 1) return address;
  address.v6 = true;
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::optional<std::string> find_ipv4_route(std::string_view table, const IpAddress& address, bool connected) {
  // The kernel prints addresses as numbers of the host: little-endian on all that this program is built for.
  std::uint32_t wanted = 0;
  for (std::size_t i = 4; i-- > 0;) wanted = wanted << 8U | address.bytes[i];
  std::optional<std::string> best;
  int best_bits = -1;
  std::uint64_t best_metric = 0;
  bool several = false;  // devices with a connected route that fits best
  while (!table.empty()) {
    std::string_view line = take_line(table);
    const std::string_view name = take_word(line);
    const auto destination = parse_hex(take_word(line));
    const auto gateway = parse_hex(take_word(line));
    const auto flags = parse_hex(take_word(line));
    take_word(line);
    take_word(line);
    const auto metric = parse_u64(take_word(line));
    const auto mask = parse_hex(take_word(line));
    if (name.empty() || !destination || !gateway || !flags || !metric || !mask) continue;
    if ((wanted & *mask) != *destination || *mask > 0xffffffffU) continue;
    int bits = 0;
    for (std::uint64_t m = *mask; m != 0; m &= m - 1) ++bits;
    if (connected && (*gateway != 0 || bits == 0)) continue;
    if (bits == best_bits && best && name != *best) several = true;
    if (bits < best_bits || (bits == best_bits && *metric >= best_metric)) continue;
    if (bits > best_bits) several = false;
    best_bits = bits;
    best_metric = *metric;
    best = (*flags & kReject) != 0 ? std::nullopt : std::optional<std::string>(name);
  }
  // Two devices in one network: which of them has the address, a table of routes does not tell.
  return connected && several ? std::nullopt : best;
}

std::optional<std::string> find_ipv6_route(std::string_view table, const IpAddress& address) {
  std::optional<std::string> best;
  std::uint64_t best_bits = 0;
  std::uint64_t best_metric = 0;
  bool any = false;
  while (!table.empty()) {
    std::string_view line = take_line(table);
    const auto destination = parse_hex_address(take_word(line));
    const auto bits = parse_hex(take_word(line));
    take_word(line);
    take_word(line);
    take_word(line);
    const auto metric = parse_hex(take_word(line));
    take_word(line);
    take_word(line);
    const auto flags = parse_hex(take_word(line));
    const std::string_view name = take_word(line);
    if (!destination || !bits || *bits > 128 || !metric || !flags || name.empty()) continue;
    if (!in_prefix(address.bytes, *destination, *bits)) continue;
    // The catch-all "unreachable" of the kernel stands behind every real route.
    if (any && (*bits < best_bits || (*bits == best_bits && *metric >= best_metric))) continue;
    any = true;
    best_bits = *bits;
    best_metric = *metric;
    best = (*flags & kReject) != 0 ? std::nullopt : std::optional<std::string>(name);
  }
  return best;
}

std::optional<std::string> find_ipv6_owner(std::string_view table, const IpAddress& address) {
  while (!table.empty()) {
    std::string_view line = take_line(table);
    const auto own = parse_hex_address(take_word(line));
    for (int i = 0; i < 4; ++i) take_word(line);
    const std::string_view name = take_word(line);
    if (own && *own == address.bytes && !name.empty()) return std::string(name);
  }
  return std::nullopt;
}

std::shared_ptr<RouteSource> open_route_tables(std::string procfs) {
  return std::make_shared<TableRoutes>(std::move(procfs));
}

}  // namespace roce

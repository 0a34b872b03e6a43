// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/port_collector.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

class RdmaGidCollector : public PortCollector {
 public:
  using PortCollector::PortCollector;

 protected:
  Result<void> collect_port(const InventoryPort& port, Part& part) override {
    const std::string dir = port_path(port);
    const CallTracker::Scope scope(host().calls.get(), "sysfs_gids", device().name);
    const auto indices = list_directory(dir + "/gids");
    if (!indices) {
      if (indices.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(indices.error());
    }
    std::map<std::string, unsigned> by_type;
    std::map<GidScope, unsigned> routable;
    std::map<GidScope, std::pair<std::uint64_t, std::string>> first;  // index and netdev
    std::map<GidScope, bool> unknown;                                 // there may be more of them than were counted
    FailureNote failures;
    for (const std::string& index : *indices) {
      const auto number = parse_u64(index);
      const auto text = read_attribute(dir + "/gids/" + index);
      // An entry without a value, or one that went away in between, is an empty one.
      if (!text && text.error().kind != ErrorKind::kUnsupported && text.error().kind != ErrorKind::kAbsent)
        unknown[GidScope::kIpv4] = unknown[GidScope::kIpv6] = true;
      if (!text) failures.note(text.error());
      if (!number || !text) continue;
      const auto gid = parse_gid(*text);
      if (!gid) {
        failures.note(Error{ErrorKind::kMalformed, 0, dir + "/gids/" + index});
        unknown[GidScope::kIpv4] = unknown[GidScope::kIpv6] = true;
        continue;
      }
      if (gid_scope(*gid) == GidScope::kEmpty) continue;
      const auto type = read_attribute(dir + "/gid_attrs/types/" + index);
      const GidScope kind = gid_scope(*gid);
      // Kernels before 4.4 tell no type at all.
      if (!type) {
        failures.note(type.error());
        unknown[kind] = true;
        continue;
      }
      ++by_type[*type];
      if (*type != "RoCE v2" || (kind != GidScope::kIpv4 && kind != GidScope::kIpv6)) continue;
      ++routable[kind];
      if (!first.contains(kind))
        first[kind] = {*number, read_attribute(dir + "/gid_attrs/ndevs/" + index).value_or("")};
    }
    const std::string& name = device().name;
    for (const auto& [type, count] : by_type)
      part.samples.add(metric::port_gid_entries, {name, port.text, type}, count);
    const bool ethernet = read_attribute(dir + "/link_layer").value_or("") == "Ethernet" || by_type.contains("RoCE v2");
    // iWARP and usNIC have Ethernet ports too, but no RoCE v2 entries to miss: only a channel adapter (1) has.
    const auto node_type = read_attribute(device().path + "/node_type");
    const bool channel_adapter = !node_type || parse_leading_number(*node_type).value_or(1) == 1;
    if (!ethernet || !channel_adapter) return failures.conclude();
    constexpr std::array kFamilies{std::pair(GidScope::kIpv4, "ipv4"), std::pair(GidScope::kIpv6, "ipv6")};
    // Those that were found are there, but a 0 would call missing what only could not be read: for its own family, and
    // for the other one where that is all a reader sees.
    const bool any = routable[GidScope::kIpv4] + routable[GidScope::kIpv6] > 0;
    const bool all_known = !unknown[GidScope::kIpv4] && !unknown[GidScope::kIpv6];
    for (const auto& [kind, family] : kFamilies)
      if (routable[kind] > 0 || all_known || (any && !unknown[kind]))
        part.samples.add(metric::port_gid_routable_entries, {name, port.text, family}, routable[kind]);
    for (const auto& [kind, family] : kFamilies) {
      const auto found = first.find(kind);
      if (found == first.end()) {
        if (unknown[kind]) break;
        continue;
      }
      part.samples.add(metric::port_gid_index, {name, port.text, found->second.second, family}, found->second.first);
      break;
    }
    return failures.conclude();
  }
};

}  // namespace

std::optional<Gid> parse_gid(std::string_view text) {
  const std::string copy(trim(text));
  Gid gid{};
  if (inet_pton(AF_INET6, copy.c_str(), gid.data()) != 1) return std::nullopt;
  return gid;
}

GidScope gid_scope(const Gid& gid) {
  if (std::all_of(gid.begin(), gid.end(), [](std::uint8_t b) { return b == 0; })) return GidScope::kEmpty;
  const bool mapped = std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t b) { return b == 0; }) &&
                      gid[10] == 0xff && gid[11] == 0xff;
  if (mapped) return gid[12] == 169 && gid[13] == 254 ? GidScope::kLinkLocal : GidScope::kIpv4;
  if (gid[0] == 0xfe && (gid[1] & 0xc0U) == 0x80) return GidScope::kLinkLocal;
  return GidScope::kIpv6;
}

std::unique_ptr<Collector> make_rdma_gid_collector(const CollectorContext& context) {
  return std::make_unique<RdmaGidCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/local.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/nvme.h"

namespace roce::probe {
namespace {

struct IfaddrsDeleter {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

// The bytes of an address and, of its mask, the bits that are set.
std::optional<EngineSettings::Prefix> prefix_of(const sockaddr* address, const sockaddr* mask) {
  EngineSettings::Prefix prefix;
  if (address->sa_family == AF_INET) {
    in_addr ip = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    const in_addr bits = reinterpret_cast<const sockaddr_in*>(mask)->sin_addr;
    ip.s_addr &= bits.s_addr;
    prefix.gid.raw[10] = prefix.gid.raw[11] = 0xFF;
    std::memcpy(prefix.gid.raw.data() + 12, &ip, sizeof ip);
    prefix.bits = static_cast<std::uint8_t>(96 + std::popcount(bits.s_addr));
    return prefix;
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  const auto& bits = reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&ip)) return std::nullopt;
  int count = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    prefix.gid.raw[i] = static_cast<std::uint8_t>(ip.s6_addr[i] & bits.s6_addr[i]);
    count += std::popcount(bits.s6_addr[i]);
  }
  prefix.bits = static_cast<std::uint8_t>(count);
  return prefix;
}

std::optional<std::string> netdev_of(const std::string& sysfs, const std::string& device, unsigned port) {
  const std::string directory =
      sysfs + "/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs";
  // The first entry that is filled; reading an empty one fails.
  for (int i = 0; i < 4; ++i)
    if (auto name = read_attribute(directory + "/" + std::to_string(i)); name && !name->empty()) return *name;
  return std::nullopt;
}

std::string device_for(const std::vector<LocalPort>& ports, const std::string& address) {
  const auto gid = parse_gid(address);
  if (!gid) return {};
  for (const LocalPort& port : ports)
    if (std::any_of(port.subnets.begin(), port.subnets.end(),
                    [&](const EngineSettings::Prefix& p) { return in_prefix(*gid, p); }))
      return port.device;
  return {};
}

}  // namespace

std::vector<std::string> rdma_devices(const std::string& sysfs) {
  return list_directory(sysfs + "/class/infiniband").value_or(std::vector<std::string>{});
}

std::vector<EngineSettings::Prefix> subnets_of(const std::string& sysfs, const std::string& device, unsigned port) {
  std::vector<EngineSettings::Prefix> prefixes;
  const auto netdev = netdev_of(sysfs, device, port);
  ifaddrs* list = nullptr;
  if (!netdev || getifaddrs(&list) != 0) return prefixes;
  const std::unique_ptr<ifaddrs, IfaddrsDeleter> owner(list);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr || *netdev != entry->ifa_name) continue;
    if (const auto prefix = prefix_of(entry->ifa_addr, entry->ifa_netmask)) prefixes.push_back(*prefix);
  }
  return prefixes;
}

std::vector<StorageTarget> storage_targets(const std::string& sysfs, const std::vector<LocalPort>& ports) {
  std::vector<StorageTarget> targets;
  const std::string directory = sysfs + "/class/nvme";
  for (const std::string& name : list_directory(directory).value_or(std::vector<std::string>{})) {
    const std::string controller = directory + "/" + name;
    const auto transport = read_attribute(controller + "/transport");
    if (!transport || *transport != "rdma") continue;
    const auto text = read_attribute(controller + "/address");
    if (!text) continue;
    const NvmeAddress address = parse_nvme_address(*text);
    if (address.traddr.empty()) continue;
    StorageTarget target{address.traddr, device_for(ports, address.traddr)};
    for (const std::string& own : {address.src_addr, address.host_traddr})
      if (target.device.empty() && !own.empty()) target.device = device_for(ports, own);
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(std::move(target));
  }
  return targets;
}

std::vector<std::string> choose_devices(const std::string& sysfs, const std::vector<std::string>& configured) {
  if (!configured.empty()) return configured;
  const std::vector<std::string> all = rdma_devices(sysfs);
  std::vector<LocalPort> ports;
  for (const std::string& device : all) ports.push_back({device, {}, subnets_of(sysfs, device)});
  std::vector<std::string> chosen;
  for (const std::string& device : all) {
    const auto targets = storage_targets(sysfs, ports);
    if (std::any_of(targets.begin(), targets.end(), [&](const StorageTarget& t) { return t.device == device; }))
      chosen.push_back(device);
  }
  return chosen.empty() ? all : chosen;
}

std::vector<std::pair<std::string, std::string>> names_of(const std::vector<StorageTarget>& targets) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const StorageTarget& target : targets) {
    sockaddr_storage address{};
    socklen_t length = 0;
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    if (inet_pton(AF_INET, target.address.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      length = sizeof *v4;
    } else if (inet_pton(AF_INET6, target.address.c_str(), &v6->sin6_addr) == 1) {
      v6->sin6_family = AF_INET6;
      length = sizeof *v6;
    } else {
      continue;
    }
    char host[NI_MAXHOST];
    if (getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof host, nullptr, 0, NI_NAMEREQD) == 0)
      names.emplace_back(target.address, host);
  }
  return names;
}

}  // namespace roce::probe

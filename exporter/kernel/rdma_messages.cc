// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_messages.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace roce {
namespace {

using namespace rdma_abi;

tl::unexpected<Error> malformed(std::string_view what) {
  return fail(ErrorKind::kMalformed, "rdma netlink: " + std::string(what));
}

// Stores a number that fits T; false when it does not or is none.
template <class T>
bool store(const NetlinkAttribute& attribute, T& out) {
  const auto value = attribute.number();
  if (!value || *value > std::numeric_limits<T>::max()) return false;
  out = static_cast<T>(*value);
  return true;
}
template <class T>
bool store(const NetlinkAttribute& attribute, std::optional<T>& out) {
  T value{};
  if (!store(attribute, value)) return false;
  out = value;
  return true;
}

// Calls `each` for all attributes; `each` returns false for one that it cannot read.
template <class Each>
bool for_each(Bytes bytes, Each each) {
  AttributeReader reader(bytes);
  NetlinkAttribute attribute;
  while (reader.next(attribute)) {
    if (!each(attribute)) return false;
  }
  return !reader.malformed();
}

// The payload of the last attribute of that type (as netlink has it: a repetition replaces).
bool find(Bytes bytes, Attribute type, std::optional<Bytes>& out) {
  return for_each(bytes, [&](const NetlinkAttribute& a) {
    if (a.type == type) out = a.payload;
    return true;
  });
}

// Entries of a table: nests of `entry` type, others passed over.
template <class Each>
bool for_each_entry(Bytes table, Attribute entry, Each each) {
  return for_each(table, [&](const NetlinkAttribute& a) { return a.type != entry || each(a.payload); });
}

bool read_counters(Bytes table, std::vector<NamedValue>& out) {
  std::set<std::string_view> seen;
  return for_each_entry(table, kStatHwcounterEntry, [&](Bytes entry) {
    std::string_view name;
    std::optional<std::uint64_t> value;
    const bool whole = for_each(entry, [&](const NetlinkAttribute& a) {
      if (a.type == kStatHwcounterName) name = a.text();
      if (a.type == kStatHwcounterValue) return store(a, value);
      return true;
    });
    if (!whole || name.empty() || !value) return false;
    if (seen.insert(name).second) out.push_back({std::string(name), *value});
    return true;
  });
}

bool read_qpns(Bytes table, std::vector<std::uint32_t>& out) {
  return for_each_entry(table, kResQpEntry, [&](Bytes entry) {
    std::optional<std::uint32_t> qpn;
    const bool whole = for_each(entry, [&](const NetlinkAttribute& a) { return a.type != kResLqpn || store(a, qpn); });
    if (!whole || !qpn) return false;
    out.push_back(*qpn);
    return true;
  });
}

bool read_counter_set(Bytes entry, QpCounterSet& set) {
  bool has_id = false;
  const bool whole = for_each(entry, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kPortIndex:
        return store(a, set.port);
      case kStatCounterId:
        return has_id = store(a, set.id);
      case kResPid:
        return store(a, set.pid);
      case kResType:
        return store(a, set.qp_type);
      case kResQp:
        return read_qpns(a.payload, set.qpns);
      case kStatHwcounters:
        return read_counters(a.payload, set.counters);
      default:
        return true;
    }
  });
  return whole && has_id;
}

// An address of a connection: sockaddr_storage, of which an IPv4 or IPv6 address is used. Others stay empty.
void read_address(Bytes bytes, RdmaAddress& out) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  sa_family_t family = AF_UNSPEC;
  if (bytes.size() < sizeof family) return;
  std::memcpy(&family, bytes.data(), sizeof family);
  if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
    sockaddr_in address{};
    std::memcpy(&address, bytes.data(), sizeof address);
    if (inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr) return;
    out = {text.data(), ntohs(address.sin_port)};
  } else if (family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 address{};
    std::memcpy(&address, bytes.data(), sizeof address);
    if (inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size()) == nullptr) return;
    out = {text.data(), ntohs(address.sin6_port)};
  }
}

// Takes an attribute that says who made an object; `known` tells whether it was one.
bool read_owner(const NetlinkAttribute& a, RdmaOwner& owner, bool& known) {
  known = true;
  if (a.type == kResPid) return store(a, owner.pid);
  if (a.type == kResKernName) {
    owner.name = a.text();
    return true;
  }
  known = false;
  return true;
}

// The entries of the table `table_type`; `each` reads one attribute of the object, `keep` says whether the object is
// whole: nothing for one to pass over, false for a malformed one.
template <class T, class Each, class Keep>
Result<std::vector<T>> read_objects(Bytes payload, Attribute table_type, Attribute entry_type, const char* what,
                                    Each each, Keep keep) {
  std::vector<T> all;
  std::optional<Bytes> table;
  if (!find(payload, table_type, table)) return malformed(what);
  if (!table) return all;
  const bool whole = for_each_entry(*table, entry_type, [&](Bytes entry) {
    T object;
    if (!for_each(entry, [&](const NetlinkAttribute& a) { return each(a, object); })) return false;
    const std::optional<bool> kept = keep(object);
    if (kept == std::optional(false)) return false;
    if (kept) all.push_back(std::move(object));
    return true;
  });
  if (!whole) return malformed(what);
  return all;
}

// Objects of which only number, owner and perhaps a size are wanted.
template <class T>
Result<std::vector<T>> read_owned(Bytes payload, Attribute table_type, Attribute entry_type, Attribute id,
                                  const char* what) {
  return read_objects<T>(
      payload, table_type, entry_type, what,
      [id](const NetlinkAttribute& a, T& object) {
        bool owner = false;
        if (!read_owner(a, object.owner, owner)) return false;
        if (owner) return true;
        if constexpr (std::is_same_v<T, RdmaMr>) {
          if (a.type == kResMrLen) return store(a, object.length);
        }
        return a.type != id || store(a, object.id);
      },
      // Numbers of these objects begin at 1; kernels before 5.1 have none.
      [](const T&) { return std::optional(true); });
}

}  // namespace

Result<RdmaDevice> parse_rdma_device(Bytes payload) {
  RdmaDevice device;
  bool has_index = false;
  const bool whole = for_each(payload, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kDevIndex:
        return has_index = store(a, device.index);
      case kDevName:
        device.name = a.text();
        return true;
      case kPortIndex:
        return store(a, device.port_count);
      case kFwVersion:
        device.firmware = a.text();
        return true;
      case kNodeGuid:
        return store(a, device.node_guid);
      case kSysImageGuid:
        return store(a, device.sys_image_guid);
      case kDevProtocol:
        device.protocol = a.text();
        return true;
      default:
        return true;
    }
  });
  if (!whole || !has_index || device.name.empty()) return malformed("device");
  return device;
}

Result<RdmaPort> parse_rdma_port(Bytes payload) {
  RdmaPort port;
  bool has_index = false;
  const bool whole = for_each(payload, [&](const NetlinkAttribute& a) {
    switch (a.type) {
      case kPortIndex:
        return has_index = store(a, port.port);
      case kPortState:
        return store(a, port.state);
      case kPortPhysState:
        return store(a, port.physical_state);
      case kNdevIndex:
        return store(a, port.netdev_index);
      case kNdevName:
        port.netdev = a.text();
        return true;
      default:
        return true;
    }
  });
  if (!whole || !has_index) return malformed("port");
  return port;
}

Result<std::vector<NamedValue>> parse_rdma_counters(Bytes payload) {
  std::optional<Bytes> table;
  std::vector<NamedValue> counters;
  if (!find(payload, kStatHwcounters, table) || !table || !read_counters(*table, counters))
    return malformed("counters");
  return counters;
}

Result<std::vector<CounterStatus>> parse_rdma_counter_status(Bytes payload) {
  std::optional<Bytes> table;
  std::vector<CounterStatus> all;
  std::set<std::string_view> seen;
  const bool whole =
      find(payload, kStatHwcounters, table) && table && for_each_entry(*table, kStatHwcounterEntry, [&](Bytes entry) {
        CounterStatus status;
        std::string_view name;
        const bool entry_whole = for_each(entry, [&](const NetlinkAttribute& a) {
          if (a.type == kStatHwcounterName) name = a.text();
          if (a.type == kStatHwcounterIndex) return store(a, status.index);
          // Only a counter that can be switched carries this.
          if (a.type == kStatHwcounterDynamic) {
            const auto on = a.number();
            status.optional = true;
            status.enabled = on.value_or(0) != 0;
            return on.has_value();
          }
          return true;
        });
        if (!entry_whole || name.empty()) return false;
        status.name = name;
        if (seen.insert(name).second) all.push_back(std::move(status));
        return true;
      });
  if (!whole) return malformed("counter status");
  return all;
}

Result<std::vector<ResourceCount>> parse_rdma_resources(Bytes payload) {
  std::optional<Bytes> table;
  std::vector<ResourceCount> all;
  std::set<std::string_view> seen;
  const bool whole =
      find(payload, kResSummary, table) && table && for_each_entry(*table, kResSummaryEntry, [&](Bytes entry) {
        std::string_view name;
        std::optional<std::uint64_t> current;
        std::optional<std::uint64_t> limit;
        const bool entry_whole = for_each(entry, [&](const NetlinkAttribute& a) {
          if (a.type == kResSummaryEntryName) name = a.text();
          if (a.type == kResSummaryEntryCurr) return store(a, current);
          if (a.type == kResSummaryEntryMax) return store(a, limit);
          return true;
        });
        if (!entry_whole || name.empty() || !current) return false;
        if (limit == 0U) limit.reset();
        if (seen.insert(name).second) all.push_back({std::string(name), *current, limit});
        return true;
      });
  if (!whole) return malformed("resource summary");
  return all;
}

Result<std::vector<QpCounterSet>> parse_rdma_qp_counter_sets(Bytes payload) {
  std::vector<QpCounterSet> sets;
  std::optional<Bytes> table;
  // A message of this dump may hold no table: nothing of that device matched.
  if (!find(payload, kStatCounter, table)) return malformed("counter sets");
  if (!table) return sets;
  const bool whole = for_each_entry(*table, kStatCounterEntry, [&](Bytes entry) {
    QpCounterSet set;
    if (!read_counter_set(entry, set)) return false;
    sets.push_back(std::move(set));
    return true;
  });
  if (!whole) return malformed("counter sets");
  return sets;
}

Result<NetnsMode> parse_rdma_netns_mode(Bytes payload) {
  std::optional<std::uint64_t> mode;
  const bool whole =
      for_each(payload, [&](const NetlinkAttribute& a) { return a.type != kSysNetnsMode || store(a, mode); });
  if (!whole) return malformed("system");
  if (!mode) return fail(ErrorKind::kUnsupported, "rdma netlink: netns mode");
  if (*mode > 1) return malformed("netns mode");
  return *mode == 1 ? NetnsMode::kShared : NetnsMode::kExclusive;
}

Result<std::vector<RdmaQp>> parse_rdma_qps(Bytes payload) {
  struct Entry : RdmaQp {
    bool has_number = false;
    bool has_type = false;
    bool has_state = false;
  };
  ROCE_TRY(auto entries,
           read_objects<Entry>(
               payload, kResQp, kResQpEntry, "QPs",
               [](const NetlinkAttribute& a, Entry& qp) {
                 bool owner = false;
                 if (!read_owner(a, qp.owner, owner)) return false;
                 switch (a.type) {
                   case kPortIndex:
                     return store(a, qp.port);
                   case kResLqpn:
                     return qp.has_number = store(a, qp.number);
                   case kResType:
                     return qp.has_type = store(a, qp.type);
                   case kResState:
                     return qp.has_state = store(a, qp.state);
                   default:
                     return true;
                 }
               },
               [](const Entry& qp) { return std::optional(qp.has_number && qp.has_type && qp.has_state); }));
  return std::vector<RdmaQp>(entries.begin(), entries.end());
}

Result<std::vector<RdmaCmId>> parse_rdma_cm_ids(Bytes payload) {
  return read_objects<RdmaCmId>(
      payload, kResCmId, kResCmIdEntry, "CM_IDs",
      [](const NetlinkAttribute& a, RdmaCmId& id) {
        bool owner = false;
        if (!read_owner(a, id.owner, owner)) return false;
        switch (a.type) {
          case kPortIndex:
            return store(a, id.port);
          case kResLqpn:
            return store(a, id.qpn);
          case kResState:
            return store(a, id.state);
          case kResCmIdn:
            return store(a, id.id);
          case kResSrcAddr:
            read_address(a.payload, id.source);
            return true;
          case kResDstAddr:
            read_address(a.payload, id.destination);
            return true;
          default:
            return true;
        }
      },
      [](const RdmaCmId&) { return std::optional(true); });
}

Result<std::vector<RdmaCq>> parse_rdma_cqs(Bytes payload) {
  return read_owned<RdmaCq>(payload, kResCq, kResCqEntry, kResCqn, "CQs");
}

Result<std::vector<RdmaMr>> parse_rdma_mrs(Bytes payload) {
  return read_owned<RdmaMr>(payload, kResMr, kResMrEntry, kResMrn, "MRs");
}

Result<std::vector<RdmaVerbsContext>> parse_rdma_contexts(Bytes payload) {
  // The kernel's own contexts are entries without anything in them.
  ROCE_TRY(auto all, read_owned<RdmaVerbsContext>(payload, kResCtx, kResCtxEntry, kResCtxn, "contexts"));
  std::erase_if(all, [](const RdmaVerbsContext& context) { return context.id == 0 && !context.owner.pid; });
  return all;
}

Result<std::vector<RdmaMrStatistic>> parse_rdma_mr_statistics(Bytes payload) {
  return read_objects<RdmaMrStatistic>(
      payload, kResMr, kResMrEntry, "MR statistics",
      [](const NetlinkAttribute& a, RdmaMrStatistic& mr) {
        if (a.type == kResMrn) return store(a, mr.id);
        return a.type != kStatHwcounters || read_counters(a.payload, mr.counters);
      },
      // Regions without counters are most of them.
      [](const RdmaMrStatistic& mr) { return mr.counters.empty() ? std::nullopt : std::optional(mr.id != 0); });
}

}  // namespace roce

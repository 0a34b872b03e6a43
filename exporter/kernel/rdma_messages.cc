// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma_messages.h"

#include <limits>
#include <set>
#include <string>
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

}  // namespace roce

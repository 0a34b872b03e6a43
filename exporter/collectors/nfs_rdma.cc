// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/nfs_rdma.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/base/saturate.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/hidden_name.h"
#include "exporter/collectors/storage_link.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/nfs_mountstats.h"

namespace roce {
namespace {

constexpr std::size_t kMountstatsLimit = std::size_t{16} << 20;
constexpr std::size_t kNamedOperations = 6;
// These keep their own name whatever else a mount does.
constexpr std::array<std::string_view, 3> kDataOperations{"READ", "WRITE", "COMMIT"};
constexpr std::string_view kOther = "other";

// Numbers behind "xprt: rdma" in the kernel's order, as the counter tables name them.
constexpr std::array<std::string_view, 27> kTransportFields{"local_port",
                                                            "bind_count",
                                                            "connect_count",
                                                            "connect_time",
                                                            "idle_time",
                                                            "sends",
                                                            "recvs",
                                                            "bad_xids",
                                                            "req_u",
                                                            "bklog_u",
                                                            "read_chunks",
                                                            "write_chunks",
                                                            "reply_chunks",
                                                            "total_rdma_req",
                                                            "total_rdma_rep",
                                                            "pullup",
                                                            "fixup",
                                                            "hardway",
                                                            "failed_marshal",
                                                            "bad_reply",
                                                            "nomsg_calls",
                                                            "mrs_recycled",
                                                            "mrs_orphaned",
                                                            "mrs_allocated",
                                                            "local_inv_needed",
                                                            "empty_sendctx_q",
                                                            "reply_waits_for_send"};
constexpr std::size_t kBindCount = 1;
constexpr std::size_t kConnectCount = 2;
constexpr std::size_t kIdleTime = 4;

struct Sums {
  std::uint64_t transports = 0;
  bool whole = true;
  std::array<std::optional<std::uint64_t>, kTransportFields.size()> fields;
};

// All fields of the mount's transports together; of idle times the greatest. Without a part of one of them they would
// be sums of something else, so then there is none.
Sums sums_of(const NfsMount& mount) {
  Sums sums;
  std::optional<std::size_t> first;  // how many numbers the kernel at hand tells
  for (const NfsTransport& transport : mount.transports) {
    if (transport.protocol != "rdma") continue;
    ++sums.transports;
    sums.whole =
        sums.whole && !transport.malformed && transport.numbers.size() == first.value_or(transport.numbers.size());
    first = transport.numbers.size();
    const std::size_t n = std::min(transport.numbers.size(), kTransportFields.size());
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t before = sums.fields[i].value_or(0);
      sums.fields[i] =
          i == kIdleTime ? std::max(before, transport.numbers[i]) : saturating_add(before, transport.numbers[i]);
    }
  }
  return sums;
}

// Mounts of one server share its connections, and each mount shows them. What cannot differ then: the address, version
// and port, and how often each connection was made.
std::string transports_key(const NfsMount& mount) {
  std::string key(mount.option("addr").empty() ? mount.server() : mount.option("addr"));
  for (std::string_view option : {"vers", "proto", "port"}) {
    key += '|';
    key += mount.option(option);
  }
  for (const NfsTransport& transport : mount.transports) {
    for (std::size_t i : {kBindCount, kConnectCount}) {
      key += '|';
      if (i < transport.numbers.size()) key += std::to_string(transport.numbers[i]);
    }
  }
  return key;
}

// One tree mounted in two places; the age may turn between two lines.
bool same_tree(const NfsMount& a, const NfsMount& b) {
  return a.source == b.source && a.options == b.options && a.age - b.age + 1 <= 2;
}

class NfsRdmaCollector : public Collector {
 public:
  explicit NfsRdmaCollector(CollectorContext context) : Collector(std::move(context)), links_(host()) {}

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "procfs_nfs", "");
    const auto transports = std::make_shared<Part>();
    const auto operations = std::make_shared<Part>();
    transports->read_at = operations->read_at = Part::Clock::now();
    add_client(transports->samples, operations->samples);
    add_server(transports->samples);
    for (const auto& part : {transports, operations})
      if (!part->samples.samples().empty()) out.parts.push_back(part);
    links_.prune();
    return failures_.conclude();
  }

 private:
  void add_client(SampleBatch& transports, SampleBatch& operations) {
    std::vector<NfsMount> mounts;
    const auto text = read_mountstats();
    if (text) {
      // The mounts of any process begin with a line of this form, whatever is mounted.
      if (!trim(*text).empty() && text->find("device ") == std::string::npos)
        failures_.note(Error{ErrorKind::kMalformed, 0, "mountstats"});
      mounts = parse_mountstats(*text);
      std::erase_if(mounts, [](const NfsMount& mount) { return !mount.over_rdma(); });
    } else if (text.error().kind == ErrorKind::kAbsent && !host().live) {
      mounts = recorded_operations();
    } else {
      failures_.note(text.error());
      return;
    }
    // Directories are named after projects and customers.
    if (context().settings.hide_identity)
      for (NfsMount& mount : mounts) mount.mount_point = hidden_name("mount", mount.mount_point);
    // Of several mounts in one place the last covers the others.
    std::map<std::string_view, const NfsMount*> visible;
    for (const NfsMount& mount : mounts) visible[mount.mount_point] = &mount;
    std::erase_if(named_, [&](const auto& entry) { return !visible.contains(entry.first); });

    std::map<std::string, std::string_view> transport_owners;
    std::vector<const NfsMount*> trees;
    for (const NfsMount& mount : mounts) {
      if (visible[mount.mount_point] != &mount) continue;
      const auto [owner, first] = transport_owners.emplace(transports_key(mount), mount.mount_point);
      if (first) add_transports(mount, transports);
      const auto tree =
          std::find_if(trees.begin(), trees.end(), [&](const NfsMount* other) { return same_tree(*other, mount); });
      std::string_view operations_of = mount.mount_point;
      if (tree != trees.end()) {
        operations_of = (*tree)->mount_point;
      } else {
        trees.push_back(&mount);
        add_operations(mount, operations);
      }
      if (!mount.source.empty()) add_identity(mount, owner->second, operations_of, transports);
    }
  }

  // In a container the mounts of this process are the container's. The host's procfs is another one there, and its
  // first process has the host's mounts. Statistics of a process are for its own user, its list of mounts is for
  // everybody: where that names none over RDMA, nothing is missed.
  Result<std::string> read_mountstats() const {
    if (host().live && host().procfs != "/proc") {
      const std::string init = host().procfs + "/1/";
      auto text = read_file(init + "mountstats", kMountstatsLimit);
      if (text) return text;
      if (text.error().kind != ErrorKind::kAbsent) {
        const auto mounts = read_file(init + "mounts", kMountstatsLimit);
        if (!mounts || mounts_nfs_over_rdma(*mounts)) return text;
        return std::string();
      }
    }
    return read_file(host().procfs + "/self/mountstats", kMountstatsLimit);
  }

  // A recording may hold the lines of the operations alone.
  std::vector<NfsMount> recorded_operations() const {
    const auto slash = host().procfs.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : host().procfs.substr(0, slash);
    const auto text = read_file(folder + "/per_op_lines.txt", kMountstatsLimit);
    if (!text) return {};
    NfsMount mount;
    mount.operations = parse_nfs_operations(*text);
    if (mount.operations.empty()) return {};
    return {mount};
  }

  void add_identity(const NfsMount& mount, std::string_view transports_of, std::string_view operations_of,
                    SampleBatch& batch) {
    const bool hide = context().settings.hide_identity;
    const auto shown = [hide](std::string_view text) { return hide ? std::string_view() : text; };
    batch.add(metric::nfs_mount_info,
              {mount.mount_point, shown(mount.server()), shown(mount.exported()), mount.option("vers"),
               shown(mount.option("addr")), transports_of, operations_of},
              1);
    StorageConnection connection;
    connection.target = mount.option("addr").empty() ? mount.server() : mount.option("addr");
    if (const auto link = links_.find(connection, device().devices, false))
      batch.add(metric::nfs_mount_link_info,
                {mount.mount_point, link->device, link->port, link->netdev, link->found_by}, 1);
  }

  void add_transports(const NfsMount& mount, SampleBatch& batch) {
    const Sums sums = sums_of(mount);
    if (sums.transports == 0) return;
    batch.add(metric::nfs_transports, {mount.mount_point}, sums.transports);
    if (!sums.whole) return failures_.note(Error{ErrorKind::kMalformed, 0, "mountstats: xprt of " + mount.mount_point});
    for (std::size_t i = 0; i < kTransportFields.size(); ++i) {
      if (!sums.fields[i]) continue;
      const CounterRow* row = find_counter("nfs-rdma", Interface::kOther, kTransportFields[i]);
      if (row == nullptr || row->metric == nullptr) continue;
      std::vector<std::string_view> labels{mount.mount_point};
      labels.insert(labels.end(), row->values.span().begin(), row->values.span().end());
      batch.add(*row->metric, labels, *sums.fields[i]);
    }
  }

  // An operation keeps its name once it has one; those that find no room are added up.
  void add_operations(const NfsMount& mount, SampleBatch& batch) {
    std::set<std::string, std::less<>>& named = named_[mount.mount_point];
    std::size_t free = kNamedOperations - kDataOperations.size();
    for (const std::string& name : named)
      if (std::find(kDataOperations.begin(), kDataOperations.end(), name) == kDataOperations.end()) --free;
    std::map<std::string_view, NfsOperation> shown;
    for (const NfsOperation& operation : mount.operations) {
      if (operation.requests == 0 && operation.transmissions == 0) continue;
      std::string_view name = operation.name;
      const bool data = std::find(kDataOperations.begin(), kDataOperations.end(), name) != kDataOperations.end();
      if (!named.contains(name)) {
        if (data || free > 0)
          named.emplace(name);
        else
          name = kOther;
        if (!data && free > 0) --free;
      }
      const auto [place, first] = shown.emplace(name, operation);
      if (!first) add(place->second, operation);
    }
    for (const auto& [name, operation] : shown) {
      const std::string_view point = mount.mount_point;
      batch.add(metric::nfs_operations, {point, name}, operation.requests);
      batch.add(metric::nfs_operation_transmissions, {point, name}, operation.transmissions);
      batch.add(metric::nfs_operation_timeouts, {point, name}, operation.timeouts);
      if (operation.errors) batch.add(metric::nfs_operation_errors, {point, name}, *operation.errors);
      batch.add(metric::nfs_operation_round_trip, {point, name}, static_cast<double>(operation.round_trip_ms) / 1000.0);
      batch.add(metric::nfs_operation_execution, {point, name}, static_cast<double>(operation.execute_ms) / 1000.0);
    }
  }

  static void add(NfsOperation& sum, const NfsOperation& operation) {
    sum.requests = saturating_add(sum.requests, operation.requests);
    sum.transmissions = saturating_add(sum.transmissions, operation.transmissions);
    sum.timeouts = saturating_add(sum.timeouts, operation.timeouts);
    sum.round_trip_ms = saturating_add(sum.round_trip_ms, operation.round_trip_ms);
    sum.execute_ms = saturating_add(sum.execute_ms, operation.execute_ms);
    if (operation.errors) sum.errors = saturating_add(sum.errors.value_or(0), *operation.errors);
  }

  void add_server(SampleBatch& batch) {
    const std::string dir = host().procfs + "/sys/sunrpc/svc_rdma/";
    for (std::string_view name : {"rdma_stat_read", "rdma_stat_write", "rdma_stat_recv", "rdma_stat_sq_starve"}) {
      const CounterRow* row = find_counter("svcrdma", Interface::kOther, name);
      if (row == nullptr || row->metric == nullptr) continue;
      const auto value = read_u64(dir + std::string(name));
      if (!value) {
        failures_.note(value.error());
        continue;
      }
      const auto labels = row->values.span();
      batch.add(*row->metric, std::vector<std::string_view>(labels.begin(), labels.end()), *value);
    }
    // Lines such as "rdma 20049".
    const auto ports = read_file(host().procfs + "/fs/nfsd/portlist");
    if (!ports) {
      // Root alone may read it on some kernels: the number is not known then, and nothing else is lost.
      if (ports.error().kind != ErrorKind::kDenied) failures_.note(ports.error());
      return;
    }
    std::uint64_t listeners = 0;
    std::string_view rest = *ports;
    while (!rest.empty()) {
      std::string_view line = take_line(rest);
      const std::string_view transport = take_word(line);
      if (transport == "rdma" || transport == "rdma6") ++listeners;
    }
    batch.add(metric::nfs_server_rdma_listeners, {}, listeners);
  }

  StorageLinkFinder links_;
  std::map<std::string, std::set<std::string, std::less<>>> named_;  // by mount
  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_nfs_rdma_collector(const CollectorContext& context) {
  return std::make_unique<NfsRdmaCollector>(context);
}

}  // namespace roce

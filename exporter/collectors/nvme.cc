// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/nvme.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
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
#include "exporter/collectors/absent.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/storage_link.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/nvme.h"

namespace roce {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kDetailedPaths = 32;
constexpr std::size_t kDetailedNamespaces = 64;
constexpr std::string_view kDiscoveryNqn = "nqn.2014-08.org.nvmexpress.discovery";
constexpr std::string_view kDiscoveryPort = "8009";
constexpr std::size_t kMostOdd = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();

// The counters of a path, in one order.
constexpr std::size_t kPathCounters = 9;
using PathCounters = std::array<std::optional<std::uint64_t>, kPathCounters>;
struct PathCounterKind {
  const MetricDesc& metric;
  std::string_view operation;  // empty: the metric has no such label
  bool milliseconds = false;
};
const std::array<PathCounterKind, kPathCounters>& path_counter_kinds() {
  static const std::array<PathCounterKind, kPathCounters> kinds{{{metric::nvme_path_operations, "read"},
                                                                 {metric::nvme_path_bytes, "read"},
                                                                 {metric::nvme_path_seconds, "read", true},
                                                                 {metric::nvme_path_operations, "write"},
                                                                 {metric::nvme_path_bytes, "write"},
                                                                 {metric::nvme_path_seconds, "write", true},
                                                                 {metric::nvme_path_failovers, ""},
                                                                 {metric::nvme_path_command_retries, ""},
                                                                 {metric::nvme_path_command_errors, ""}}};
  return kinds;
}

struct PathFacts {
  std::string name_space;
  std::string disk;
  std::optional<std::string> ana;  // absent: the controller has no ANA, or
  bool ana_unread = false;         // it has, but does not tell
  PathCounters counters;
  std::optional<std::uint64_t> in_flight;
};

struct ControllerFacts {
  const NvmeController* controller = nullptr;
  std::string transport;
  std::string type;
  std::string nqn;
  NvmeAddress address;
  std::optional<NvmeState> state;
  std::optional<std::uint64_t> cntlid;
  bool local = false;
  bool path = false;      // carries I/O over a fabric
  bool unplaced = false;  // neither its transport nor its address tells whether it is one
  std::vector<PathFacts> paths;
};

// What is remembered of a controller between reads.
struct History {
  std::uint64_t identity = 0;  // of its directory: a controller of the same name made later is another one
  std::optional<NvmeState> state;
  std::optional<std::uint64_t> cntlid;
  bool born = false;  // made while this program looked on: its first connection is none made again
  bool was_live = false;
  std::uint64_t seen = 0;  // reconnects that reads showed
  std::optional<std::uint64_t> events_before;
  Clock::time_point connecting_since{};
  // Sums over paths must not fall when a namespace goes away.
  std::map<std::string, PathCounters> last;
  PathCounters sums;
};

struct NamespaceFacts {
  std::string subsystem;
  std::uint64_t paths = 0;
  std::uint64_t usable = 0;
  std::uint64_t optimized = 0;
  bool unlisted = false;  // there may be more paths
  bool unread = false;    // a path does not tell whether it is usable
};

class NvmeCollector : public Collector {
 public:
  explicit NvmeCollector(CollectorContext context) : Collector(std::move(context)), links_(host()) {}

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "sysfs_nvme", "");
    ROCE_TRY(const NvmeTree tree, list_nvme(host()));
    now_ = Clock::now();
    std::vector<ControllerFacts> controllers;
    for (const NvmeController& controller : tree.controllers)
      if (auto facts = read_controller(controller)) controllers.push_back(std::move(*facts));
    forget_others(controllers);

    // In the order in which a limit may cut: what alerts need first.
    const auto health = std::make_shared<Part>();
    const auto identity = std::make_shared<Part>();
    const auto settings = std::make_shared<Part>();
    const auto traffic = std::make_shared<Part>();
    for (const ControllerFacts& facts : controllers) {
      add_state(facts, health->samples);
      add_link(facts, identity->samples);
      add_settings(facts, settings->samples);
      remember(facts);
    }
    for (const ControllerFacts& facts : controllers) add_info(facts, identity->samples);
    add_subsystems(tree, controllers, health->samples, identity->samples);
    add_namespaces(tree, controllers, health->samples);
    add_paths(controllers, health->samples, traffic->samples);
    for (const auto& [attribute, kind] : odd_) add_absent(*health, "", attribute, kind);
    odd_.clear();
    links_.prune();
    looked_before_ = true;
    for (const auto& part : {health, identity, settings, traffic}) {
      part->read_at = now_;
      if (!part->samples.samples().empty()) out.parts.push_back(part);
    }
    return failures_.conclude();
  }

 private:
  // An attribute that this kernel or transport does not have is no failure.
  std::optional<std::string> text(const std::string& path) { return failures_.value(read_attribute(path)); }
  std::string text_or_empty(const std::string& path) { return text(path).value_or(""); }
  std::optional<std::uint64_t> number(const std::string& path) {
    const auto value = read_u64(path);
    if (value) return *value;
    if (value.error().kind == ErrorKind::kMalformed)
      odd(path);
    else
      failures_.note(value.error());
    return std::nullopt;
  }
  // An attribute that is no number where one must be says nothing of the other ones: it is told alone.
  void odd(const std::string& path) { tell(path, ErrorKind::kMalformed); }
  // One on which counts depend is told by name, and what depends on it is left out.
  void unread(const std::string& path, const Error& error) {
    failures_.note(error);
    tell(path, error.kind);
  }
  void tell(const std::string& path, ErrorKind kind) {
    const auto file = path.rfind('/');
    const auto object = path.rfind('/', file - 1);
    if (odd_.size() < kMostOdd) odd_.emplace(path.substr(object + 1), kind);
  }
  std::string shown(const std::string& identity) const {
    return context().settings.hide_identity ? std::string() : identity;
  }

  std::optional<ControllerFacts> read_controller(const NvmeController& controller) {
    const std::string& dir = controller.dir;
    ControllerFacts facts;
    facts.controller = &controller;
    const auto state = read_attribute(dir + "/state");
    if (state)
      facts.state = parse_nvme_state(*state);
    else if (state.error().kind == ErrorKind::kUnsupported)
      facts.state = NvmeState::kUnknown;  // an empty word is none that is known
    else
      unread(dir + "/state", state.error());
    const auto told_transport = read_attribute(dir + "/transport");
    const auto transport = failures_.value(told_transport);
    if (!transport && !state && state.error().kind == ErrorKind::kAbsent) return std::nullopt;  // it went away
    facts.address = parse_nvme_address(text_or_empty(dir + "/address"));
    facts.local = transport ? *transport == "pcie" : !facts.address.pci_address.empty();
    facts.transport = transport.value_or(facts.local ? "pcie" : "");
    facts.nqn = text_or_empty(dir + "/subsysnqn");
    facts.type = type_of(facts, dir);
    facts.unplaced = !transport && !has_address(facts.address);
    if (facts.unplaced) tell(dir + "/transport", told_transport.error().kind);
    facts.path = !facts.local && !facts.unplaced && facts.type != "discovery" && facts.type != "admin";
    facts.cntlid = number(dir + "/cntlid");
    if (facts.path && controller.unlisted) failures_.note(*controller.unlisted);
    if (facts.path)
      for (const NvmePath& path : controller.paths)
        if (auto found = read_path(path)) facts.paths.push_back(std::move(*found));
    return facts;
  }

  static bool has_address(const NvmeAddress& address) {
    return !address.pci_address.empty() || !address.traddr.empty() || !address.host_traddr.empty();
  }

  // Kernels before 5.10 do not tell the type.
  std::string type_of(const ControllerFacts& facts, const std::string& dir) {
    if (auto type = text(dir + "/cntrltype")) return *type;
    if (facts.local) return {};
    if (facts.nqn == kDiscoveryNqn || (facts.nqn.empty() && facts.address.trsvcid == kDiscoveryPort))
      return "discovery";
    return {};
  }

  std::optional<PathFacts> read_path(const NvmePath& path) {
    PathFacts facts;
    facts.name_space = path.name_space;
    facts.disk = path.disk;
    if (const auto ana = read_attribute(path.dir + "/ana_state")) {
      facts.ana = std::string(parse_ana_state(*ana));
    } else if (ana.error().kind != ErrorKind::kAbsent) {
      facts.ana_unread = true;
      unread(path.dir + "/ana_state", ana.error());
    }
    // With statistics off the numbers stand still and say nothing.
    const auto counted = read_attribute(path.dir + "/queue/iostats");
    if (!counted || *counted != "0") {
      if (const auto line = read_attribute(path.dir + "/stat")) {
        if (const auto statistics = parse_block_statistics(*line)) {
          facts.counters = {statistics->read.operations,  statistics->read.bytes,  statistics->read.milliseconds,
                            statistics->write.operations, statistics->write.bytes, statistics->write.milliseconds};
          facts.in_flight = statistics->in_flight;
        } else {
          odd(path.dir + "/stat");
        }
      } else {
        failures_.note(line.error());
      }
    }
    const std::string diag = path.dir + "/diag";
    if (exists(diag)) {
      facts.counters[6] = number(diag + "/multipath_failover_count");
      facts.counters[7] = number(diag + "/command_retry_count");
      facts.counters[8] = number(diag + "/command_error_count");
    }
    return facts;
  }

  History& history(const ControllerFacts& facts) {
    struct stat status{};
    const std::uint64_t identity =
        stat(facts.controller->dir.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_ino) : 0;
    History& known = histories_[facts.controller->name];
    if (known.identity != identity) {
      known = History();
      known.identity = identity;
      known.born = looked_before_;
      if (!known.born) known.events_before = host().nvme_events->connections(facts.controller->name);
    }
    return known;
  }

  void forget_others(const std::vector<ControllerFacts>& controllers) {
    std::set<std::string_view> present;
    for (const ControllerFacts& facts : controllers) present.insert(facts.controller->name);
    std::erase_if(histories_, [&](const auto& entry) { return !present.contains(entry.first); });
  }

  void add_state(const ControllerFacts& facts, SampleBatch& batch) {
    if (!facts.state) return;
    const NvmeController& c = *facts.controller;
    for (NvmeState state : kNvmeStates)
      if (facts.path || state == *facts.state)
        batch.add(metric::nvme_controller_state, {c.name, c.subsystem, facts.transport, to_string(state)},
                  state == *facts.state);
    if (!facts.path) return;

    History& known = history(facts);
    const std::uint64_t made = reconnects(facts, known);
    if (*facts.state == NvmeState::kConnecting) {
      if (!known.state || *known.state != NvmeState::kConnecting) known.connecting_since = now_;
      if (const auto limit = time(c.dir + "/ctrl_loss_tmo")) {
        const double gone = std::chrono::duration<double>(now_ - known.connecting_since).count();
        const double left = limit->never ? kNever : static_cast<double>(limit->seconds) - gone;
        batch.add(metric::nvme_controller_loss_timeout_remaining, {c.name, c.subsystem}, std::max(left, 0.0));
      }
    }
    std::optional<std::uint64_t> counted;
    if (exists(c.dir + "/diag")) {
      counted = number(c.dir + "/diag/reconnect_count");
      if (const auto resets = number(c.dir + "/diag/reset_count"))
        batch.add(metric::nvme_controller_resets, {c.name, c.subsystem}, *resets);
      if (const auto errors = number(c.dir + "/diag/command_error_count"))
        batch.add(metric::nvme_controller_command_errors, {c.name, c.subsystem}, *errors);
    }
    batch.add(metric::nvme_controller_reconnects, {c.name, c.subsystem}, counted.value_or(made));
  }

  // Reconnects that reads or the kernel's events have shown; a loss between two reads shows in the events, or in the ID
  // of the controller, which each connection has anew.
  std::uint64_t reconnects(const ControllerFacts& facts, History& known) const {
    const std::uint64_t events = host().nvme_events->connections(facts.controller->name);
    if (*facts.state == NvmeState::kLive && known.state) {
      const bool live_before = *known.state == NvmeState::kLive;
      const bool away = *known.state == NvmeState::kConnecting || *known.state == NvmeState::kResetting;
      const bool other_id = facts.cntlid && known.cntlid && *facts.cntlid != *known.cntlid;
      const bool first = known.born && !known.was_live;
      if ((away && !first) || (live_before && other_id)) ++known.seen;
      // The event of its first connection may come after the first read.
      if (live_before && !known.events_before) known.events_before = events;
    }
    if (*facts.state == NvmeState::kLive) known.was_live = true;
    if (!known.events_before || events < *known.events_before) return known.seen;
    return std::max(known.seen, events - *known.events_before);
  }

  void remember(const ControllerFacts& facts) {
    if (!facts.path || !facts.state) return;
    History& known = history(facts);
    known.state = facts.state;
    if (facts.cntlid) known.cntlid = facts.cntlid;
  }

  std::optional<NvmeTime> time(const std::string& path) {
    const auto value = text(path);
    if (!value) return std::nullopt;
    const auto time = parse_nvme_time(*value);
    if (!time) odd(path);
    return time;
  }

  void add_settings(const ControllerFacts& facts, SampleBatch& batch) {
    if (!facts.path) return;
    const NvmeController& c = *facts.controller;
    // The count has the admin queue in it, the size counts from 0.
    if (const auto queues = number(c.dir + "/queue_count"); queues && *queues > 0)
      batch.add(metric::nvme_controller_io_queues, {c.name, c.subsystem}, *queues - 1);
    if (const auto size = number(c.dir + "/sqsize"); size && *size < std::numeric_limits<std::uint64_t>::max())
      batch.add(metric::nvme_controller_queue_depth, {c.name, c.subsystem}, *size + 1);
    if (const auto seconds = number(c.dir + "/kato"))
      batch.add(metric::nvme_controller_keep_alive, {c.name, c.subsystem}, *seconds);
    const std::array<std::pair<const char*, const MetricDesc*>, 3> times{
        {{"/reconnect_delay", &metric::nvme_controller_reconnect_delay},
         {"/ctrl_loss_tmo", &metric::nvme_controller_loss_timeout},
         {"/fast_io_fail_tmo", &metric::nvme_controller_fast_io_fail_timeout}}};
    for (const auto& [file, desc] : times) {
      const auto limit = time(c.dir + file);
      if (!limit) continue;
      if (limit->never)
        batch.add(*desc, {c.name, c.subsystem}, kNever);
      else
        batch.add(*desc, {c.name, c.subsystem}, limit->seconds);
    }
  }

  void add_link(const ControllerFacts& facts, SampleBatch& batch) {
    if (facts.local || facts.transport == "fc" || facts.transport == "loop") return;
    const NvmeAddress& address = facts.address;
    const StorageConnection connection{
        address.traddr, address.host_traddr.empty() ? address.src_addr : address.host_traddr, address.host_iface};
    const auto known = histories_.find(facts.controller->name);
    const bool changed = known == histories_.end() || known->second.state != facts.state;
    const auto link = links_.find(connection, device().devices, changed);
    if (!link) return;
    batch.add(metric::nvme_controller_link_info,
              {facts.controller->name, link->device, link->port, link->netdev, link->found_by}, 1);
  }

  void add_info(const ControllerFacts& facts, SampleBatch& batch) {
    const NvmeController& c = *facts.controller;
    const NvmeAddress& address = facts.address;
    batch.add(metric::nvme_controller_info,
              {c.name, c.subsystem, facts.transport, facts.type, shown(address.traddr), address.trsvcid,
               shown(address.host_traddr), address.host_iface, shown(address.src_addr), address.pci_address,
               shown(facts.nqn), shown(text_or_empty(c.dir + "/hostnqn")), text_or_empty(c.dir + "/model"),
               text_or_empty(c.dir + "/firmware_rev")},
              1);
  }

  // A subsystem whose last controller is gone may still have namespaces, and is no local drive.
  static bool over_fabrics(const std::string& subsystem, const std::vector<ControllerFacts>& controllers) {
    bool any = false;
    for (const ControllerFacts& facts : controllers) {
      if (facts.controller->subsystem != subsystem) continue;
      if (facts.path) return true;
      any = true;
    }
    return !any;
  }

  void add_subsystems(const NvmeTree& tree, const std::vector<ControllerFacts>& controllers, SampleBatch& health,
                      SampleBatch& identity) {
    struct Paths {
      std::uint64_t all = 0;
      std::uint64_t live = 0;
      bool unread = false;
      bool unplaced = false;
      std::set<std::string> namespaces;
    };
    std::map<std::string, Paths> subsystems;
    for (const NvmeSubsystem& subsystem : tree.subsystems) {
      if (!over_fabrics(subsystem.name, controllers)) continue;
      Paths& paths = subsystems[subsystem.name];
      for (const NvmeNamespace& name_space : subsystem.namespaces) paths.namespaces.insert(name_space.name);
      const std::string& dir = subsystem.dir;
      const std::string nqn = text_or_empty(dir + "/subsysnqn");
      identity.add(
          metric::nvme_subsystem_info,
          {subsystem.name, text_or_empty(dir + "/iopolicy"), text_or_empty(dir + "/subsystype"), shown(nqn),
           text_or_empty(dir + "/model"), shown(text_or_empty(dir + "/serial")), text_or_empty(dir + "/firmware_rev")},
          1);
    }
    for (const ControllerFacts& facts : controllers) {
      if (!facts.path) continue;
      Paths& paths = subsystems[facts.controller->subsystem];
      ++paths.all;
      if (facts.state == NvmeState::kLive) ++paths.live;
      if (!facts.state) paths.unread = true;
      for (const PathFacts& path : facts.paths) paths.namespaces.insert(path.name_space);
    }
    // After all that have a place, whichever number they bear.
    for (const ControllerFacts& facts : controllers)
      if (facts.unplaced)
        if (const auto known = subsystems.find(facts.controller->subsystem); known != subsystems.end())
          known->second.unplaced = true;
    for (const auto& [name, paths] : subsystems) {
      if (!paths.unplaced) health.add(metric::nvme_subsystem_paths, {name}, paths.all);
      if (!paths.unread && !paths.unplaced) health.add(metric::nvme_subsystem_paths_live, {name}, paths.live);
      // Without a subsystem's directory none need be known.
      if (!name.empty() || !paths.namespaces.empty())
        health.add(metric::nvme_subsystem_namespaces, {name}, static_cast<std::uint64_t>(paths.namespaces.size()));
    }
  }

  void add_namespaces(const NvmeTree& tree, const std::vector<ControllerFacts>& controllers, SampleBatch& batch) {
    std::map<std::string, NamespaceFacts> namespaces;
    for (const NvmeSubsystem& subsystem : tree.subsystems) {
      if (!over_fabrics(subsystem.name, controllers)) continue;
      for (const NvmeNamespace& name_space : subsystem.namespaces) {
        namespaces[name_space.name].subsystem = subsystem.name;
        const std::string diag = name_space.dir + "/diag";
        if (!exists(diag)) continue;
        if (const auto count = number(diag + "/io_requeue_no_usable_path_count"))
          batch.add(metric::nvme_namespace_requeued_commands, {subsystem.name, name_space.name}, *count);
        if (const auto count = number(diag + "/io_fail_no_available_path_count"))
          batch.add(metric::nvme_namespace_failed_commands, {subsystem.name, name_space.name}, *count);
      }
    }
    for (const ControllerFacts& facts : controllers) {
      for (const PathFacts& path : facts.paths) {
        NamespaceFacts& found = namespaces[path.name_space];
        if (found.subsystem.empty()) found.subsystem = facts.controller->subsystem;
        ++found.paths;
        if (!facts.state || (facts.state == NvmeState::kLive && path.ana_unread)) found.unread = true;
        if (facts.state != NvmeState::kLive || path.ana_unread) continue;
        const bool optimized = !path.ana || *path.ana == "optimized";
        if (optimized) ++found.optimized;
        if (optimized || *path.ana == "non-optimized") ++found.usable;
      }
    }
    for (const ControllerFacts& facts : controllers)
      if (facts.unplaced || (facts.path && facts.controller->unlisted))
        for (auto& [name, found] : namespaces)
          if (found.subsystem == facts.controller->subsystem) found.unlisted = true;
    for (const auto& [name, facts] : namespaces) {
      if (facts.unlisted) continue;
      if (namespaces.size() > kDetailedNamespaces && facts.usable == facts.paths && facts.paths > 0) continue;
      batch.add(metric::nvme_namespace_paths, {facts.subsystem, name}, facts.paths);
      if (facts.unread) continue;
      batch.add(metric::nvme_namespace_paths_usable, {facts.subsystem, name}, facts.usable);
      batch.add(metric::nvme_namespace_paths_optimized, {facts.subsystem, name}, facts.optimized);
    }
  }

  void add_paths(const std::vector<ControllerFacts>& controllers, SampleBatch& health, SampleBatch& traffic) {
    std::size_t total = 0;
    for (const ControllerFacts& facts : controllers) total += facts.paths.size();
    const bool detailed = total <= kDetailedPaths;
    for (const ControllerFacts& facts : controllers) {
      const std::string& name = facts.controller->name;
      for (const PathFacts& path : facts.paths) {
        if (path.ana && (detailed || (*path.ana != "optimized" && *path.ana != "non-optimized")))
          health.add(metric::nvme_path_ana_state, {name, path.name_space, *path.ana}, 1);
        if (!detailed) continue;
        add_counters(name, path.name_space, path.counters, traffic);
        if (path.in_flight) traffic.add(metric::nvme_path_in_flight, {name, path.name_space}, *path.in_flight);
      }
      if (!detailed && !facts.paths.empty()) add_sums(facts, traffic);
    }
  }

  void add_sums(const ControllerFacts& facts, SampleBatch& batch) {
    History& known = history(facts);
    std::map<std::string, PathCounters> now;
    std::optional<std::uint64_t> in_flight;
    for (const PathFacts& path : facts.paths) {
      const PathCounters& before = known.last[path.disk];
      for (std::size_t i = 0; i < kPathCounters; ++i) {
        if (!path.counters[i]) continue;
        const std::uint64_t value = *path.counters[i];
        const std::uint64_t step = before[i] && *before[i] <= value ? value - *before[i] : value;
        known.sums[i] = saturating_add(known.sums[i].value_or(0), step);
      }
      now[path.disk] = path.counters;
      if (path.in_flight) in_flight = in_flight.value_or(0) + *path.in_flight;
    }
    known.last = std::move(now);
    add_counters(facts.controller->name, "", known.sums, batch);
    if (in_flight) batch.add(metric::nvme_path_in_flight, {facts.controller->name, ""}, *in_flight);
  }

  static void add_counters(const std::string& controller, const std::string& name_space, const PathCounters& counters,
                           SampleBatch& batch) {
    for (std::size_t i = 0; i < kPathCounters; ++i) {
      if (!counters[i]) continue;
      const PathCounterKind& kind = path_counter_kinds()[i];
      const Value value = kind.milliseconds ? Value(static_cast<double>(*counters[i]) / 1000.0) : Value(*counters[i]);
      if (kind.operation.empty())
        batch.add(kind.metric, {controller, name_space}, value);
      else
        batch.add(kind.metric, {controller, name_space, kind.operation}, value);
    }
  }

  StorageLinkFinder links_;
  std::map<std::string, History> histories_;
  FailureNote failures_;
  std::map<std::string, ErrorKind> odd_;  // attributes of this run that gave no value, as OBJECT/FILE
  bool looked_before_ = false;
  Clock::time_point now_{};
};

}  // namespace

std::unique_ptr<Collector> make_nvme_collector(const CollectorContext& context) {
  return std::make_unique<NvmeCollector>(context);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// What the engine keeps between collections; for engine.cc and assembly.cc alone.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "exporter/engine/engine.h"
#include "exporter/engine/executor.h"
#include "exporter/engine/sampler.h"

namespace roce {

struct Run {
  std::shared_ptr<const InventoryDevice> device;  // as it was when the run began
  Output output;
  std::optional<Error> error;
  Engine::Clock::duration took{};
  Engine::Clock::time_point finished;
};

// One collector on one object: an RDMA device, a network device without one, or the host.
struct Unit {
  const CollectorEntry* entry = nullptr;
  std::string name;   // of the object, as success and duration tell it
  std::string label;  // value of the label `device` in its samples
  std::shared_ptr<const InventoryDevice> device;
  std::unique_ptr<Collector> collector;
  std::shared_ptr<const Run> last;
  std::map<std::string, std::uint64_t, std::less<>> regressions;  // by port, as of the last run
  std::string logged_error;
  bool in_flight = false;
  bool awaited = false;  // a request sleeps until its run ends
  std::optional<Engine::Clock::time_point> started;
  bool rtnl = false;
};

struct DeviceUnits {
  std::shared_ptr<const InventoryDevice> device;
  std::shared_ptr<PortStates> port_states = std::make_shared<PortStates>();
  std::map<const CollectorEntry*, std::shared_ptr<Unit>> units;
};

// Objects of different kinds may have the same name.
inline std::string key_of(ObjectKind kind, const std::string& name) {
  return std::to_string(static_cast<int>(kind)) + name;
}
inline std::string key_of(const InventoryDevice& object) { return key_of(object.kind, object.name); }

// A call that has been running as long is told.
inline constexpr auto kTellInFlight = std::chrono::seconds(1);

struct Engine::State {
  mutable std::mutex mutex;
  std::condition_variable done;
  std::shared_ptr<const Host> host;
  EngineConfig config;
  std::shared_ptr<Inventory> inventory;
  Executor executor;
  std::unique_ptr<Sampler> sampler;

  bool inventory_in_flight = false;
  Clock::time_point inventory_started{};
  Clock::time_point inventory_finished{};
  DeviceList devices;  // RDMA devices
  DeviceList objects;  // and everything else that collectors serve
  std::optional<Error> inventory_error;
  bool inventory_known = false;
  std::optional<NetnsMode> netns_mode;

  std::map<std::string, DeviceUnits> units;  // by key_of
  std::map<std::string, std::uint64_t, std::less<>> series_dropped;
  std::uint64_t evidence_dropped = 0;
  std::uint64_t collections = 0;
  std::set<std::string> warned_over_limit;

  void start_inventory(const std::shared_ptr<State>& self);
  std::optional<NetnsMode> read_netns_mode() const;
  void reconcile();
  void start(const std::shared_ptr<State>& self, const std::shared_ptr<Unit>& unit);
  void finish(const std::shared_ptr<Unit>& unit, std::shared_ptr<const Run> run);
  static void log_change(const Unit& unit, const std::string& before, const std::string& now,
                         const std::optional<Error>& error);
  std::string text_of(const Error& error) const;
  bool due(const Unit& unit, Clock::time_point now) const;
  bool usable(const Unit& unit, Clock::time_point oldest, Clock::time_point now) const;
  std::string_view late_reason(const Unit& unit) const;
  bool overdue(const Unit& unit, Clock::time_point now) const;
};

}  // namespace roce

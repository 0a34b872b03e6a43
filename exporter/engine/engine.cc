// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/engine.h"

#include <algorithm>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/engine/assembly.h"
#include "exporter/engine/state.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using Clock = Engine::Clock;

constexpr auto kTick = std::chrono::milliseconds(50);
// A port that has gone or come since makes what was read of the device old.
bool same_ports(const Run& run, const InventoryDevice& device) {
  if (run.device.get() == &device) return true;
  return std::equal(run.device->ports.begin(), run.device->ports.end(), device.ports.begin(), device.ports.end(),
                    [](const InventoryPort& a, const InventoryPort& b) { return a.number == b.number; });
}

// What holds nothing is not kept: on a host with hundreds of functions most parts of this run do. An older one that is
// repeated stays, since it tells an age.
void drop_empty_parts(Output& output, Clock::time_point since) {
  std::erase_if(output.parts, [&](const auto& part) {
    return part->read_at >= since && part->samples.samples().empty() && part->counters.empty();
  });
  if (output.parts.empty()) output.parts = {};
}

// Jobs of one card wait for each other; the host's sources have nothing to wait for.
std::string card_of(const Unit& unit) {
  if (unit.device->kind == ObjectKind::kHost) return "host " + std::string(unit.entry->name);
  return unit.device->card;
}

bool same_registration(const InventoryDevice& a, const InventoryDevice& b) {
  return a.kind == b.kind && a.generation == b.generation && a.driver == b.driver && a.pci_address == b.pci_address &&
         a.path == b.path;
}

}  // namespace

void Engine::State::start_inventory(const std::shared_ptr<State>& self) {
  inventory_in_flight = true;
  inventory_started = Clock::now();
  executor.submit({"inventory", false, [self, source = inventory] {
                     auto found = source->refresh();
                     DeviceList rest = source->others();
                     const auto mode = self->read_netns_mode();
                     const std::lock_guard lock(self->mutex);
                     if (self->inventory != source) return;  // configured anew: another listing is awaited now
                     self->inventory_in_flight = false;
                     self->netns_mode = mode;
                     if (found) {
                       self->devices = std::move(*found);
                       self->objects = self->devices;
                       self->objects.insert(self->objects.end(), rest.begin(), rest.end());
                       self->inventory_error.reset();
                       self->inventory_known = true;
                     } else {
                       self->inventory_error = found.error();
                     }
                     self->inventory_finished = Clock::now();
                     self->reconcile();
                     self->done.notify_all();
                   }});
}

std::optional<NetnsMode> Engine::State::read_netns_mode() const {
  if (host->rdma)
    if (const auto mode = host->rdma->netns_mode()) return *mode;
  const auto shared = read_attribute(host->sysfs + "/module/ib_core/parameters/netns_mode");
  if (!shared || (*shared != "Y" && *shared != "N")) return std::nullopt;
  return *shared == "Y" ? NetnsMode::kShared : NetnsMode::kExclusive;
}

// Makes the units agree with the devices. The caller holds the mutex.
void Engine::State::reconcile() {
  std::map<std::string, DeviceUnits> kept;
  std::set<std::string_view> rdma_names;
  for (const auto& device : devices) rdma_names.insert(device->name);
  for (const auto& device : objects) {
    DeviceUnits now;
    const auto old = units.find(key_of(*device));
    if (old != units.end() && same_registration(*old->second.device, *device)) now = std::move(old->second);
    now.device = device;
    for (const CollectorEntry& entry : config.collectors) {
      if (!config.enabled(entry) || !serves(entry.scope, *device)) {
        now.units.erase(&entry);
        continue;
      }
      auto& unit = now.units[&entry];
      if (!unit) {
        unit = std::make_shared<Unit>();
        unit->entry = &entry;
        unit->name = device->name;
        if (device->kind == ObjectKind::kRdma) unit->label = device->name;
        if (device->kind == ObjectKind::kNetdev && rdma_names.contains(device->name)) unit->name += " (netdev)";
        unit->collector = entry.create({host, device, now.port_states, config.settings});
      }
      unit->device = device;
      std::erase_if(unit->regressions, [&](const auto& of_port) {
        return device->kind == ObjectKind::kRdma && !of_port.first.empty() &&
               std::none_of(device->ports.begin(), device->ports.end(),
                            [&](const InventoryPort& port) { return port.text == of_port.first; });
      });
      unit->rtnl = entry.locks == LockClass::kRtnl || (entry.locks == LockClass::kPortQuery && device->rtnl_port_query);
    }
    kept.emplace(key_of(*device), std::move(now));
  }
  units = std::move(kept);
  if (sampler) sampler->set_devices(devices);
}

void Engine::State::start(const std::shared_ptr<State>& self, const std::shared_ptr<Unit>& unit) {
  unit->in_flight = true;
  unit->started.reset();
  executor.submit({card_of(*unit), unit->rtnl && host->live, [self, unit] {
                     std::shared_ptr<const InventoryDevice> device;
                     const auto begin = Clock::now();
                     {
                       const std::lock_guard lock(self->mutex);
                       unit->started = begin;
                       device = unit->device;
                     }
                     auto run = std::make_shared<Run>();
                     run->device = device;
                     try {
                       unit->collector->update(std::move(device));
                       if (auto result = unit->collector->collect(run->output); !result) run->error = result.error();
                     } catch (const std::exception& e) {
                       run->error = Error{ErrorKind::kIo, 0, e.what()};
                     }
                     drop_empty_parts(run->output, begin);
                     run->finished = Clock::now();
                     run->took = run->finished - begin;
                     self->finish(unit, std::move(run));
                   }});
}

void Engine::State::finish(const std::shared_ptr<Unit>& unit, std::shared_ptr<const Run> run) {
  std::string before;
  std::string now;
  const std::optional<Error> error = run->error;
  {
    const std::lock_guard lock(mutex);
    if (error) now = text_of(*error);
    before = now;
    unit->in_flight = false;
    unit->started.reset();
    std::swap(unit->logged_error, before);
    for (auto& [port, count] : unit->regressions) count = 0;
    if (same_ports(*run, *unit->device))
      for (const auto& part : run->output.parts)
        for (const auto& [port, states] : part->counters) unit->regressions[port] += part->regressions;
    unit->last = std::move(run);
    if (std::exchange(unit->awaited, false)) done.notify_all();
  }
  log_change(*unit, before, now, error);
}

// An error's object is a path or a name, and those can tell what --hide-identity keeps back. The caller holds the
// mutex.
std::string Engine::State::text_of(const Error& error) const {
  return config.settings.hide_identity ? error.reason() : error.message();
}

// A change is worth a line; the same failure at each scrape is not. Called without the mutex: a pipe that nobody
// reads must hold up no scrape.
void Engine::State::log_change(const Unit& unit, const std::string& before, const std::string& now,
                               const std::optional<Error>& error) {
  if (now == before) return;
  const std::string& device = unit.name;
  if (!error)
    log::info("collector recovered", {{"collector", unit.entry->name}, {"device", device}});
  else if (error->kind != ErrorKind::kAbsent && error->kind != ErrorKind::kNotRecorded)
    log::warn("collector failed", {{"collector", unit.entry->name}, {"device", device}, {"err", now}});
}

bool Engine::State::due(const Unit& unit, Clock::time_point now) const {
  if (unit.in_flight) return false;
  if (!unit.last || !same_ports(*unit.last, *unit.device)) return true;
  const auto period = unit.entry->cadence == Cadence::kSlow ? config.slow_period : config.share_window;
  return now - unit.last->finished >= period;
}

bool Engine::State::usable(const Unit& unit, Clock::time_point oldest, Clock::time_point now) const {
  if (!unit.last || !same_ports(*unit.last, *unit.device)) return false;
  if (unit.entry->cadence == Cadence::kSlow) return now - unit.last->finished <= 2 * config.slow_period;
  return unit.last->finished >= oldest;
}

bool Engine::State::overdue(const Unit& unit, Clock::time_point now) const {
  if (unit.started) return now - *unit.started >= config.source_deadline;
  return executor.blocked(card_of(unit), unit.rtnl && host->live, config.source_deadline) != Executor::Blocked::kNo;
}

std::string_view Engine::State::late_reason(const Unit& unit) const {
  if (unit.started || !unit.in_flight) return "timeout";
  switch (executor.blocked(card_of(unit), unit.rtnl && host->live, kTellInFlight)) {
    case Executor::Blocked::kRtnl:
      return "rtnl_blocked";
    case Executor::Blocked::kCard:
      return "busy";
    case Executor::Blocked::kNo:
      return "timeout";
  }
  return "timeout";
}

Engine::Engine(std::shared_ptr<const Host> host, EngineConfig config) : state_(std::make_shared<State>()) {
  state_->host = std::move(host);
  configure(std::move(config));
}

// Jobs hold the state, so that the last of them may outlive this object: the executor is stopped here, not by whoever
// lets the state go.
Engine::~Engine() {
  std::unique_ptr<Sampler> sampler;
  {
    const std::lock_guard lock(state_->mutex);
    sampler = std::move(state_->sampler);
  }
  sampler.reset();
  state_->executor.stop();
}

void Engine::configure(EngineConfig config) {
  const std::lock_guard lock(state_->mutex);
  const bool settings_changed = state_->config.settings != config.settings;
  const bool sampler_changed = settings_changed || state_->config.sampler_interval != config.sampler_interval;
  state_->config = std::move(config);
  state_->inventory =
      std::make_shared<Inventory>(state_->host, state_->config.device_wanted, state_->config.netdev_wanted);
  state_->inventory_known = false;
  state_->inventory_in_flight = false;
  state_->inventory_finished = {};
  // What is no longer wanted is gone at once, not only after the next listing.
  std::erase_if(state_->devices, [&](const auto& device) { return !state_->config.device_wanted(device->name); });
  std::erase_if(state_->objects, [&](const auto& object) {
    if (object->kind == ObjectKind::kRdma) return !state_->config.device_wanted(object->name);
    return object->kind == ObjectKind::kNetdev && !state_->config.netdev_wanted(object->name);
  });
  if (settings_changed) state_->units.clear();
  if (sampler_changed) {
    state_->sampler.reset();
    if (state_->config.sampler_interval.count() > 0)
      state_->sampler =
          std::make_unique<Sampler>(state_->host, state_->executor, state_->config.sampler_interval,
                                    Sampler::sources_of(state_->config.collectors), state_->config.settings);
  }
  state_->reconcile();
}

void Engine::devices_changed() {
  const std::lock_guard lock(state_->mutex);
  state_->inventory->invalidate();
  state_->inventory_finished = {};
}

std::uint64_t Engine::collections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->collections;
}

unsigned Engine::worker_threads() const { return state_->executor.workers(); }

Page Engine::collect(std::chrono::milliseconds budget, const std::vector<std::string>& only) {
  State& s = *state_;
  const auto begin = Clock::now();
  const auto deadline = begin + budget;
  const auto wanted = [&](const CollectorEntry& entry) {
    return only.empty() || std::find(only.begin(), only.end(), entry.name) != only.end();
  };

  std::unique_lock lock(s.mutex);
  const auto oldest = begin - s.config.share_window;
  // 1. Which devices are there. A listing that hangs leaves the last one in use, and is waited for once only.
  if (!s.inventory_in_flight && s.inventory_finished < oldest) s.start_inventory(state_);
  const auto inventory_deadline = std::min(deadline, s.inventory_started + s.config.source_deadline);
  while (s.inventory_in_flight && Clock::now() < inventory_deadline) {
    s.done.wait_for(lock, kTick);
    lock.unlock();
    s.executor.relieve();
    lock.lock();
  }

  // 2. Start what is due.
  std::vector<std::shared_ptr<Unit>> units;
  bool started_any = false;
  for (const auto& device : s.objects) {
    const auto at = s.units.find(key_of(*device));
    if (at == s.units.end()) continue;
    for (const CollectorEntry& entry : s.config.collectors) {
      const auto unit = at->second.units.find(&entry);
      if (unit == at->second.units.end() || !wanted(entry)) continue;
      if (s.due(*unit->second, begin)) {
        s.start(state_, unit->second);
        started_any = true;
      }
      units.push_back(unit->second);
    }
  }
  if (started_any) ++s.collections;

  // 3. Wait for them, but not for those that hang. What was started last ends last as a rule: a request that sleeps
  // until that one ends is woken a few times, not by each of thousands of runs.
  const auto last_pending = [&] {
    const auto now = Clock::now();
    return std::find_if(units.rbegin(), units.rend(), [&](const std::shared_ptr<Unit>& unit) {
      if (!unit->in_flight) return false;
      if (unit->entry->cadence == Cadence::kSlow && s.usable(*unit, oldest, now)) return false;
      return !s.overdue(*unit, now);
    });
  };
  for (auto at = last_pending(); at != units.rend() && Clock::now() < deadline; at = last_pending()) {
    (*at)->awaited = true;
    s.done.wait_until(lock, std::min(deadline, Clock::now() + kTick));
    lock.unlock();
    s.executor.relieve();
    lock.lock();
  }

  // 4. Put the page together.
  Assembly assembly(s, units.size(), oldest);
  for (const auto& unit : units) assembly.add(*unit);
  return assembly.finish(Clock::now() < deadline, only.empty());
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/catalog/catalog.h"
#include "exporter/engine/executor.h"
#include "exporter/engine/sampler.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using Clock = Engine::Clock;

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr auto kTellInFlight = std::chrono::seconds(1);
constexpr std::size_t kDetailedDevices = 32;
// Series of a port that the engine itself writes (roce_counters, regressions): taken off the port's limit.
constexpr std::size_t kOwnSeriesPerPort = 8;
// The same for the host: success, duration, age and dropped series of each collector, and those of the process.
constexpr std::size_t kOwnSeriesPerHost = 50;
constexpr std::size_t kOwnSeriesPerCollector = 4;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

struct Run {
  std::shared_ptr<const InventoryDevice> device;  // as it was when the run began
  Output output;
  std::optional<Error> error;
  Clock::duration took{};
  Clock::time_point finished;
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
  std::optional<Clock::time_point> started;
  bool rtnl = false;
};

struct DeviceUnits {
  std::shared_ptr<const InventoryDevice> device;
  std::shared_ptr<PortStates> port_states = std::make_shared<PortStates>();
  std::map<const CollectorEntry*, std::shared_ptr<Unit>> units;
};

// Objects of different kinds may have the same name.
std::string key_of(ObjectKind kind, const std::string& name) { return std::to_string(static_cast<int>(kind)) + name; }
std::string key_of(const InventoryDevice& object) { return key_of(object.kind, object.name); }

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

std::vector<const SampleBatch*> Page::batches() const { return order_; }

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
  Page page;
  page.sources.reserve(units.size() + 1);
  page.in_time = Clock::now() < deadline;
  auto own = std::make_shared<SampleBatch>();
  const auto now = Clock::now();
  page.devices = s.devices.size();
  std::map<std::string_view, std::pair<std::size_t, double>> healthy;  // collector -> runs and seconds, above the limit
  std::map<std::string_view, Clock::duration> oldest_of;               // collector -> greatest age, above the limit
  const auto is_host = [](const auto& object) { return object->kind == ObjectKind::kHost; };
  const auto hosts = static_cast<std::size_t>(std::count_if(s.objects.begin(), s.objects.end(), is_host));
  const bool detailed = s.objects.size() - hosts <= kDetailedDevices;
  const auto say = [&](const Unit& unit, bool ok, std::string_view reason, std::string detail, double took) {
    const std::string_view collector = unit.entry->name;
    const std::string& device = unit.name;
    if (ok && !detailed && unit.entry->scope != Scope::kHost) {
      auto& [runs, total] = healthy[collector];
      ++runs;
      total += took;
    } else {
      own->add(metric::collector_success, {collector, device}, ok);
      own->add(metric::collector_duration, {collector, device}, took);
    }
    if (!ok) own->add(metric::collector_failure, {collector, device, reason}, 1);
    page.sources.push_back({std::string(collector), device, ok, std::string(reason), std::move(detail)});
  };

  std::map<std::string_view, std::size_t> port_series;  // of what shares a limit, by port or network device
  std::map<std::string, std::array<std::uint32_t, kCounterStates>, std::less<>> counters;
  const auto end_device = [&](const std::string& device) {
    for (const auto& [port, states] : counters)
      for (std::size_t i = 0; i < kCounterStates; ++i)
        if (states[i] != 0 || i == 0)
          own->add(metric::counters, {device, port, to_string(static_cast<CounterState>(i))}, states[i]);
    // Of all collectors, also of those that this page leaves out or that are late: the sum must not fall.
    std::map<std::string_view, std::uint64_t> regressions;
    const auto add_regressions = [&](const std::string& key) {
      if (const auto at = s.units.find(key); at != s.units.end())
        for (const auto& [entry, unit] : at->second.units)
          for (const auto& [port, count] : unit->regressions) regressions[port] += count;
    };
    if (!device.empty()) {
      add_regressions(key_of(ObjectKind::kRdma, device));
    } else {  // all network devices without an RDMA device, and the host
      for (const auto& object : s.objects)
        if (object->kind != ObjectKind::kRdma) add_regressions(key_of(*object));
    }
    for (const auto& [port, count] : regressions) own->add(metric::counter_regressions, {device, port}, count);
    counters.clear();
  };

  const auto port_of = [](const Unit& unit, const SampleBatch& batch, const SampleBatch::Sample& sample) {
    const bool has_port = unit.device->kind == ObjectKind::kRdma && sample.metric->labels.starts_with("device,port");
    return has_port ? batch.label(sample, 1) : std::string_view{};
  };
  const auto is_detail = [](const Part& part, const SampleBatch::Sample& sample) {
    return part.least || sample.metric->weight == Weight::kDetail;
  };
  // How many details a port or the host has room for beside its evidence; filled where a limit may be reached.
  std::map<std::string_view, std::size_t> detail_room;

  // Adds a part up to the limit of its port or, of what belongs to no RDMA device, of the host; a network device has no
  // more than a port. A part that fits goes in whole, one that does not is copied up to the limit.
  const auto left_of = [](std::size_t limit, std::size_t own_series) { return limit - std::min(limit, own_series); };
  const std::size_t port_limit = left_of(s.config.series_per_port, kOwnSeriesPerPort);
  const std::size_t host_limit =
      left_of(s.config.series_per_host, kOwnSeriesPerHost + kOwnSeriesPerCollector * s.config.collectors.size());
  const auto add_part = [&](const Unit& unit, const std::shared_ptr<const Part>& part) {
    const SampleBatch& batch = part->samples;
    const bool of_host = unit.device->kind != ObjectKind::kRdma;
    const std::size_t limit = of_host ? host_limit : port_limit;
    std::size_t* const of_netdev =
        unit.device->kind == ObjectKind::kNetdev ? &port_series[std::string_view(unit.name)] : nullptr;
    std::size_t dropped = 0;
    bool evidence_dropped = false;
    std::shared_ptr<SampleBatch> cut;
    std::vector<std::string_view> labels;
    for (std::size_t i = 0; i < batch.samples().size(); ++i) {
      const SampleBatch::Sample& sample = batch.samples()[i];
      const std::string_view port = port_of(unit, batch, sample);
      std::size_t& used = port_series[port];
      bool fits = used < limit && (of_netdev == nullptr || *of_netdev < port_limit);
      if (fits && !detail_room.empty() && is_detail(*part, sample)) {
        std::size_t& room = detail_room[port];
        fits = room != 0;
        if (fits) --room;
      }
      if (!fits) {
        ++dropped;
        evidence_dropped = evidence_dropped || !is_detail(*part, sample);
        if (!cut) {
          cut = std::make_shared<SampleBatch>();
          for (std::size_t j = 0; j < i; ++j) {
            labels.clear();
            for (std::size_t l = 0; l < batch.samples()[j].label_count; ++l)
              labels.push_back(batch.label(batch.samples()[j], l));
            cut->add(*batch.samples()[j].metric, labels, batch.samples()[j].value);
          }
        }
        continue;
      }
      ++used;
      if (of_netdev != nullptr) ++*of_netdev;
      if (cut) {
        labels.clear();
        for (std::size_t l = 0; l < sample.label_count; ++l) labels.push_back(batch.label(sample, l));
        cut->add(*sample.metric, labels, sample.value);
      }
    }
    page.parts.push_back(part);
    if (cut) {
      page.kept_.push_back(cut);
      page.order_.push_back(cut.get());
    } else {
      page.order_.push_back(&batch);
    }
    if (dropped != 0) {
      s.series_dropped[std::string(unit.entry->name)] += dropped;
      // Of details the counter tells enough.
      if (evidence_dropped && s.warned_over_limit.insert(of_host ? std::string() : key_of(*unit.device)).second)
        log::warn(of_host ? "series limit of the host reached, the rest is left out"
                          : "series limit of a port reached, the rest is left out",
                  {{"device", unit.name},
                   {"collector", unit.entry->name},
                   {"limit", of_host ? s.config.series_per_host : s.config.series_per_port}});
    }
    for (const auto& [port, states] : part->counters) {
      auto& sum = counters[port];
      for (std::size_t i = 0; i < kCounterStates; ++i) sum[i] += states[i];
    }
  };

  // What shares a limit: the parts of an RDMA device, or those of the host and of all network devices without one. The
  // last ones lose first: details, before them the network devices, in the order of their collectors.
  struct Share {
    const Unit* unit;
    std::shared_ptr<const Part> part;
    std::size_t place;  // among the others
    auto rank() const { return std::tuple(part->least, unit->device->kind == ObjectKind::kNetdev, unit->entry, place); }
  };
  std::vector<Share> shares;
  const auto find_detail_room = [&] {
    detail_room.clear();
    if (shares.empty()) return;
    const std::size_t limit = shares.front().unit->device->kind == ObjectKind::kRdma ? port_limit : host_limit;
    std::size_t all = 0;
    for (const Share& share : shares) all += share.part->samples.samples().size();
    if (all <= limit) return;
    for (const Share& share : shares) {
      const SampleBatch& batch = share.part->samples;
      for (const SampleBatch::Sample& sample : batch.samples()) {
        std::size_t& room = detail_room.try_emplace(port_of(*share.unit, batch, sample), limit).first->second;
        if (!is_detail(*share.part, sample) && room != 0) --room;
      }
    }
  };
  const auto end_label = [&](const std::string& label) {
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.rank() < b.rank(); });
    find_detail_room();
    for (const Share& share : shares) add_part(*share.unit, share.part);
    shares.clear();
    port_series.clear();
    end_device(label);
  };
  const Unit* previous = nullptr;
  for (const auto& unit : units) {
    if (previous != nullptr && previous->label != unit->label) end_label(previous->label);
    previous = unit.get();
    if (!s.usable(*unit, oldest, now)) {
      const double took = unit->started ? seconds(now - *unit->started) : 0;
      const std::string_view reason = s.late_reason(*unit);
      say(*unit, false, reason, "no answer within the deadline", took);
      page.complete = false;
      continue;
    }
    const Run& run = *unit->last;
    Clock::duration age = unit->entry->cadence == Cadence::kSlow ? now - run.finished : Clock::duration::zero();
    for (const auto& part : run.output.parts) {
      shares.push_back({unit.get(), part, shares.size()});
      // Repeated from an earlier run (a port that is down), or read well before another port of the same run hung.
      if (now - part->read_at > s.config.share_window + s.config.source_deadline)
        age = std::max(age, now - part->read_at);
    }
    if (unit->entry->cadence == Cadence::kSlow || age > Clock::duration::zero()) {
      if (detailed || unit->entry->scope == Scope::kHost)
        own->add(metric::source_age, {unit->entry->name, unit->name}, seconds(age));
      else
        oldest_of[unit->entry->name] = std::max(oldest_of[unit->entry->name], age);
    }
    if (run.error)
      say(*unit, false, to_string(run.error->kind), s.text_of(*run.error), seconds(run.took));
    else
      say(*unit, true, "", "", seconds(run.took));
  }
  if (previous != nullptr) end_label(previous->label);

  for (const auto& [collector, sum] : healthy) {
    own->add(metric::collector_success, {collector, ""}, 1);
    own->add(metric::collector_duration, {collector, ""}, sum.second);
  }
  for (const auto& [collector, age] : oldest_of) own->add(metric::source_age, {collector, ""}, seconds(age));
  const bool listing_late =
      s.inventory_in_flight && (!s.inventory_known || now - s.inventory_started >= s.config.source_deadline);
  if (s.inventory_error || listing_late) {
    const std::string reason(s.inventory_error ? to_string(s.inventory_error->kind) : "timeout");
    own->add(metric::collector_success, {"inventory", ""}, 0);
    own->add(metric::collector_failure, {"inventory", "", reason}, 1);
    page.sources.push_back({"inventory", "", false, reason,
                            s.inventory_error ? s.text_of(*s.inventory_error) : "devices could not be listed in time"});
    page.complete = false;
  } else {
    if (s.netns_mode)
      own->add(metric::rdma_netns_mode_info, {*s.netns_mode == NetnsMode::kShared ? "shared" : "exclusive"}, 1);
    own->add(metric::rdma_devices, {}, static_cast<std::uint64_t>(s.devices.size()));
  }
  for (const CollectorEntry& entry : s.config.collectors) {
    const auto dropped = s.series_dropped.find(entry.name);
    own->add(metric::series_dropped, {entry.name},
             dropped == s.series_dropped.end() ? std::uint64_t{0} : dropped->second);
  }
  std::set<std::pair<std::string, std::string>> told;
  for (const CallTracker::Call& call : s.host->calls->in_flight(kTellInFlight))
    if (told.emplace(call.call, call.object).second)
      own->add(metric::kernel_call_in_flight, {call.call, call.object}, seconds(now - call.since));
  if (s.sampler && only.empty()) s.sampler->append_to(*own);
  page.own = own;
  page.order_.push_back(own.get());
  return page;
}

}  // namespace roce

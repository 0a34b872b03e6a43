// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/sampler.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::duration kDearRead = milliseconds(2);
constexpr Clock::duration kSlowest = seconds(2);
constexpr Clock::duration kCheapAgain = seconds(60);
constexpr std::int64_t kMostShare = 200;  // one part in so many of the time is spent reading at most
constexpr Clock::duration kBucket = seconds(10);
constexpr std::size_t kBuckets = 6;

// Families whose bursts matter: traffic where the driver counts it here, congestion, loss, pause.
bool is_sampled(const MetricDesc& metric) {
  static const std::array kFamilies{&metric::port_receive_bytes,
                                    &metric::port_transmit_bytes,
                                    &metric::cnp_sent,
                                    &metric::cnp_handled,
                                    &metric::receive_ecn_marked,
                                    &metric::receiver_not_ready,
                                    &metric::retransmit_triggers,
                                    &metric::receive_out_of_sequence,
                                    &metric::adaptive_retransmissions,
                                    &metric::port_receive_discards,
                                    &metric::pfc_frames,
                                    &metric::pfc_pause_seconds,
                                    &metric::pause_frames,
                                    &metric::priority_discards,
                                    &metric::physical_port_discards};
  return std::find(kFamilies.begin(), kFamilies.end(), &metric) != kFamilies.end();
}

// One family of one port: what its peak is kept for.
struct PeakKey {
  std::string port;
  std::string netdev;
  const MetricDesc* metric = nullptr;
  auto tie() const { return std::tie(port, netdev, metric); }
  bool operator<(const PeakKey& other) const { return tie() < other.tie(); }
};

// The maximum of the last minute, in buckets of ten seconds.
class Peak {
 public:
  void add(Clock::time_point at, double value) {
    const std::int64_t bucket = at.time_since_epoch() / kBucket;
    Slot& slot = slots_[static_cast<std::size_t>(bucket) % kBuckets];
    if (slot.bucket != bucket) slot = {bucket, value};
    slot.value = std::max(slot.value, value);
  }
  std::optional<double> value(Clock::time_point now) const {
    const std::int64_t bucket = now.time_since_epoch() / kBucket;
    std::optional<double> most;
    for (const Slot& slot : slots_)
      if (slot.bucket > bucket - static_cast<std::int64_t>(kBuckets) && slot.bucket <= bucket)
        most = std::max(most.value_or(slot.value), slot.value);
    return most;
  }

 private:
  struct Slot {
    std::int64_t bucket = -1;
    double value = 0;
  };
  std::array<Slot, kBuckets> slots_;
};

// One source of one device.
struct Unit {
  Unit(const Sampler::Source& source, std::shared_ptr<const InventoryDevice> of, const CollectorContext& context,
       Clock::duration configured)
      : entry(source.entry),
        device(std::move(of)),
        collector(source.entry->create(context)),
        pace(std::max<Clock::duration>(configured, source.least_interval)) {}

  const CollectorEntry* entry;
  std::shared_ptr<const InventoryDevice> device;
  std::unique_ptr<Collector> collector;
  SamplerPace pace;
  Clock::time_point due;
  bool in_flight = false;
  bool failing = false;
  std::uint64_t reads = 0;
  std::optional<Clock::time_point> last_at;
  std::map<std::string, double, std::less<>> last;  // a series, by its family's address and labels
  std::map<PeakKey, Peak> peaks;
};

std::string series_key(const SampleBatch& batch, const SampleBatch::Sample& sample) {
  std::string key(sample.metric->name);
  for (std::size_t i = 0; i < sample.label_count; ++i) {
    key += '\n';
    key += batch.label(sample, i);
  }
  return key;
}

PeakKey peak_key(const SampleBatch& batch, const SampleBatch::Sample& sample) {
  PeakKey key;
  key.metric = sample.metric;
  if (sample.label_count > 1) key.port = batch.label(sample, 1);
  if (sample.metric->labels.starts_with("device,port,netdev")) key.netdev = batch.label(sample, 2);
  return key;
}

// Growth since the read before; a series that is new, or fell, has none.
void take(Unit& unit, const Output& output, Clock::time_point at) {
  std::map<std::string, double, std::less<>> now;
  std::map<PeakKey, double> growth;
  for (const auto& part : output.parts) {
    for (const SampleBatch::Sample& sample : part->samples.samples()) {
      if (!is_sampled(*sample.metric)) continue;
      std::string key = series_key(part->samples, sample);
      const double value = sample.value.as_double();
      if (const auto before = unit.last.find(key); before != unit.last.end() && value >= before->second)
        growth[peak_key(part->samples, sample)] += value - before->second;
      now.insert_or_assign(std::move(key), value);
    }
  }
  if (unit.last_at && at > *unit.last_at) {
    const double passed = std::chrono::duration<double>(at - *unit.last_at).count();
    for (const auto& [key, grown] : growth) unit.peaks[key].add(at, grown / passed);
  }
  unit.last = std::move(now);
  unit.last_at = at;
}

}  // namespace

void SamplerPace::note(Duration took) {
  if (took > kDearRead || took * kMostShare > interval_) {
    cheap_for_ = {};
    interval_ *= 2;
    if (interval_ > kSlowest) stopped_ = true;
    return;
  }
  cheap_for_ += interval_;
  if (slowed() && cheap_for_ >= kCheapAgain) {
    cheap_for_ = {};
    interval_ = std::max(configured_, interval_ / 2);
  }
}

struct Sampler::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<const Host> host;
  Executor* executor = nullptr;
  Clock::duration interval{};
  std::vector<Source> sources;
  CollectorSettings settings;
  bool stopping = false;
  std::map<std::pair<std::string, const CollectorEntry*>, std::shared_ptr<Unit>> units;
  std::thread thread;

  static void run(const std::shared_ptr<State>& self);
  static void start(const std::shared_ptr<State>& self, const std::shared_ptr<Unit>& unit);
};

// The caller holds the mutex.
void Sampler::State::start(const std::shared_ptr<State>& self, const std::shared_ptr<Unit>& unit) {
  unit->in_flight = true;
  const bool rtnl = self->host->live && unit->entry->locks == LockClass::kRtnl;
  self->executor->submit({unit->device->card, rtnl, [self, unit] {
                            Output output;
                            const auto begin = Clock::now();
                            bool ok = false;
                            try {
                              ok = unit->collector->collect(output).has_value();
                            } catch (const std::exception& e) {
                              log::debug("a sample was not read", {{"err", e.what()}});
                            }
                            const auto end = Clock::now();
                            const std::lock_guard lock(self->mutex);
                            unit->in_flight = false;
                            unit->failing = !ok;
                            ++unit->reads;
                            const bool was_stopped = unit->pace.stopped();
                            // The first read lists files and asks for names.
                            if (unit->reads > 1) unit->pace.note(end - begin);
                            // Counters are of the moment at which the device answered, somewhere in between.
                            take(*unit, output, begin + (end - begin) / 2);
                            if (unit->pace.stopped() && !was_stopped)
                              log::warn("sampler stopped: reading costs too much",
                                        {{"device", unit->device->name}, {"source", unit->entry->name}});
                          }});
}

void Sampler::State::run(const std::shared_ptr<State>& self) {
  std::unique_lock lock(self->mutex);
  while (!self->stopping) {
    const auto now = Clock::now();
    auto next = now + seconds(1);
    for (const auto& [key, unit] : self->units) {
      if (unit->pace.stopped()) continue;
      if (unit->due <= now) {
        // A read that is still under way is not asked for again: ticks are left out, not queued.
        if (!unit->in_flight) start(self, unit);
        unit->due = std::max(unit->due + unit->pace.interval(), now);
      }
      next = std::min(next, unit->due);
    }
    self->changed.wait_until(lock, std::max(next, now + milliseconds(1)));
  }
}

Sampler::Sampler(std::shared_ptr<const Host> host, Executor& executor, milliseconds interval,
                 std::vector<Source> sources, CollectorSettings settings)
    : state_(std::make_shared<State>()) {
  state_->host = std::move(host);
  state_->executor = &executor;
  state_->interval = interval;
  state_->sources = std::move(sources);
  state_->settings = settings;
  try {
    state_->thread = std::thread([state = state_] { State::run(state); });
  } catch (const std::system_error& e) {
    log::error("cannot start the sampler's thread", {{"err", e.what()}});
  }
}

Sampler::~Sampler() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->units.clear();
    state_->changed.notify_all();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void Sampler::set_devices(const DeviceList& devices) {
  const std::lock_guard lock(state_->mutex);
  decltype(state_->units) kept;
  const auto now = Clock::now();
  for (const auto& device : devices) {
    for (const Source& source : state_->sources) {
      if (!serves(source.entry->scope, *device)) continue;
      const std::pair key(device->name, source.entry);
      if (const auto old = state_->units.find(key); old != state_->units.end() && old->second->device == device) {
        kept.insert(*old);
        continue;
      }
      auto unit = std::make_shared<Unit>(
          source, device, CollectorContext{state_->host, device, std::make_shared<PortStates>(), state_->settings},
          state_->interval);
      unit->due = now;
      kept.emplace(key, std::move(unit));
    }
  }
  state_->units = std::move(kept);
  state_->changed.notify_all();
}

void Sampler::append_to(SampleBatch& out) const {
  const std::lock_guard lock(state_->mutex);
  const auto now = Clock::now();
  for (const auto& [key, unit] : state_->units) {
    const std::string& device = unit->device->name;
    const std::string_view source = unit->entry->name;
    const std::string_view state = unit->pace.stopped()  ? "stopped"
                                   : unit->failing       ? "failing"
                                   : unit->pace.slowed() ? "slowed"
                                                         : "running";
    out.add(metric::sampler_state, {device, source, state}, 1);
    out.add(metric::sampler_reads, {device, source}, unit->reads);
    if (!unit->pace.stopped())
      out.add(metric::sampler_interval, {device, source}, std::chrono::duration<double>(unit->pace.interval()).count());
    for (const auto& [peak, values] : unit->peaks)
      if (const auto value = values.value(now))
        out.add(metric::sampler_peak, {device, peak.port, peak.netdev, peak.metric->name}, *value);
  }
}

std::vector<Sampler::Source> Sampler::sources_of(std::span<const CollectorEntry> registry) {
  std::vector<Source> sources;
  for (const CollectorEntry& entry : registry) {
    if (entry.name == "hw_counters") sources.push_back({&entry, milliseconds(100)});
    if (entry.name == "ethtool") sources.push_back({&entry, milliseconds(1000)});
  }
  return sources;
}

}  // namespace roce

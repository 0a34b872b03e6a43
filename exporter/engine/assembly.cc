// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/assembly.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "exporter/base/log.h"
#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

// Hosts with more have sums over all devices in place of success, duration and age of each collector on each.
constexpr std::size_t kDetailedDevices = 32;
// Series of a port that the engine itself writes (roce_counters, regressions): taken off the port's limit.
constexpr std::size_t kOwnSeriesPerPort = 8;
// The same for the host: success, duration, age and dropped series of each collector, and those of the process.
constexpr std::size_t kOwnSeriesPerHost = 50;
constexpr std::size_t kOwnSeriesPerCollector = 4;

double seconds(Engine::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::size_t left_of(std::size_t limit, std::size_t own_series) { return limit - std::min(limit, own_series); }

}  // namespace

std::vector<const SampleBatch*> Page::batches() const { return order_; }

Engine::Assembly::Assembly(State& state, std::size_t units, Clock::time_point oldest)
    : state_(state), now_(Clock::now()), oldest_(oldest) {
  const auto devices = std::count_if(state_.objects.begin(), state_.objects.end(),
                                     [](const auto& object) { return object->kind != ObjectKind::kHost; });
  detailed_ = static_cast<std::size_t>(devices) <= kDetailedDevices;
  page_.devices = state_.devices.size();
  page_.sources.reserve(units + 1);
}

void Engine::Assembly::add(const Unit& unit) {
  if (last_ != nullptr && last_->label != unit.label) end_shares();
  last_ = &unit;
  if (!state_.usable(unit, oldest_, now_)) {
    const double took = unit.started ? seconds(now_ - *unit.started) : 0;
    say(unit, false, state_.late_reason(unit), "no answer within the deadline", took);
    page_.complete = false;
    return;
  }
  const Run& run = *unit.last;
  Clock::duration age = unit.entry->cadence == Cadence::kSlow ? now_ - run.finished : Clock::duration::zero();
  for (const auto& part : run.output.parts) {
    shares_.push_back({&unit, part, shares_.size()});
    // Repeated from an earlier run (a port that is down), or read well before another port of the same run hung.
    if (now_ - part->read_at > state_.config.share_window + state_.config.source_deadline)
      age = std::max(age, now_ - part->read_at);
  }
  if (unit.entry->cadence == Cadence::kSlow || age > Clock::duration::zero()) tell_age(unit, age);
  if (run.error)
    say(unit, false, to_string(run.error->kind), state_.text_of(*run.error), seconds(run.took));
  else
    say(unit, true, "", "", seconds(run.took));
}

Page Engine::Assembly::finish(bool in_time, bool whole) {
  if (last_ != nullptr) end_shares();
  for (const auto& [collector, took] : healthy_) {
    own_->add(metric::collector_success, {collector, ""}, 1);
    own_->add(metric::collector_duration, {collector, ""}, took);
  }
  for (const auto& [collector, age] : ages_) own_->add(metric::source_age, {collector, ""}, seconds(age));
  tell_inventory();
  for (const CollectorEntry& entry : state_.config.collectors) {
    const auto dropped = state_.series_dropped.find(entry.name);
    own_->add(metric::series_dropped, {entry.name},
              dropped == state_.series_dropped.end() ? std::uint64_t{0} : dropped->second);
  }
  own_->add(metric::evidence_series_dropped, {}, state_.evidence_dropped);
  std::set<std::pair<std::string, std::string>> told;
  for (const CallTracker::Call& call : state_.host->calls->in_flight(kTellInFlight))
    if (told.emplace(call.call, call.object).second)
      own_->add(metric::kernel_call_in_flight, {call.call, call.object}, seconds(now_ - call.since));
  if (state_.sampler && whole) state_.sampler->append_to(*own_);
  page_.in_time = in_time;
  page_.own = own_;
  page_.order_.push_back(own_.get());
  return std::move(page_);
}

void Engine::Assembly::say(const Unit& unit, bool ok, std::string_view reason, std::string detail, double took) {
  const std::string_view collector = unit.entry->name;
  if (ok && !detailed_ && unit.entry->scope != Scope::kHost) {
    healthy_[collector] += took;
  } else {
    own_->add(metric::collector_success, {collector, unit.name}, ok);
    own_->add(metric::collector_duration, {collector, unit.name}, took);
  }
  if (!ok) own_->add(metric::collector_failure, {collector, unit.name, reason}, 1);
  page_.sources.push_back({std::string(collector), unit.name, ok, std::string(reason), std::move(detail)});
}

void Engine::Assembly::tell_age(const Unit& unit, Clock::duration age) {
  if (detailed_ || unit.entry->scope == Scope::kHost)
    own_->add(metric::source_age, {unit.entry->name, unit.name}, seconds(age));
  else
    ages_[unit.entry->name] = std::max(ages_[unit.entry->name], age);
}

// The last ones lose first: details, before them the network devices, in the order of their collectors.
void Engine::Assembly::end_shares() {
  const auto of_netdev = [](const Share& share) { return share.unit->device->kind == ObjectKind::kNetdev; };
  const auto rank = [&](const Share& share) {
    return std::tuple(share.part->least, of_netdev(share), share.unit->entry, share.place);
  };
  std::sort(shares_.begin(), shares_.end(), [&](const Share& a, const Share& b) { return rank(a) < rank(b); });
  const bool of_rdma_device = !shares_.empty() && shares_.front().unit->device->kind == ObjectKind::kRdma;
  std::vector<LimitedPart> parts;
  parts.reserve(shares_.size());
  for (const Share& share : shares_)
    parts.push_back(
        {share.part.get(), of_rdma_device, of_netdev(share) ? std::string_view(share.unit->name) : std::string_view()});
  const auto limited = apply_limits(parts, limits(of_rdma_device));
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const auto& [unit, part, place] = shares_[i];
    page_.parts.push_back(part);
    page_.order_.push_back(limited[i].cut ? limited[i].cut.get() : &part->samples);
    if (limited[i].cut) page_.kept_.push_back(limited[i].cut);
    if (limited[i].dropped != 0) state_.series_dropped[std::string(unit->entry->name)] += limited[i].dropped;
    state_.evidence_dropped += limited[i].evidence_dropped;
    if (limited[i].evidence_dropped != 0) warn_of_limit(*unit);  // of details the counter tells enough
    for (const auto& [port, states] : part->counters) {
      auto& sum = counters_[port];
      for (std::size_t state = 0; state < kCounterStates; ++state) sum[state] += states[state];
    }
  }
  shares_.clear();
  end_device();
}

void Engine::Assembly::end_device() {
  const std::string& device = last_->label;
  for (const auto& [port, states] : counters_)
    for (std::size_t i = 0; i < kCounterStates; ++i)
      if (states[i] != 0 || i == 0)
        own_->add(metric::counters, {device, port, to_string(static_cast<CounterState>(i))}, states[i]);
  counters_.clear();
  // Of all collectors, also of those that this page leaves out or that are late: the sum must not fall.
  std::map<std::string_view, std::uint64_t> regressions;
  const auto add_regressions = [&](const std::string& key) {
    if (const auto at = state_.units.find(key); at != state_.units.end())
      for (const auto& [entry, unit] : at->second.units)
        for (const auto& [port, count] : unit->regressions) regressions[port] += count;
  };
  if (!device.empty()) {
    add_regressions(key_of(ObjectKind::kRdma, device));
  } else {  // all network devices without an RDMA device, and the host
    for (const auto& object : state_.objects)
      if (object->kind != ObjectKind::kRdma) add_regressions(key_of(*object));
  }
  for (const auto& [port, count] : regressions) own_->add(metric::counter_regressions, {device, port}, count);
}

SeriesLimits Engine::Assembly::limits(bool of_rdma_device) const {
  const EngineConfig& config = state_.config;
  const std::size_t port = left_of(config.series_per_port, kOwnSeriesPerPort);
  if (of_rdma_device) return {port, port};
  return {left_of(config.series_per_host, kOwnSeriesPerHost + kOwnSeriesPerCollector * config.collectors.size()), port};
}

void Engine::Assembly::warn_of_limit(const Unit& unit) {
  const bool of_host = unit.device->kind != ObjectKind::kRdma;
  if (!state_.warned_over_limit.insert(of_host ? std::string() : key_of(*unit.device)).second) return;
  log::warn(of_host ? "series limit of the host or of one of its network devices reached, the rest is left out"
                    : "series limit of a port reached, the rest is left out",
            {{"device", unit.name},
             {"collector", unit.entry->name},
             {"limit", of_host ? state_.config.series_per_host : state_.config.series_per_port}});
}

void Engine::Assembly::tell_inventory() {
  const bool late = state_.inventory_in_flight &&
                    (!state_.inventory_known || now_ - state_.inventory_started >= state_.config.source_deadline);
  if (!state_.inventory_error && !late) {
    if (state_.netns_mode)
      own_->add(metric::rdma_netns_mode_info, {*state_.netns_mode == NetnsMode::kShared ? "shared" : "exclusive"}, 1);
    own_->add(metric::rdma_devices, {}, static_cast<std::uint64_t>(state_.devices.size()));
    return;
  }
  const std::string reason(state_.inventory_error ? to_string(state_.inventory_error->kind) : "timeout");
  own_->add(metric::collector_success, {"inventory", ""}, 0);
  own_->add(metric::collector_failure, {"inventory", "", reason}, 1);
  page_.sources.push_back(
      {"inventory", "", false, reason,
       state_.inventory_error ? state_.text_of(*state_.inventory_error) : "devices could not be listed in time"});
  page_.complete = false;
}

}  // namespace roce

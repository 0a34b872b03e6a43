// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/counter_set.h"

#include <algorithm>
#include <limits>

#include "exporter/catalog/node_infiniband.h"
#include "exporter/kernel/directory.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kListAgain = std::chrono::seconds(60);
constexpr auto kRetryRefused = std::chrono::minutes(10);  // the driver does not offer it, or not to us
constexpr auto kRetryFailed = std::chrono::minutes(1);
constexpr std::uint64_t kInvalid = std::numeric_limits<std::uint64_t>::max();

std::uint64_t all_ones_of(unsigned width) { return width >= 64 ? kInvalid : (std::uint64_t{1} << width) - 1; }

}  // namespace

const CounterRow* find_row(std::string_view driver, Interface interface, std::string_view counter) {
  if (interface == Interface::kPortCounters) return find_counter("ib-port", interface, counter);
  if (interface == Interface::kCmCounters) return find_counter("ib-cm", interface, counter);
  if (!driver.empty()) return find_counter(driver, interface, counter);
  for (const std::string_view any :
       {"mlx5", "bnxt_re", "irdma", "efa", "mlx4", "hns", "erdma", "mana", "rxe", "cxgb4", "hfi1"})
    if (const CounterRow* row = find_counter(any, interface, counter)) return row;
  return nullptr;
}

std::optional<CounterState> why_no_value(const CounterRow* row, std::uint64_t raw) {
  if (raw == kInvalid) return CounterState::kFailing;
  if (row == nullptr) return std::nullopt;
  // Data counters without an extended set are 32 bits wide in a 64-bit file. A throughput that stands still at the top
  // would read as an idle link, so it is left out.
  if (row->at_top == AtTop::kSaturates && row->width >= 32 && raw == all_ones_of(32)) return CounterState::kSaturated;
  // In bytes it needs more than 64 bits.
  if (raw > kInvalid / row->multiply) return CounterState::kSaturated;
  return std::nullopt;
}

CounterSet::CounterSet(const CollectorContext& context, Interface interface, std::string port,
                       std::string_view directory)
    : context_(context),
      interface_(interface),
      device_(context.device->name),
      port_(std::move(port)),
      directory_(directory),
      has_port_counters_(!context.device->path.empty() && !port_.empty() &&
                         exists(context.device->path + "/ports/" + port_ + "/counters")) {}

CounterSet::CounterSet(const CollectorContext& context, Interface interface, const InventoryNetdev& netdev,
                       std::string table)
    : context_(context),
      interface_(interface),
      device_(netdev.device),
      port_(netdev.port),
      netdev_(netdev.name),
      table_(std::move(table)),
      has_port_counters_(false) {}

void CounterSet::describe(Slot& slot) const {
  slot.row =
      netdev_ ? find_counter(table_, interface_, slot.name) : find_row(context_.device->driver, interface_, slot.name);
  // A name that the table leaves out on purpose has no series; one that it does not know is still worth showing.
  slot.metric = slot.row != nullptr ? slot.row->metric : netdev_ ? &metric::netdev_counter : &metric::driver_counter;
  // A port that has the counters directory has this quantity there.
  if (slot.row != nullptr && slot.row->fallback && has_port_counters_) slot.metric = &metric::driver_counter;
  if (slot.metric != nullptr) {
    slot.labels = {device_, port_};
    if (netdev_) slot.labels.emplace_back(*netdev_);
    const bool generic = slot.metric == &metric::driver_counter || slot.metric == &metric::driver_gauge ||
                         slot.metric == &metric::netdev_counter || slot.metric == &metric::netdev_level;
    if (generic)
      slot.labels.emplace_back(slot.name);
    else
      for (std::size_t i = 0; i < slot.row->values.count; ++i) slot.labels.push_back(value_of(*slot.row, i, slot.name));
  }
  if (context_.settings.compat_node_infiniband && !netdev_)
    if (const NodeInfinibandCounter* compat = find_node_infiniband(directory_, slot.name)) {
      slot.compat = compat->metric;
      slot.compat_multiply = compat->multiply;
    }
}

CounterSet::Slot& CounterSet::slot(std::size_t hint, std::string_view name) {
  if (hint < slots_.size() && slots_[hint]->name == name) return *slots_[hint];
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const auto& s) { return s->name == name; });
  if (found != slots_.end()) return **found;
  slots_.push_back(std::make_unique<Slot>());
  slots_.back()->name = name;
  describe(*slots_.back());
  return *slots_.back();
}

bool CounterSet::all_ones(const std::vector<Reading>& readings) {
  std::size_t values = 0;
  bool beyond_saturation = false;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (!readings[i].value) continue;
    ++values;
    const Slot& s = slot(i, readings[i].name);
    const unsigned width = s.row != nullptr ? s.row->width : 64U;
    if (*readings[i].value != all_ones_of(width) && *readings[i].value != kInvalid) return false;
    beyond_saturation =
        beyond_saturation || *readings[i].value == kInvalid || (s.row != nullptr && s.row->at_top == AtTop::kWraps);
  }
  // Counters that stop at their top may all stand there. With others among them it is a bus that answers all ones.
  return values >= 4 && beyond_saturation;
}

bool CounterSet::restarted(const std::vector<Reading>& readings) {
  std::size_t moved = 0;
  std::size_t fell = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    if (!readings[i].value) continue;
    const Slot& s = slot(i, readings[i].name);
    if (s.row != nullptr && s.row->gauge) continue;
    moved += s.history.moved() ? 1 : 0;
    fell += s.history.fell(*readings[i].value) ? 1 : 0;
  }
  // Wraps come one by one, seldom two. When most counters fall in the same read, the driver or the firmware began
  // again.
  return fell >= 3 && fell * 2 > moved;
}

CounterState CounterSet::publish_value(Slot& s, std::uint64_t raw, Part& part) {
  const CounterRow* row = s.row;
  if (const auto why = why_no_value(row, raw)) return *why;
  const AtTop at_top = row != nullptr ? row->at_top : AtTop::kPlain;
  const unsigned width = row != nullptr ? row->width : 64U;
  CounterState state = CounterState::kOk;
  // A narrow error counter at its top still says "at least that many". Above it the field is wider than the standard's:
  // it still counts.
  if (at_top == AtTop::kSaturates && width < 32 && raw == all_ones_of(width)) state = CounterState::kSaturated;
  std::uint64_t value = raw;
  if (row == nullptr || !row->gauge) {
    const CounterHistory::Step step = s.history.next(raw, at_top == AtTop::kWraps ? width : 0);
    value = step.value;
    regressions_ += step.regression ? 1 : 0;
  }
  if (row != nullptr && value > kInvalid / row->multiply) return CounterState::kSaturated;  // its wraps counted in
  if (s.metric != nullptr) {
    const std::uint64_t scaled = row != nullptr ? value * row->multiply : value;
    if (row != nullptr && row->divide > 1)
      part.samples.add(*s.metric, s.labels, static_cast<double>(scaled) / row->divide);
    else
      part.samples.add(*s.metric, s.labels, scaled);
  }
  return state;
}

void CounterSet::tell(const Slot& s, CounterState state, Part& part) const {
  if (netdev_)
    part.samples.add(metric::netdev_statistic_support, {device_, port_, *netdev_, s.name, to_string(state)}, 1);
  else
    part.samples.add(metric::counter_support, {device_, port_, s.name, to_string(state)}, 1);
}

Result<void> CounterSet::publish(const std::vector<Reading>& readings, Part& part) {
  auto& states = part.counters[port_];
  if (all_ones(readings)) {
    states[static_cast<std::size_t>(CounterState::kFailing)] += static_cast<std::uint32_t>(readings.size());
    return fail(ErrorKind::kLost, (netdev_ && !netdev_->empty() ? *netdev_ : device_) +
                                      ": every counter reads all ones, the device is off its bus");
  }
  if (restarted(readings))
    for (auto& s : slots_) s->history.restart();
  for (std::size_t i = 0; i < readings.size(); ++i) {
    Slot& s = slot(i, readings[i].name);
    if (s.compat != nullptr && readings[i].value && *readings[i].value <= kInvalid / s.compat_multiply)
      part.samples.add(*s.compat, {device_, port_}, *readings[i].value * s.compat_multiply);
    if (readings[i].replaced) continue;
    const CounterState state =
        readings[i].value ? publish_value(s, *readings[i].value, part) : state_of(readings[i].value.error().kind);
    ++states[static_cast<std::size_t>(state)];
    if (state != CounterState::kOk) tell(s, state, part);
  }
  part.regressions += regressions_;  // a part may hold the counters of several sets
  // One counter that fails is told as that; when all of them do, so does the source.
  const bool any = std::any_of(readings.begin(), readings.end(), [](const Reading& r) { return r.value.has_value(); });
  const auto failing = std::find_if(readings.begin(), readings.end(), [](const Reading& r) {
    return !r.value && state_of(r.value.error().kind) == CounterState::kFailing;
  });
  if (!any && failing != readings.end()) return tl::unexpected(failing->value.error());
  return {};
}

Result<void> CounterFiles::list() {
  const auto now = Clock::now();
  if ((present_ || absent_ >= 2) && now - listed_ < kListAgain) return {};
  auto names = list_directory(directory_);
  if (!names) {
    present_ = false;
    files_.clear();
    absent_ = names.error().kind == ErrorKind::kAbsent ? absent_ + 1 : 0;
    listed_ = now;
    if (absent_ != 0) return {};
    return tl::unexpected(names.error());
  }
  absent_ = 0;
  std::vector<File> files;
  files.reserve(names->size());
  for (std::string& name : *names) {
    if (name == "lifespan") continue;  // the cache time in milliseconds, not a counter
    const auto old = std::find_if(files_.begin(), files_.end(), [&](const File& f) { return f.name == name; });
    if (old != files_.end())
      files.push_back(std::move(*old));
    else
      files.push_back({std::move(name), nullptr});
  }
  // mlx5 refreshes its cache only when its first counter is read; reading that one first saves a firmware command for
  // each of the others.
  const auto first =
      std::find_if(files.begin(), files.end(), [](const File& f) { return f.name == "rx_write_requests"; });
  if (first != files.end()) std::rotate(files.begin(), first, first + 1);
  files_ = std::move(files);
  listed_ = now;
  present_ = true;
  return {};
}

std::vector<CounterSet::Reading> CounterFiles::read() {
  const auto now = Clock::now();
  std::vector<CounterSet::Reading> readings;
  readings.reserve(files_.size());
  std::optional<Result<Directory>> directory;  // opened for the first file that is read
  for (File& file : files_) {
    if (file.failure && now < file.failure->retry) {
      readings.push_back({file.name, tl::unexpected(file.failure->error)});
      continue;
    }
    if (!directory) directory.emplace(Directory::open(directory_));
    Result<std::uint64_t> value = 0;
    if (*directory)
      value = (*directory)->read_u64(file.name);
    else
      value = tl::unexpected(directory->error());
    if (!value && value.error().kind == ErrorKind::kAbsent) {
      listed_ = {};  // gone between listing and opening: list again next time
      continue;
    }
    file.failure.reset();
    // A malformed or busy read may be well next time; what the driver refuses stays refused.
    if (!value && value.error().kind != ErrorKind::kMalformed && value.error().kind != ErrorKind::kBusy) {
      const ErrorKind kind = value.error().kind;
      const bool refused = kind == ErrorKind::kUnsupported || kind == ErrorKind::kDenied;
      file.failure = std::make_unique<Failure>(Failure{value.error(), now + (refused ? kRetryRefused : kRetryFailed)});
    }
    readings.push_back({file.name, std::move(value)});
  }
  return readings;
}

}  // namespace roce

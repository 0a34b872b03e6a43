// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/link.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/ethtool_names.h"
#include "exporter/collectors/per_netdev.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kTableAgain = std::chrono::seconds(60);
constexpr std::string_view kTable = "ethtool-nl";
constexpr std::string_view kStandard = "stats/";

class LinkCollector : public PerNetdevCollector {
 public:
  using PerNetdevCollector::PerNetdevCollector;

 protected:
  bool has_state() const override { return true; }

  Result<void> collect_state(const InventoryNetdev& netdev, bool quiet, Part& part) override {
    add_carrier(netdev, part);
    if (!host().ethtool) {
      add_sysfs_link(netdev, part);
      return {};
    }
    Source& source = source_of(netdev);
    Outcome outcome;
    std::vector<CounterSet::Reading> readings;
    const auto link =
        ask(netdev, "link", outcome, [&](const std::string& name) { return host().ethtool->link(name, !quiet); });
    if (link) {
      add_link(netdev, *link, part);
      // A link that stays down cannot go down.
      if (!quiet) source.down_events = link->down_events;
      count(source, "linkstate/ext_down_cnt", source.down_events, readings);
    } else {
      add_sysfs_link(netdev, part);
    }
    return finish(std::move(outcome), source.state_counters.publish(readings, part));
  }

  Result<void> collect_netdev(const InventoryNetdev& netdev, Part& part, Part&) override {
    if (!host().ethtool) return {};
    Source& source = source_of(netdev);
    Outcome outcome;
    std::vector<CounterSet::Reading> readings;
    EthtoolSource& kernel = *host().ethtool;
    if (const auto pause = ask(netdev, "pause", outcome, [&](const auto& name) { return kernel.pause(name); })) {
      add_pause(netdev, *pause, part);
      count(source, "pause/tx_frames", pause->transmit_frames, readings);
      count(source, "pause/rx_frames", pause->receive_frames, readings);
    }
    if (const auto fec = ask(netdev, "fec", outcome, [&](const auto& name) { return kernel.fec(name); })) {
      for (const std::string& mode : fec->active)
        part.samples.add(metric::netdev_fec_mode, {netdev.device, netdev.port, netdev.name, mode}, 1);
      count(source, "fec/corrected", fec->corrected_blocks, readings);
      count(source, "fec/uncorr", fec->uncorrectable_blocks, readings);
      count(source, "fec/corr_bits", fec->corrected_bits, readings);
    }
    std::optional<std::vector<NamedValue>> standard;
    if (source.needs_standard)
      standard = ask(netdev, "stats", outcome, [&](const auto& name) { return kernel.standard_statistics(name); });
    if (standard) {
      for (NamedValue& statistic : *standard) {
        statistic.name.insert(0, kStandard);
        if (find_counter(kTable, Interface::kOther, statistic.name) != nullptr)
          count(source, statistic.name, statistic.value, readings);
      }
    }
    return finish(std::move(outcome), source.counters.publish(readings, part));
  }

 private:
  struct Source {
    // `listed`: the driver's own statistics, where asking for them costs nothing.
    Source(const CollectorContext& context, const InventoryNetdev& netdev, std::string found,
           const std::optional<std::vector<NamedValue>>& listed)
        : table(std::move(found)),
          state_counters(context, Interface::kOther, netdev, std::string(kTable)),
          counters(context, Interface::kOther, netdev, std::string(kTable)) {
      // What the driver's own statistics hold is published by their collector, where it runs.
      for (const CounterRow& row : all_counters()) {
        if (row.driver != kTable) continue;
        const bool held = context.settings.ethtool && holds(table, row, listed);
        if (held)
          held_elsewhere.emplace_back(row.counter);
        else if (row.counter.starts_with(kStandard))
          needs_standard = true;
      }
    }
    bool elsewhere(std::string_view name) const {
      return std::find(held_elsewhere.begin(), held_elsewhere.end(), name) != held_elsewhere.end();
    }
    static bool holds(std::string_view table, const CounterRow& wanted,
                      const std::optional<std::vector<NamedValue>>& listed) {
      if (table.empty()) return false;
      const auto values = wanted.values.span();
      const auto rows = all_counters();
      return std::any_of(rows.begin(), rows.end(), [&](const CounterRow& row) {
        if (row.driver != table || row.metric != wanted.metric) return false;
        if (listed && std::none_of(listed->begin(), listed->end(),
                                   [&](const NamedValue& s) { return matches_pattern(row.counter, s.name); }))
          return false;
        // The frames of a direction are one quantity, whether the driver tells their kinds apart or not.
        if (row.metric == &metric::pause_frames) return row.values.text[0] == wanted.values.text[0];
        const auto own = row.values.span();
        return std::equal(values.begin(), values.end(), own.begin(), own.end());
      });
    }

    std::string table;
    CounterSet state_counters;
    CounterSet counters;
    std::optional<std::uint64_t> down_events;
    std::vector<std::string_view> held_elsewhere;
    bool needs_standard = false;
    Part::Clock::time_point look_again{};
  };

  // What became of the questions about one network device.
  struct Outcome {
    bool answered = false;
    std::optional<Error> not_recorded;
    std::optional<Error> failed;
  };

  // `get` asks; its answer, where there is one.
  template <class Get>
  auto ask(const InventoryNetdev& netdev, std::string_view question, Outcome& outcome, Get get)
      -> std::optional<typename decltype(get(netdev.name))::value_type> {
    if (refusals_.refused(netdev.name, question)) {
      outcome.answered = true;
      return std::nullopt;
    }
    auto answer = get(netdev.name);
    refusals_.note(netdev.name, question, answer ? nullptr : &answer.error());
    if (answer) {
      outcome.answered = true;
      return std::move(*answer);
    }
    const ErrorKind kind = answer.error().kind;
    if (kind == ErrorKind::kNotRecorded)
      outcome.not_recorded = answer.error();
    else if (kind != ErrorKind::kUnsupported && kind != ErrorKind::kAbsent)
      outcome.failed = answer.error();
    else
      outcome.answered = true;
    return std::nullopt;
  }

  static void count(const Source& source, std::string_view name, const std::optional<std::uint64_t>& value,
                    std::vector<CounterSet::Reading>& readings) {
    if (value && !source.elsewhere(name)) readings.push_back({name, *value});
  }

  static Result<void> finish(Outcome outcome, Result<void> published) {
    if (outcome.failed) return tl::unexpected(std::move(*outcome.failed));
    if (!outcome.answered && outcome.not_recorded) return tl::unexpected(std::move(*outcome.not_recorded));
    return published;
  }

  Source& source_of(const InventoryNetdev& netdev) {
    const auto now = Part::Clock::now();
    const std::string key = netdev.port + "/" + netdev.name;
    const auto old = sources_.find(key);
    if (old != sources_.end() && now < old->second->look_again) return *old->second;
    EthtoolTable table = ethtool_table(host(), device(), netdev);
    if (old == sources_.end() || old->second->table != table.driver)
      sources_.insert_or_assign(key,
                                std::make_unique<Source>(context(), netdev, std::move(table.driver), recorded(netdev)));
    Source& source = *sources_.at(key);
    source.look_again = now + kTableAgain;
    return source;
  }

  // A recording need not hold both; the live kernel has both or neither.
  std::optional<std::vector<NamedValue>> recorded(const InventoryNetdev& netdev) const {
    if (host().live) return std::nullopt;
    return host().ethtool->statistics(netdev.name).value_or(std::vector<NamedValue>{});
  }

  static void add_link(const InventoryNetdev& netdev, const EthtoolLink& link, Part& part) {
    if (link.detected)
      part.samples.add(metric::netdev_link_detected, {netdev.device, netdev.port, netdev.name}, *link.detected);
    if (!link.reason.empty() && !link.detected.value_or(false))
      part.samples.add(metric::netdev_link_reason, {netdev.device, netdev.port, netdev.name, link.reason, link.detail},
                       1);
    if (link.quality && link.quality_max && *link.quality_max != 0)
      part.samples.add(metric::netdev_signal_quality, {netdev.device, netdev.port, netdev.name},
                       static_cast<double>(*link.quality) / *link.quality_max);
  }

  static void add_pause(const InventoryNetdev& netdev, const EthtoolPause& pause, Part& part) {
    const std::string &d = netdev.device, &p = netdev.port, &n = netdev.name;
    if (pause.receive) part.samples.add(metric::netdev_pause_enabled, {d, p, n, "receive"}, *pause.receive);
    if (pause.transmit) part.samples.add(metric::netdev_pause_enabled, {d, p, n, "transmit"}, *pause.transmit);
    if (pause.autonegotiate) part.samples.add(metric::netdev_pause_autonegotiated, {d, p, n}, *pause.autonegotiate);
  }

  // The kernel refuses the file of a device that is switched off: there is no link to speak of then.
  static void add_sysfs_link(const InventoryNetdev& netdev, Part& part) {
    if (netdev.path.empty()) return;
    if (const auto carrier = read_u64(netdev.path + "/carrier"))
      part.samples.add(metric::netdev_link_detected, {netdev.device, netdev.port, netdev.name}, *carrier != 0);
  }

  static void add_carrier(const InventoryNetdev& netdev, Part& part) {
    if (netdev.path.empty() || (!netdev.device.empty() && !netdev.lag_member)) return;
    const std::initializer_list<std::string_view> labels{netdev.device, netdev.port, netdev.name};
    const auto add = [&](const char* file, const MetricDesc& metric) {
      if (const auto n = read_u64(netdev.path + file)) part.samples.add(metric, labels, *n);
    };
    add("/carrier_changes", metric::netdev_carrier_changes);
    add("/carrier_up_count", metric::netdev_carrier_up);
    add("/carrier_down_count", metric::netdev_carrier_down);
  }

  Refusals refusals_;
  std::map<std::string, std::unique_ptr<Source>> sources_;
};

}  // namespace

std::unique_ptr<Collector> make_link_collector(const CollectorContext& context) {
  return std::make_unique<LinkCollector>(context);
}

}  // namespace roce

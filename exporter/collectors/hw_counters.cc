// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/hw_counters.h"

#include <map>

#include "exporter/catalog/node_infiniband.h"
#include "exporter/collectors/counter_set.h"
#include "exporter/collectors/port_collector.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr auto kNetlinkAgain = std::chrono::minutes(10);
constexpr auto kFailedAgain = std::chrono::seconds(60);
constexpr auto kSettingsAgain = std::chrono::seconds(60);

class HwCountersCollector : public PortCollector {
 public:
  explicit HwCountersCollector(const CollectorContext& collector_context)
      : PortCollector(collector_context),
        device_files_(device().path + "/hw_counters"),
        device_set_(collector_context, Interface::kDeviceCounters, "", "device_hw_counters") {}

 protected:
  Result<void> collect_device(Part& part) override {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_device_hw_counters", device().name);
    ROCE_TRY_VOID(device_files_.list());
    if (!device_files_.present()) return {};
    return device_set_.publish(device_files_.read(), part);
  }

  Result<void> collect_port(const InventoryPort& port, Part& part) override {
    Source& source = sources_.try_emplace(port.number, context(), port, port_path(port)).first->second;
    add_lifespan(source, port, part);
    if (host().rdma && device().netlink) {
      const auto now = Part::Clock::now();
      if (source.failure && now < source.ask_netlink_at) return without_netlink(source, part);
      if (now >= source.ask_netlink_at) {
        source.failure.reset();
        auto counters = host().rdma->port_counters(*device().netlink, port.number);
        if (counters) return publish(source, port, *counters, part);
        const Error& error = counters.error();
        // Too big for one reply, or no port counters by netlink: sysfs has them, or nothing has.
        if (error.kind == ErrorKind::kBusy || error.kind == ErrorKind::kTimeout) return tl::unexpected(error);
        if (error.err != EMSGSIZE && error.kind != ErrorKind::kUnsupported && error.kind != ErrorKind::kNotRecorded) {
          source.failure = error;
          source.ask_netlink_at = now + kFailedAgain;
          return without_netlink(source, part);
        }
        source.ask_netlink_at = now + kNetlinkAgain;
      }
    }
    return from_sysfs(source, part);
  }

 private:
  struct Source {
    Source(const CollectorContext& context, const InventoryPort& port, const std::string& path)
        : files(path + "/hw_counters"), set(context, Interface::kHwCounters, port.text, "hw_counters") {}
    CounterFiles files;
    CounterSet set;
    Part::Clock::time_point ask_netlink_at{};
    Part::Clock::time_point ask_status_at{};
    Part::Clock::time_point read_lifespan_at{};
    std::optional<double> lifespan;  // seconds
    std::optional<Error> failure;
    std::vector<CounterStatus> status;
  };

  Result<void> from_sysfs(Source& source, Part& part) {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_hw_counters", device().name);
    ROCE_TRY_VOID(source.files.list());
    if (!source.files.present()) return {};
    return source.set.publish(source.files.read(), part);
  }

  // On a live kernel the files would ask the same firmware again; a recording may have there what its list lost.
  Result<void> without_netlink(Source& source, Part& part) {
    if (!host().live) ROCE_TRY_VOID(from_sysfs(source, part));
    return tl::unexpected(*source.failure);
  }

  Result<void> publish(Source& source, const InventoryPort& port, const std::vector<NamedValue>& counters, Part& part) {
    std::vector<CounterSet::Reading> readings;
    readings.reserve(counters.size());
    for (const NamedValue& counter : counters) {
      if (counter.malformed)
        readings.push_back({counter.name, fail(ErrorKind::kMalformed, counter.name)});
      else
        readings.push_back({counter.name, counter.value});
    }
    add_optional(source, port, part);
    return source.set.publish(readings, part);
  }

  // Which switchable counters exist changes by hand only: asked once a minute.
  void add_optional(Source& source, const InventoryPort& port, Part& part) {
    const auto now = Part::Clock::now();
    if (now >= source.ask_status_at) {
      source.ask_status_at = now + kSettingsAgain;
      source.status =
          host().rdma->counter_status(*device().netlink, port.number).value_or(std::vector<CounterStatus>{});
    }
    for (const CounterStatus& counter : source.status)
      if (counter.optional)
        part.samples.add(metric::optional_counter_enabled, {device().name, port.text, counter.name}, counter.enabled);
  }

  void add_lifespan(Source& source, const InventoryPort& port, Part& part) const {
    const auto now = Part::Clock::now();
    if (now >= source.read_lifespan_at && !device().path.empty()) {
      source.read_lifespan_at = now + kSettingsAgain;
      source.lifespan.reset();
      if (const auto milliseconds = read_u64(port_path(port) + "/hw_counters/lifespan"))
        source.lifespan = static_cast<double>(*milliseconds) / 1000;
    }
    if (!source.lifespan) return;
    part.samples.add(metric::hw_counters_lifespan, {device().name, port.text}, *source.lifespan);
    if (context().settings.compat_node_infiniband)
      part.samples.add(node_infiniband::lifespan, {device().name, port.text}, *source.lifespan);
  }

  CounterFiles device_files_;
  CounterSet device_set_;
  std::map<unsigned, Source> sources_;
};

}  // namespace

std::unique_ptr<Collector> make_hw_counters_collector(const CollectorContext& context) {
  return std::make_unique<HwCountersCollector>(context);
}

}  // namespace roce

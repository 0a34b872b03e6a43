// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_port.h"

#include <map>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/catalog/node_infiniband.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/port_collector.h"
#include "exporter/kernel/directory.h"

namespace roce {
namespace {

constexpr std::uint64_t kDown = 1;
constexpr std::uint64_t kActive = 4;
constexpr auto kReadAgain = std::chrono::seconds(60);

class RdmaPortCollector : public PortCollector {
 public:
  using PortCollector::PortCollector;

 protected:
  Result<void> collect_port(const InventoryPort& port, Part& part) override {
    const std::string& name = device().name;
    const CallTracker::Scope scope(host().calls.get(), "port_query", name);
    const Result<Directory> dir =
        device().path.empty() ? Result<Directory>(fail(ErrorKind::kAbsent, name)) : Directory::open(port_path(port));
    const auto read = [&](const char* file) -> Result<std::string> {
      if (!dir) return tl::unexpected(dir.error());
      return dir->read_attribute(file);
    };
    const auto read_number = [&](const char* file) -> Result<std::uint64_t> {
      ROCE_TRY(const std::string text, read(file));
      if (const auto number = parse_leading_number(text)) return *number;
      return fail(ErrorKind::kMalformed, port_path(port) + "/" + file);
    };

    // Each of the files state, phys_state and rate asks the driver anew, which some drivers log for a port that is
    // down; netlink gives both states for one question. A tree or a recording is read file by file.
    Result<std::uint64_t> state = fail(ErrorKind::kAbsent, port_path(port) + "/state");
    Result<std::uint64_t> physical = fail(ErrorKind::kAbsent, port_path(port) + "/phys_state");
    if (host().live) from_netlink(port, state, physical);
    if (!state && !device().path.empty()) {
      state = read_number("state");
      physical = read_number("phys_state");
    }
    if (!state && state.error().kind == ErrorKind::kAbsent) from_netlink(port, state, physical);
    const bool ask_rate = !host().live || !state || *state != kDown || context().settings.compat_node_infiniband;

    if (state) {
      context().port_states->record(port.number, *state == kDown);
      part.samples.add(metric::port_state, {name, port.text}, *state);
    }
    if (physical) part.samples.add(metric::port_physical_state, {name, port.text}, *physical);

    FailureNote failures;
    if (!physical) failures.note(physical.error());
    std::string rate_text;
    if (const auto text =
            ask_rate && !device().path.empty() ? failures.value(read("rate")) : std::optional<std::string>()) {
      // Kernels invent a rate for a port that is not active: only "0" is told by the hardware then.
      const auto rate = parse_rate(*text);
      if (rate && ((state && *state >= kActive) || *rate == 0)) {
        part.samples.add(metric::port_rate, {name, port.text}, *rate);
        rate_text = *text;
      }
      if (rate && context().settings.compat_node_infiniband)
        part.samples.add(node_infiniband::rate, {name, port.text}, *rate);
    }
    if (context().settings.compat_node_infiniband) {
      if (state) part.samples.add(node_infiniband::state_id, {name, port.text}, *state);
      if (physical) part.samples.add(node_infiniband::physical_state_id, {name, port.text}, *physical);
    }
    std::string link_layer;
    if (!device().path.empty()) {
      Lasting& lasting = lasting_[port.number];
      if (const auto now = Part::Clock::now(); now >= lasting.read_again) lasting = read_lasting(dir, now);
      link_layer = failures.value(lasting.link_layer).value_or("");
      part.samples.add(metric::source_present, {name, port.text, "counters"}, lasting.counters);
      part.samples.add(metric::source_present, {name, port.text, "hw_counters"}, lasting.hw_counters);
      part.samples.add(metric::source_present, {name, port.text, "cm"}, lasting.cm);
    }
    part.samples.add(metric::port_info, {name, port.text, port.netdev, link_layer, rate_text}, 1);

    if (!port.netdev.empty()) add_carrier(port, part);
    if (!state) {
      const ErrorKind kind = state.error().kind;
      const bool not_recorded = kind == ErrorKind::kNotRecorded || (kind == ErrorKind::kAbsent && host().recording());
      if (!not_recorded) return tl::unexpected(state.error());
      part.samples.add(metric::counter_support, {name, port.text, "state", to_string(CounterState::kNotRecorded)}, 1);
      ++part.counters[port.text][static_cast<std::size_t>(CounterState::kNotRecorded)];
    }
    return failures.conclude();
  }

 private:
  // What stays as it is while a port is registered. Read once a minute all the same, and until it could be read.
  struct Lasting {
    Result<std::string> link_layer = std::string();
    bool counters = false;
    bool hw_counters = false;
    bool cm = false;
    Part::Clock::time_point read_again{};
  };

  static Lasting read_lasting(const Result<Directory>& dir, Part::Clock::time_point now) {
    Lasting out;
    if (!dir) {
      out.link_layer = tl::unexpected(dir.error());
      return out;
    }
    out.link_layer = dir->read_attribute("link_layer");
    out.counters = dir->exists("counters") || dir->exists("counters_ext");
    out.hw_counters = dir->exists("hw_counters");
    out.cm = dir->exists("cm_tx_msgs");
    if (out.link_layer) out.read_again = now + kReadAgain;
    return out;
  }

  void from_netlink(const InventoryPort& port, Result<std::uint64_t>& state, Result<std::uint64_t>& physical) const {
    if (!host().rdma || !device().netlink) return;
    const auto found = host().rdma->port(*device().netlink, port.number);
    if (!found) {
      state = tl::unexpected(found.error());
      return;
    }
    if (found->state) state = std::uint64_t{*found->state};
    if (found->physical_state) physical = std::uint64_t{*found->physical_state};
  }

  void add_carrier(const InventoryPort& port, Part& part) const {
    const auto dir = Directory::open(host().net_class() + "/" + port.netdev);
    if (!dir) return;
    const std::initializer_list<std::string_view> labels{device().name, port.text, port.netdev};
    if (const auto n = dir->read_u64("carrier_changes")) part.samples.add(metric::netdev_carrier_changes, labels, *n);
    if (const auto n = dir->read_u64("carrier_up_count")) part.samples.add(metric::netdev_carrier_up, labels, *n);
    if (const auto n = dir->read_u64("carrier_down_count")) part.samples.add(metric::netdev_carrier_down, labels, *n);
  }

  std::map<unsigned, Lasting> lasting_;
};

}  // namespace

std::unique_ptr<Collector> make_rdma_port_collector(const CollectorContext& context) {
  return std::make_unique<RdmaPortCollector>(context);
}

}  // namespace roce

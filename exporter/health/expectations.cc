// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/expectations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/memory.h"

namespace roce {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

std::string priorities_text(const std::set<unsigned>& priorities) {
  return priorities.empty() ? "none" : fmt::format("{}", fmt::join(priorities, ", "));
}

class Comparison {
 public:
  Comparison(const CheckContext& context, const Profile& profile) : context_(context), profile_(profile) {}

  std::vector<Expectation> run() {
    for (const DeclaredDevice& device : profile_.devices) compare_device(device);
    compare_host();
    compare_nvme();
    return std::move(out_);
  }

 private:
  // One entry a check and object: of the legs of a bond the one that falls short counts, then the one that is not
  // known.
  void add(Expectation e) {
    const auto [at, fresh] = places_.emplace(e.check + '\n' + e.object, out_.size());
    if (fresh) return out_.push_back(std::move(e));
    const auto rank = [](const Expectation& one) { return one.met ? (*one.met ? 0 : 2) : 1; };
    if (Expectation& other = out_[at->second]; rank(e) > rank(other)) other = std::move(e);
  }

  void add_number(std::string_view check, std::string object, double declared, bool met, std::string found,
                  std::string expected) {
    add({std::string(check), std::move(object), met, declared, std::move(found), std::move(expected)});
  }

  void add_unknown(std::string_view check, std::string object, std::optional<double> declared, std::string expected) {
    add({std::string(check), std::move(object), std::nullopt, declared, "the page does not tell", std::move(expected)});
  }

  const Series* info_of(const DeclaredDevice& device) const {
    return device.pci_address.empty()
               ? context_.page().find(metric::device_info, {{"device", device.name}})
               : context_.page().find(metric::device_info, {{"pci_address", device.pci_address}});
  }

  // Calls f for each series of the family on that device.
  template <class F>
  std::size_t each(const MetricDesc& metric, std::string_view device, F f) const {
    std::size_t n = 0;
    for (const Series* series : context_.page().with(metric, "device", device))
      if (!context_.is_representor(*series)) {
        f(*series);
        ++n;
      }
    return n;
  }

  void compare_device(const DeclaredDevice& device) {
    const Series* info = info_of(device);
    const std::string& declared_name = device.pci_address.empty() ? device.name : device.pci_address;
    const bool storage = device.expected.role == "storage";
    Expectation present{"device-missing", declared_name, info != nullptr, std::nullopt, {}, {}};
    present.found = info != nullptr ? std::string(info->label("device")) : "no such RDMA device";
    if (info == nullptr && context_.hides_devices()) {
      present.met.reset();
      present.found = "not all RDMA devices of this host could be read";
    }
    present.expected = fmt::format(
        "an RDMA device{}", device.expected.role.empty() ? "" : fmt::format(" with the role {}", device.expected.role));
    present.critical = storage;
    add(std::move(present));
    if (info == nullptr) return;
    const std::string_view name = info->label("device");
    const DeviceExpectation* expected = context_.expected(name);
    if (expected == nullptr) return;
    compare_ports(name, *expected, storage);
    compare_pcie(name, info->label("pci_address"), *expected);
    compare_lossless(name, *expected);
    if (expected->firmware) {
      const std::string_view firmware = info->label("firmware");
      add({"firmware", std::string(name),
           firmware.empty() ? std::nullopt : std::optional(firmware == *expected->firmware), std::nullopt,
           std::string(firmware), *expected->firmware});
    }
  }

  void compare_ports(std::string_view name, const DeviceExpectation& expected, bool storage) {
    auto missing = expected.ports.value_or(std::set<unsigned>());
    each(metric::port_state, name, [&](const Series& state) {
      if (const auto number = parse_u64(state.label("port")); number && *number <= kMaxPort)
        missing.erase(static_cast<unsigned>(*number));
      if (context_.expects_port(state)) {
        Expectation up{
            "port-down",     object_of(state), state.value() >= kActive, kActive, short_number(state.value()),
            "an active port"};
        up.critical = storage;
        up.told_by_check = true;
        add(std::move(up));
      }
      if (!expected.rate_gbps || state.value() < kActive) return;
      const Series* rate = context_.page().find(metric::port_rate, {{"device", name}, {"port", state.label("port")}});
      const double declared = *expected.rate_gbps * kBytesPerGigabit;
      const std::string text = fmt::format("{:g} Gb/s", *expected.rate_gbps);
      if (rate == nullptr) return add_unknown("rate", object_of(state), declared, text);
      add_number("rate", object_of(state), declared, rate->value() >= declared * 0.999,
                 fmt::format("{:g} Gb/s", rate->value() / kBytesPerGigabit), text);
    });
    for (const unsigned port : missing) {
      const std::string object = fmt::format("{}/{}", name, port);
      if (!context_.tells_ports(name)) {
        add_unknown("port-down", object, kActive, "an active port");
        continue;
      }
      Expectation there{"port-down", object, false, kActive, "the device shows no such port", "an active port"};
      there.critical = storage;
      add(std::move(there));
    }
    const auto least = [&](std::string_view check, const MetricDesc& metric, std::optional<unsigned> declared) {
      if (!declared) return;
      const std::string text = fmt::format("{} bytes", *declared);
      const auto n = each(metric, name, [&](const Series& series) {
        // Equal is meant for the MTU: a greater one than the network's loses packets too.
        const bool met = check == "mtu" ? series.value() == *declared : series.value() >= *declared;
        add_number(check, object_of(series), *declared, met, fmt::format("{} bytes", short_number(series.value())),
                   text);
      });
      if (n == 0) add_unknown(check, std::string(name), *declared, text);
    };
    least("mtu", metric::netdev_mtu, expected.mtu);
    least("path-mtu", metric::path_mtu, expected.path_mtu);
  }

  void compare_pcie(std::string_view name, std::string_view address, const DeviceExpectation& expected) {
    const auto own_link = [&](const MetricDesc& metric) {
      const Series* series = context_.page().find(metric, {{"device", name}, {"pci_address", address}});
      // A function of a switch in the card sits deeper; the first hop is the device's own.
      if (series == nullptr) series = context_.page().find(metric, {{"device", name}});
      return series;
    };
    if (expected.pcie_lanes) {
      const std::string text = fmt::format("x{}", *expected.pcie_lanes);
      const Series* lanes = own_link(metric::pcie_link_lanes);
      if (lanes == nullptr)
        add_unknown("pcie-lanes", std::string(name), *expected.pcie_lanes, text);
      else
        add_number("pcie-lanes", std::string(name), *expected.pcie_lanes, lanes->value() >= *expected.pcie_lanes,
                   fmt::format("x{}", short_number(lanes->value())), text);
    }
    if (expected.pcie_gts) {
      const std::string text = fmt::format("{:g} GT/s", *expected.pcie_gts);
      const Series* speed = own_link(metric::pcie_link_transfers);
      if (speed == nullptr)
        add_unknown("pcie-speed", std::string(name), *expected.pcie_gts * 1e9, text);
      else
        add_number("pcie-speed", std::string(name), *expected.pcie_gts * 1e9,
                   speed->value() >= *expected.pcie_gts * 1e9 * 0.999, fmt::format("{:g} GT/s", speed->value() / 1e9),
                   text);
    }
    if (expected.max_read_request) {
      const std::string text = fmt::format("{} bytes", *expected.max_read_request);
      const Series* size = context_.page().find(metric::pcie_max_read_request, {{"device", name}});
      if (size == nullptr)
        add_unknown("max-read-request", std::string(name), *expected.max_read_request, text);
      else
        add_number("max-read-request", std::string(name), *expected.max_read_request,
                   size->value() >= *expected.max_read_request, fmt::format("{} bytes", short_number(size->value())),
                   text);
    }
  }

  void compare_lossless(std::string_view name, const DeviceExpectation& expected) {
    if (expected.pfc_priorities) {
      double mask = 0;
      for (const unsigned priority : *expected.pfc_priorities) mask += std::ldexp(1.0, static_cast<int>(priority));
      std::map<std::pair<std::string, std::string_view>, std::set<unsigned>> enabled;  // by port and netdev
      each(metric::pfc_enabled, name, [&](const Series& series) {
        auto& on = enabled[{port_of(series), series.label("netdev")}];
        const auto priority = parse_u64(series.label("priority"));
        if (priority && series.value() == 1) on.insert(static_cast<unsigned>(*priority));
      });
      const std::string text = priorities_text(*expected.pfc_priorities);
      for (const auto& [leg, on] : enabled)
        add_number("pfc-priorities", leg.first, mask, on == *expected.pfc_priorities, priorities_text(on), text);
      if (enabled.empty()) add_unknown("pfc-priorities", std::string(name), mask, text);
    }
    if (!expected.dscp.empty()) compare_dscp(name, expected);
    if (expected.ecn) compare_ecn(name, expected);
  }

  void compare_dscp(std::string_view name, const DeviceExpectation& expected) {
    std::string text;
    for (const auto& [dscp, priority] : expected.dscp)
      text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", dscp, priority);
    const auto n = each(metric::dscp_entries, name, [&](const Series& entries) {
      std::string wrong;
      for (const auto& [dscp, priority] : expected.dscp) {
        const double is = priority_of_dscp(context_, entries, dscp);
        if (entries.value() == 0)
          wrong = "no DSCP map: the port takes priorities from VLAN tags";
        else if (is != priority)
          wrong += fmt::format("{}{} to {}", wrong.empty() ? "" : ", ", dscp, short_number(is));
      }
      add({"dscp-map", object_of(entries), wrong.empty(), std::nullopt, wrong.empty() ? text : wrong, text});
    });
    if (n == 0) add_unknown("dscp-map", std::string(name), std::nullopt, text);
  }

  // Of each port the switches that matter: that of the notification point, and at the reaction point those of the
  // declared priorities, else of the ones with PFC. Where neither tells which these are, one that is on is enough.
  void compare_ecn(std::string_view name, const DeviceExpectation& expected) {
    const bool wanted = *expected.ecn;
    const std::string text = wanted ? "on" : "off";
    std::map<std::pair<std::string, std::string_view>, std::map<std::string_view, bool>> reaction;  // of a leg
    const auto say = [&](const std::string& object, bool on, std::string_view where) {
      add_number("ecn", object, wanted ? 1 : 0, on == wanted, fmt::format("{} at {}", on ? "on" : "off", where), text);
    };
    const auto n = each(metric::ecn_enabled, name, [&](const Series& series) {
      const std::string_view priority = series.label("priority");
      auto& leg = reaction[{port_of(series), series.label("netdev")}];
      if (priority.empty())
        say(port_of(series), series.value() == 1, fmt::format("the {} point", series.label("point")));
      else
        leg[priority] = series.value() == 1;
    });
    if (n == 0) add_unknown("ecn", std::string(name), wanted ? 1 : 0, text);
    for (const auto& [at, leg] : reaction) {
      const std::string& object = at.first;
      if (!wanted) {
        for (const auto& [priority, on] : leg)
          say(object, on, fmt::format("the reaction point for priority {}", priority));
        continue;
      }
      std::set<std::string> matter;
      if (expected.pfc_priorities)
        for (const unsigned priority : *expected.pfc_priorities) matter.insert(std::to_string(priority));
      else
        for (const Series* pfc : context_.page().with(metric::pfc_enabled, "netdev", at.second))
          if (pfc->value() == 1) matter.emplace(pfc->label("priority"));
      for (const std::string& priority : matter) {
        const auto found = leg.find(priority);
        if (found == leg.end())
          add_unknown("ecn", object, 1, text);
        else
          say(object, found->second, fmt::format("the reaction point for priority {}", priority));
      }
      if (!matter.empty()) continue;
      if (leg.empty())
        add_unknown("ecn", object, 1, text);
      else
        say(object, std::any_of(leg.begin(), leg.end(), [](const auto& one) { return one.second; }),
            "the reaction point");
    }
  }

  void compare_host() {
    const HostExpectation& host = profile_.host;
    if (host.memlock) {
      const std::string text = bytes_text(*host.memlock);
      Expectation e{"memlock", "host", true, host.memlock, "every RDMA process has it", text};
      double worst = *host.memlock;
      for (const Series& limit : context_.of(metric::process_memlock_limit)) {
        if (limit.label("limit") != "soft" || limit.value() >= worst) continue;
        const Series* limited = context_.page().find(metric::process_memlock_limited, {{"pid", limit.label("pid")}});
        if (limited == nullptr || limited->value() != 1) continue;
        worst = limit.value();
        e.met = false;
        e.found = fmt::format("{} for process {} {}", bytes_text(worst), limit.label("pid"), limit.label("comm"));
      }
      if (*e.met && !judges_all_processes()) {
        e.met.reset();
        e.found = "not every RDMA process could be read";
      }
      add(std::move(e));
    }
    for (const DeclaredHugepages& declared : host.hugepages) compare_hugepages(declared);
  }

  bool judges_all_processes() const {
    const auto number = [&](const MetricDesc& metric) {
      const auto series = context_.of(metric);
      return series.empty() ? std::optional<double>() : series.front().value();
    };
    const auto all = number(metric::processes);
    const auto judged = static_cast<double>(context_.of(metric::process_memlock_limited).size());
    return all && judged + number(metric::processes_left_out).value_or(0) >= *all &&
           number(metric::process_hidden_contexts).value_or(0) == 0;
  }

  void compare_hugepages(const DeclaredHugepages& declared) {
    const std::string size = huge_page_label(declared.size);
    const auto pages = static_cast<double>(declared.pages);
    const std::string text = fmt::format("{} pages", declared.pages);
    const std::string object = declared.node ? fmt::format("{} node {}", size, *declared.node) : size;
    const Series* found = declared.node
                              ? context_.page().find(metric::numa_hugepages_allocated,
                                                     {{"node", std::to_string(*declared.node)}, {"size", size}})
                              : context_.page().find(metric::hugepages_allocated, {{"size", size}});
    // A size that the host tells nothing of has no pages; a page that tells nothing of the host or node says nothing.
    const bool told =
        context_.told_by("hugepages") &&
        (declared.node
             ? !context_.page().with(metric::numa_hugepages_allocated, "node", std::to_string(*declared.node)).empty()
             : !context_.of(metric::hugepages_allocated).empty());
    if (found == nullptr && !told) return add_unknown("hugepages", object, pages, text);
    const double is = found == nullptr ? 0 : found->value();
    add_number("hugepages", object, pages, is >= pages, fmt::format("{} pages", short_number(is)), text);
  }

  void compare_nvme() {
    const NvmeExpectation& nvme = profile_.nvme;
    const auto each_controller = [&](std::string_view check, const MetricDesc& metric, std::optional<double> declared,
                                     bool at_least, const auto& text) {
      if (!declared) return;
      if (context_.of(metric).empty()) add_unknown(check, "all controllers", *declared, text(*declared));
      for (const Series& series : context_.of(metric))
        add_number(check, std::string(series.label("controller")), *declared,
                   at_least ? series.value() >= *declared : series.value() == *declared, text(series.value()),
                   text(*declared));
    };
    const auto number = [](double v) { return short_number(v); };
    const auto as_double = [](std::optional<unsigned> v) {
      return v ? std::optional(static_cast<double>(*v)) : std::nullopt;
    };
    each_controller("nvme-io-queues", metric::nvme_controller_io_queues, as_double(nvme.io_queues), true, number);
    each_controller("nvme-queue-depth", metric::nvme_controller_queue_depth, as_double(nvme.queue_depth), true, number);
    each_controller("nvme-keep-alive", metric::nvme_controller_keep_alive, nvme.keep_alive, false, seconds_text);
    each_controller("nvme-loss-timeout", metric::nvme_controller_loss_timeout, nvme.loss_timeout, false, seconds_text);
    each_controller("nvme-reconnect-delay", metric::nvme_controller_reconnect_delay, nvme.reconnect_delay, false,
                    seconds_text);
  }

  const CheckContext& context_;
  const Profile& profile_;
  std::vector<Expectation> out_;
  std::unordered_map<std::string, std::size_t> places_;  // by check and object
};

}  // namespace

std::vector<Expectation> compare(const CheckContext& context, const Profile& profile) {
  return Comparison(context, profile).run();
}

void judge_profile(CheckContext& context, const Profile& profile, Verdict& verdict) {
  for (const Expectation& e : compare(context, profile)) {
    const Check* check = find_check(e.check);
    if (check == nullptr || e.told_by_check) continue;
    if (!e.met) {
      verdict.not_judged.push_back({e.check, e.object, e.found});
      continue;
    }
    if (*e.met) continue;
    context.select(*check);
    Finding& finding = context.report(e.object, e.found);
    finding.expected = e.expected + " (profile)";
    if (e.critical && check->finding_class != "drift") finding.severity = Status::kCritical;
  }
}

}  // namespace roce

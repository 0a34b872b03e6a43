// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/profile_init.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"

namespace roce {
namespace {

constexpr double kBytesPerGigabit = 1e9 / 8;

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
  }
  return out + "\"";
}

class Writer {
 public:
  Writer(const PageView& view, const CheckContext& context, const Verdict& verdict)
      : view_(view), context_(context), verdict_(verdict) {}

  WrittenProfile run(std::string_view host_name) {
    out_.text = fmt::format(
        "# Profile of {}, written by `roce_exporter profile init` from what is there.\n"
        "# Look at each value: it says what is found, not what is right. Values marked\n"
        "# suspicious failed a built-in check.\n"
        "profile: 1\n",
        host_name);
    devices();
    host();
    nvme();
    return std::move(out_);
  }

 private:
  // The finding that throws doubt on a key of an object; null where there is none.
  const Finding* doubt(std::string_view key, std::string_view object) const {
    for (const Finding& f : verdict_.findings) {
      const Check* check = find_check(f.id);
      if (check == nullptr || check->profile_key != key) continue;
      if (object.empty() || f.object == "host" || f.object == object ||
          f.object.starts_with(std::string(object) + "/") || f.object.starts_with(std::string(object) + " "))
        return &f;
    }
    return nullptr;
  }

  void value(std::string_view indent, std::string_view key, std::string_view object, std::string_view name,
             std::string_view text) {
    const Finding* finding = doubt(key, object);
    if (finding == nullptr) {
      out_.text += fmt::format("{}{}: {}\n", indent, name, text);
      return;
    }
    ++out_.suspicious;
    out_.text += fmt::format("{}# suspicious: {}: found {}, expected {}\n{}#{}: {}\n", indent, finding->id,
                             finding->found, finding->expected, indent, name, text);
  }

  const Series* of_device(const MetricDesc& metric, std::string_view device) const {
    for (const Series& s : view_.of(metric))
      if (s.label("device") == device && !context_.is_representor(s)) return &s;
    return nullptr;
  }

  // Ports of one device that differ cannot be told in one value.
  std::optional<double> same_on_all(const MetricDesc& metric, std::string_view device) const {
    std::optional<double> found;
    for (const Series& s : view_.of(metric)) {
      if (s.label("device") != device || context_.is_representor(s)) continue;
      if (found && *found != s.value()) return std::nullopt;
      found = s.value();
    }
    return found;
  }

  // Of ports that are active: kernels invent a rate for others.
  std::optional<double> same_on_active(const MetricDesc& metric, std::string_view device) const {
    std::optional<double> found;
    for (const Series* state : view_.with(metric::port_state, "device", device)) {
      if (state->value() < kActive || context_.is_representor(*state)) continue;
      const Series* s = view_.find(metric, {{"device", device}, {"port", state->label("port")}});
      if (s == nullptr) continue;
      if (found && *found != s->value()) return std::nullopt;
      found = s->value();
    }
    return found;
  }

  void devices() {
    if (view_.of(metric::device_info).empty()) {
      out_.text += "\n# This host shows no RDMA device.\ndevices: []\n";
      return;
    }
    out_.text += "\ndevices:\n";
    for (const Series& info : view_.of(metric::device_info)) device(info);
  }

  void device(const Series& info) {
    const std::string_view name = info.label("device");
    const std::string_view address = info.label("pci_address");
    // Several devices may be on one function: then only the name tells them apart.
    const bool alone = view_.with(metric::device_info, "pci_address", address).size() == 1;
    out_.text += address.empty() || !alone ? fmt::format("  - device: {}\n", quoted(name))
                                           : fmt::format("  - pci_address: {}   # {}\n", quoted(address), name);
    bool storage = false;
    bool active = false;
    std::set<std::uint64_t> ports;
    for (const Series* state : view_.with(metric::port_state, "device", name)) {
      if (context_.is_representor(*state)) continue;
      const bool sessions = context_.carries_sessions(*state);
      storage = storage || sessions;
      active = active || state->value() >= kActive;
      if (const auto port = parse_u64(state->label("port")); port && (sessions || context_.had_link(*state)))
        ports.insert(*port);
    }
    out_.text += fmt::format("    role: {}\n", storage ? "storage" : "compute   # no storage session runs over it now");
    constexpr std::string_view kIndent = "    ";
    if (!ports.empty() || doubt("ports", name) != nullptr)
      value(kIndent, "ports", name, "ports", fmt::format("[{}]", fmt::join(ports, ", ")));
    else if (!context_.tells_ports(name)) {
      ++out_.suspicious;
      out_.text += "    # suspicious: the state of its ports could not be read\n";
    } else
      out_.text += "    # ports: none had a link yet; not declared, each counts once it had one\n";
    if (const auto rate = same_on_active(metric::port_rate, name); rate && *rate > 0)
      value(kIndent, "rate", name, "rate", fmt::format("{:g}   # Gb/s", *rate / kBytesPerGigabit));
    if (!active && context_.tells_ports(name)) out_.text += "    # no port is active: no rate\n";
    if (const auto mtu = same_on_all(metric::netdev_mtu, name)) value(kIndent, "mtu", name, "mtu", short_number(*mtu));
    pcie(name, address);
    if (const Series* size = of_device(metric::pcie_max_read_request, name))
      value(kIndent, "max_read_request", name, "max_read_request", short_number(size->value()));
    lossless(name);
    if (!info.label("firmware").empty()) value(kIndent, "firmware", name, "firmware", quoted(info.label("firmware")));
  }

  void pcie(std::string_view name, std::string_view address) {
    const auto own = [&](const MetricDesc& metric) {
      return view_.find(metric, {{"device", name}, {"pci_address", address}});
    };
    const Series* lanes = own(metric::pcie_link_lanes);
    const Series* speed = own(metric::pcie_link_transfers);
    if (lanes == nullptr || speed == nullptr) return;
    constexpr std::array<double, 6> kSpeeds{2.5, 5, 8, 16, 32, 64};
    const double gts = std::round(speed->value() / 1e8) / 10;
    if (std::find(kSpeeds.begin(), kSpeeds.end(), gts) == kSpeeds.end()) return;
    value("    ", "pcie", name, "pcie", fmt::format("{{lanes: {}, speed: {:g}}}", short_number(lanes->value()), gts));
  }

  // Ports of the device that differ cannot be told in one value here either.
  void lossless(std::string_view name) {
    std::map<std::string_view, std::set<std::uint64_t>> enabled;  // by netdev
    for (const Series* s : view_.with(metric::pfc_enabled, "device", name)) {
      if (context_.is_representor(*s)) continue;
      auto& on = enabled[s->label("netdev")];
      if (const auto priority = parse_u64(s->label("priority")); priority && s->value() == 1) on.insert(*priority);
    }
    if (enabled.empty()) return;
    const std::set<std::uint64_t>& on = enabled.begin()->second;
    if (std::any_of(enabled.begin(), enabled.end(), [&](const auto& other) { return other.second != on; })) {
      out_.text += "    # its ports have PFC on different priorities\n";
      return;
    }
    value("    ", "pfc_priorities", name, "pfc_priorities", fmt::format("[{}]", fmt::join(on, ", ")));
    dscp(name, on);
    // On means on for the declared priorities, off means off for all.
    bool lossless_on = true;
    bool any_on = false;
    std::size_t n = 0;
    for (const Series* s : view_.with(metric::ecn_enabled, "device", name)) {
      any_on = any_on || s->value() == 1;
      const auto priority = parse_u64(s->label("priority"));
      const bool declared = doubt("pfc_priorities", name) == nullptr;
      if (declared && (!priority || !on.contains(*priority))) continue;
      lossless_on = lossless_on && s->value() == 1;
      ++n;
    }
    if (n > 0 && (lossless_on || !any_on)) value("    ", "ecn", name, "ecn", lossless_on ? "true" : "false");
  }

  // What all netdevs of the device map alike.
  void dscp(std::string_view name, const std::set<std::uint64_t>& on) {
    std::map<std::uint64_t, std::optional<std::uint64_t>> maps;
    for (const Series* s : view_.with(metric::dscp_priority, "device", name)) {
      const auto dscp = parse_u64(s->label("dscp"));
      const auto priority = static_cast<std::uint64_t>(s->value());
      if (!dscp || context_.is_representor(*s)) continue;
      const auto [at, fresh] = maps.try_emplace(*dscp, on.contains(priority) ? std::optional(priority) : std::nullopt);
      if (!fresh && at->second != priority) at->second.reset();
    }
    for (const Series* entries : view_.with(metric::dscp_entries, "device", name)) {
      if (context_.is_representor(*entries)) continue;
      for (auto& [dscp, priority] : maps) {
        const Series* s =
            view_.find(metric::dscp_priority,
                       {{"device", name}, {"netdev", entries->label("netdev")}, {"dscp", std::to_string(dscp)}});
        // A netdev with a map follows the common one where it says nothing of its own.
        if (entries->value() == 0 || (s == nullptr && priority != dscp / 8)) priority.reset();
      }
    }
    std::string text;
    for (const auto& [dscp, priority] : maps)
      if (priority) text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", dscp, *priority);
    if (!text.empty()) value("    ", "dscp", name, "dscp", fmt::format("{{{}}}", text));
  }

  void host() {
    std::string pages;
    for (const Series& s : view_.of(metric::hugepages_allocated)) {
      if (s.value() == 0) continue;
      std::string size(s.label("size"));  // as the kernel's controller names it: 2MB is 2 MiB
      if (size.ends_with("B")) size.replace(size.size() - 1, 1, "iB");
      const Finding* finding = doubt("hugepages", s.label("size"));
      if (finding != nullptr) {
        ++out_.suspicious;
        pages += fmt::format("    # suspicious: {}: found {}, expected {}\n    #", finding->id, finding->found,
                             finding->expected);
      } else {
        pages += "    ";
      }
      pages += fmt::format("- {{size: {}, pages: {}}}\n", size, short_number(s.value()));
    }
    if (!pages.empty()) out_.text += "\nhost:\n  hugepages:\n" + pages;
  }

  void nvme() {
    // The least of what is found, so that the profile holds for this host.
    std::string text;
    const auto number = [&](std::string_view key, const MetricDesc& metric) {
      std::optional<double> least;
      for (const Series& s : view_.of(metric))
        if (s.value() >= 1) least = std::min(least.value_or(s.value()), s.value());
      if (least && std::isfinite(*least)) add_nvme(text, key, short_number(*least));
    };
    const auto seconds = [&](std::string_view key, const MetricDesc& metric) {
      std::set<double> found;
      for (const Series& s : view_.of(metric)) found.insert(s.value());
      // Several values cannot be told in one.
      if (found.size() == 1) add_nvme(text, key, std::isinf(*found.begin()) ? "off" : short_number(*found.begin()));
    };
    number("io_queues", metric::nvme_controller_io_queues);
    number("queue_depth", metric::nvme_controller_queue_depth);
    seconds("keep_alive", metric::nvme_controller_keep_alive);
    seconds("loss_timeout", metric::nvme_controller_loss_timeout);
    seconds("reconnect_delay", metric::nvme_controller_reconnect_delay);
    if (!text.empty()) out_.text += "\nnvme:\n" + text;
  }

  void add_nvme(std::string& text, std::string_view key, const std::string& found) {
    const Finding* finding = doubt(fmt::format("nvme.{}", key), "");
    if (finding == nullptr) {
      text += fmt::format("  {}: {}\n", key, found);
      return;
    }
    ++out_.suspicious;
    text += fmt::format("  # suspicious: {} on {}: found {}, expected {}\n  #{}: {}\n", finding->id, finding->object,
                        finding->found, finding->expected, key, found);
  }

  const PageView& view_;
  const CheckContext& context_;
  const Verdict& verdict_;
  WrittenProfile out_;
};

}  // namespace

WrittenProfile write_profile(const Page& page, const Verdict& verdict, std::string_view host_name) {
  const auto batches = page.batches();
  const PageView view(batches);
  Verdict ignored;
  const CheckContext context(view, nullptr, nullptr, ignored.sources, ignored);
  return Writer(view, context, verdict).run(host_name);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::string_view kStates[] = {"none", "down", "initialising", "armed", "active", "active, deferred"};
constexpr std::string_view kPhysicalStates[] = {"",         "sleeping", "polling",    "disabled",
                                                "training", "link up",  "recovering", "physical test"};

template <std::size_t N>
std::string_view word_of(const std::string_view (&words)[N], double value) {
  return value >= 0 && value < static_cast<double>(N) ? words[static_cast<std::size_t>(value)] : std::string_view();
}

struct NaturalOrder {
  bool operator()(const std::pair<std::string, std::string>& a, const std::pair<std::string, std::string>& b) const {
    if (a.first != b.first) return natural_less(a.first, b.first);
    return natural_less(a.second, b.second);
  }
};

// "0000:17:00.1" is function 1 of the card in 0000:17:00.
std::string slot_of(std::string_view pci_address) { return std::string(pci_address.substr(0, pci_address.rfind('.'))); }

bool names_one_of(std::string_view object, const std::vector<std::string_view>& names) {
  while (!object.empty()) {
    const std::size_t blank = std::min(object.find(' '), object.size());
    const std::string_view word = object.substr(0, blank);
    if (std::any_of(names.begin(), names.end(), [&](std::string_view n) { return !n.empty() && n == word; }))
      return true;
    object.remove_prefix(std::min(object.size(), blank + 1));
  }
  return false;
}

// Value of the label `what` of the series that is 1, of those of one object that tell its state.
std::string_view state_in(const PageView& page, const MetricDesc& metric, std::string_view label,
                          std::string_view object) {
  for (const Series* series : page.with(metric, label, object))
    if (series->value() == 1) return series->label("state");
  return {};
}

void read_links(StatusView& view, const PageView& page, const Verdict& verdict) {
  std::map<std::pair<std::string, std::string>, LinkView, NaturalOrder> links;
  const auto link_of = [&](const Series& series) -> LinkView& {
    LinkView& link = links[{std::string(series.label("device")), std::string(series.label("port"))}];
    link.device = series.label("device");
    link.port = series.label("port");
    return link;
  };
  for (const Series& series : page.of(metric::port_state)) {
    LinkView& link = link_of(series);
    if (const auto word = word_of(kStates, series.value()); !word.empty()) link.state = word;
    link.up = series.value() == 4 || series.value() == 5;
  }
  for (const Series& series : page.of(metric::port_physical_state)) {
    LinkView& link = link_of(series);
    if (link.up != true) link.reason = word_of(kPhysicalStates, series.value());
  }
  for (const Series& series : page.of(metric::port_rate)) link_of(series).rate = series.value();
  for (const Series& series : page.of(metric::port_info)) link_of(series).netdev = series.label("netdev");

  std::map<std::string, CardView> cards;
  std::map<std::string, std::string> slot_of_device;
  for (auto& [key, link] : links) {
    for (const Series* series : page.with(metric::netdev_mtu, "device", link.device))
      if (series->label("port") == link.port && series->label("netdev") == link.netdev) link.mtu = series->value();
    if (link.up == false)
      for (const Series* series : page.with(metric::netdev_link_reason, "device", link.device))
        if (series->label("port") == link.port && series->value() == 1)
          link.reason = series->label("detail").empty() ? series->label("reason") : series->label("detail");
    std::replace(link.reason.begin(), link.reason.end(), '_', ' ');
    link.function = page.find(metric::virtual_function_info, {{"device", link.device}}) != nullptr ||
                    page.find(metric::representor_info, {{"device", link.device}, {"port", link.port}}) != nullptr;
    link.trouble = trouble_of(verdict, {link.name(), link.device, link.netdev});
    // Its driver tells what was there last.
    if (const Series* lost = page.find(metric::pcie_device_lost, {{"device", link.device}});
        lost && lost->value() == 1) {
      link.reason = fmt::format("{} when it was lost", link.state);
      link.state = "device lost";
      link.up = false;
    }

    std::string slot = link.device;
    if (const Series* info = page.find(metric::device_info, {{"device", link.device}})) {
      link.driver = info->label("driver");
      if (!info->label("pci_address").empty()) slot = slot_of(info->label("pci_address"));
    }
    CardView& card = cards[slot];
    card.slot = slot;
    if (const Series* node = page.find(metric::device_numa_node, {{"device", link.device}}); node && node->value() >= 0)
      card.numa = fmt::format("{:.0f}", node->value());
    const Series* has = page.find(metric::pcie_path_bandwidth, {{"device", link.device}});
    const Series* should = page.find(metric::pcie_path_expected_bandwidth, {{"device", link.device}});
    if (has != nullptr && should != nullptr && has->value() < should->value())
      card.pcie = fmt::format("PCIe {:.0f} of {:.0f} Gb/s", has->value() * 8 / 1e9, should->value() * 8 / 1e9);
    if (const auto trouble = trouble_of(verdict, {link.device, slot}))
      card.trouble = card.trouble ? worse(*card.trouble, *trouble) : *trouble;
    slot_of_device[link.device] = slot;
    view.links.push_back(link);
  }

  for (auto& [slot, card] : cards) view.cards.push_back(std::move(card));
  std::sort(view.cards.begin(), view.cards.end(), [](const CardView& a, const CardView& b) {
    if (a.numa.empty() != b.numa.empty()) return b.numa.empty();
    if (a.numa != b.numa) return natural_less(a.numa, b.numa);
    return natural_less(a.slot, b.slot);
  });
  for (LinkView& link : view.links)
    for (std::size_t i = 0; i < view.cards.size(); ++i)
      if (view.cards[i].slot == slot_of_device[link.device]) link.card = i;
}

void attach(StatusView& view, const PageView& page, SessionView& session, const MetricDesc& metric,
            std::string_view label) {
  const Series* found = page.find(metric, {{label, session.name}});
  if (found == nullptr) return;
  session.netdev = found->label("netdev");
  for (std::size_t i = 0; i < view.links.size(); ++i)
    if (view.links[i].device == found->label("device") && view.links[i].port == found->label("port")) session.link = i;
}

void read_sessions(StatusView& view, const PageView& page, const Verdict& verdict) {
  for (const Series& info : page.of(metric::nvme_controller_info)) {
    if (info.label("transport") == "pcie") continue;
    SessionView session;
    session.kind = info.label("transport") == "rdma" ? "NVMe-oF" : fmt::format("NVMe {}", info.label("transport"));
    session.name = info.label("controller");
    session.target = info.label("nqn").empty() ? info.label("subsystem") : info.label("nqn");
    session.peer = info.label("traddr");
    session.state = state_in(page, metric::nvme_controller_state, "controller", session.name);
    session.good = session.state.empty() || session.state == "live";
    attach(view, page, session, metric::nvme_controller_link_info, "controller");
    session.trouble = trouble_of(verdict, {session.name, info.label("subsystem")});
    view.sessions.push_back(std::move(session));
  }
  for (const Series& info : page.of(metric::nfs_mount_info)) {
    SessionView session;
    session.kind = "NFS";
    session.name = info.label("mount");
    session.target = info.label("export");
    session.peer = info.label("address").empty() ? info.label("server") : info.label("address");
    attach(view, page, session, metric::nfs_mount_link_info, "mount");
    session.trouble = trouble_of(verdict, {session.name});
    view.sessions.push_back(std::move(session));
  }
  for (const Series& info : page.of(metric::iser_session_info)) {
    SessionView session;
    session.kind = "iSER";
    session.name = info.label("session");
    session.target = info.label("target");
    session.peer = info.label("address");
    session.state = state_in(page, metric::iser_session_state, "session", session.name);
    std::replace(session.state.begin(), session.state.end(), '_', ' ');
    session.good = session.state != "failed" && session.state != "free";
    attach(view, page, session, metric::iser_session_link_info, "session");
    session.trouble = trouble_of(verdict, {session.name});
    view.sessions.push_back(std::move(session));
  }
  std::vector<std::size_t> order(view.sessions.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank = [&](std::size_t i) {
    const SessionView& s = view.sessions[i];
    return std::tuple(s.link.value_or(view.links.size()), i);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  std::vector<SessionView> sorted;
  sorted.reserve(order.size());
  for (const std::size_t i : order) sorted.push_back(std::move(view.sessions[i]));
  view.sessions = std::move(sorted);
}

}  // namespace

std::optional<Status> trouble_of(const Verdict& verdict, const std::vector<std::string_view>& names) {
  std::optional<Status> worst;
  for (const Finding& finding : verdict.findings) {
    if (finding.severity == Status::kInfo || !names_one_of(finding.object, names)) continue;
    worst = worst ? worse(*worst, finding.severity) : finding.severity;
  }
  return worst;
}

StatusView::StatusView(const PageView& page, const Verdict& verdict) {
  read_links(*this, page, verdict);
  read_sessions(*this, page, verdict);
}

}  // namespace roce

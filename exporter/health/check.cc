// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/health/expectations.h"

namespace roce {
namespace {

constexpr std::string_view kRunbooks = "packaging/docs/checks.md#";
constexpr std::size_t kMaxFindings = 200;  // of one check; the last of them stands for the rest
constexpr double kOperational = 6;

// Calls f for each word of a list separated by blanks.
template <class F>
void each_word(std::string_view list, F f) {
  while (!list.empty()) {
    const std::size_t blank = std::min(list.find(' '), list.size());
    if (blank != 0) f(list.substr(0, blank));
    list.remove_prefix(std::min(list.size(), blank + 1));
  }
}

const MetricDesc* find_metric(std::string_view name) {
  for (const MetricDesc& metric : all_metrics())
    if (metric.name == name) return &metric;
  return nullptr;
}

// Without the state of its ports nothing can be said of a device.
bool decides(const CheckContext& context, const SourceState& source) {
  return source.collector == "inventory" || (source.collector == "rdma_port" && !context.tells_ports(source.device));
}

void report_failing_sources(CheckContext& context, const Verdict& verdict) {
  for (const SourceState& source : verdict.sources) {
    // What a recording does not hold has not failed.
    if (source.ok || not_recorded(source)) continue;
    Finding& finding = context.report(source.device.empty() ? source.collector : source.collector + "/" + source.device,
                                      why_failing(source));
    if (decides(context, source)) finding.severity = Status::kUnknown;
  }
}

// What `check --device` may name.
void name_devices(const PageView& view, const Profile* profile, Verdict& verdict) {
  std::set<std::string_view> names;
  for (const MetricDesc& metric : all_metrics()) {
    if (!metric.name.ends_with("_info")) continue;
    for (const Series& series : view.of(metric))
      for (const std::string_view label : {"device", "netdev", "controller", "bond", "pci_address"})
        if (const std::string_view value = series.label(label); !value.empty()) names.insert(value);
  }
  std::string_view last;  // sources come device by device
  for (const SourceState& source : verdict.sources)
    if (source.device != last) names.insert(last = source.device);
  verdict.names.assign(names.begin(), names.end());
  if (profile == nullptr) return;
  std::set<std::string_view> declared;
  for (const DeclaredDevice& device : profile->devices)
    for (const std::string* name : {&device.name, &device.pci_address})
      if (!name->empty()) declared.insert(*name);
  verdict.declared.assign(declared.begin(), declared.end());
}

}  // namespace

const Check* find_check(std::string_view id) {
  for (const Check& check : all_checks())
    if (check.id == id) return &check;
  return nullptr;
}

std::vector<std::string> check_ids() {
  std::vector<std::string> ids;
  for (const Check& check : all_checks()) ids.emplace_back(check.id);
  return ids;
}

std::set<std::string_view> collectors_of(const Check& check) {
  std::set<std::string_view> collectors;
  each_word(check.reads, [&](std::string_view name) {
    if (const MetricDesc* metric = find_metric(name); metric != nullptr && metric->collector != "exporter")
      collectors.insert(metric->collector);
  });
  return collectors;
}

std::vector<History::Watched> watched_families() {
  std::vector<History::Watched> watched;
  std::set<std::string_view> seen;
  for (const Check& check : all_checks())
    each_word(check.moves, [&](std::string_view word) {
      const std::size_t brace = std::min(word.find('{'), word.size());
      const MetricDesc* metric = find_metric(word.substr(0, brace));
      if (metric == nullptr || !seen.insert(word).second) return;
      History::Watched one{metric, {}, {}};
      if (brace != word.size()) {
        const std::size_t equals = word.find('=', brace);
        one.label = word.substr(brace + 1, equals - brace - 1);
        one.value = word.substr(equals + 1, word.size() - equals - 2);
      }
      watched.push_back(one);
    });
  return watched;
}

CheckContext::CheckContext(const PageView& page, const History* history, const Profile* profile,
                           const SourceStates& sources, Verdict& verdict)
    : page_(page), history_(history), profile_(profile), verdict_(verdict) {
  for (const SourceState& source : sources)
    if (!source.ok) not_ok_.push_back(&source);
  if (profile_ == nullptr) return;
  for (const Series& series : page_.of(metric::device_info))
    if (auto expectation = expectation_of(*profile_, series.label("device"), series.label("pci_address")))
      declared_.emplace(series.label("device"), std::move(*expectation));
}

void CheckContext::run(const Check& check) {
  check_ = &check;
  noted_ = false;
  if (check.judge != nullptr) check.judge(*this);
  // A source that failed leaves its part of the check open, and says so beside what the rest showed.
  if (not_ok_.empty()) return;
  const auto collectors = collectors_of(check);
  for (const SourceState* at : not_ok_) {
    const SourceState& source = *at;
    if (!collectors.contains(source.collector)) continue;
    // What was found of the whole device leaves nothing open.
    if (!source.device.empty() && reported(source.device)) continue;
    verdict_.not_judged.push_back({std::string(check.id), source.device,
                                   not_recorded(source)
                                       ? fmt::format("source {} is not in the recording", source.collector)
                                       : fmt::format("source {} failed: {}", source.collector, source.reason)});
  }
}

Finding& CheckContext::report(std::string object, std::string found) {
  const auto of_check = std::count_if(verdict_.findings.begin(), verdict_.findings.end(),
                                      [&](const Finding& f) { return f.id == check_->id; });
  auto& findings = static_cast<std::size_t>(of_check) < kMaxFindings ? verdict_.findings : overflow_;
  Finding finding;
  finding.id = check_->id;
  finding.finding_class = check_->finding_class;
  finding.severity = check_->severity;
  finding.object = std::move(object);
  finding.summary = check_->summary;
  finding.found = std::move(found);
  finding.expected = check_->expected;
  finding.next_step = check_->next_step;
  finding.runbook = std::string(kRunbooks) + std::string(check_->id);
  findings.push_back(std::move(finding));
  return findings.back();
}

void CheckContext::finish() {
  std::map<std::string, std::pair<std::size_t, Status>> others;  // by check: how many, and the worst
  for (const Finding& f : overflow_) {
    auto& [count, worst] = others.try_emplace(f.id, 0, f.severity).first->second;
    ++count;
    worst = worse(worst, f.severity);
  }
  overflow_.clear();
  for (const auto& [id, of_check] : others) {
    const auto last = std::find_if(verdict_.findings.rbegin(), verdict_.findings.rend(),
                                   [&, &name = id](const Finding& f) { return f.id == name; });
    if (last == verdict_.findings.rend()) continue;
    last->found = fmt::format("{} more; the first of them is {}: {}", of_check.first + 1, last->object, last->found);
    last->object = "others";
    last->severity = worse(last->severity, of_check.second);
  }
}

std::optional<History::Growth> CheckContext::growth(const Series& series, std::chrono::seconds span) {
  auto growth = history_ == nullptr ? std::nullopt : history_->growth(series, span);
  if (!growth && !std::exchange(noted_, true)) {
    verdict_.not_judged.push_back({std::string(check_->id), object_of(series), "no earlier page to compare with"});
    second_sample_ = false;
  }
  return growth;
}

std::optional<double> CheckContext::least(const Series& series, std::chrono::seconds span) {
  auto least = history_ == nullptr ? std::nullopt : history_->least(series, span);
  if (!least && !std::exchange(noted_, true)) {
    verdict_.not_judged.push_back({std::string(check_->id), object_of(series), "no earlier page to compare with"});
    second_sample_ = false;
  }
  return least;
}

std::string CheckContext::role_of(std::string_view device) const {
  const DeviceExpectation* declared = expected(device);
  return declared == nullptr ? std::string() : declared->role;
}

const DeviceExpectation* CheckContext::expected(std::string_view device) const {
  const auto at = declared_.find(device);
  return at == declared_.end() ? nullptr : &at->second;
}

std::string_view CheckContext::netdev_of(const Series& port) const {
  const Series* info = page_.find(metric::port_info, {{"device", port.label("device")}, {"port", port.label("port")}});
  return info == nullptr ? std::string_view() : info->label("netdev");
}

bool CheckContext::had_link(const Series& state) const {
  if (state.value() >= kActive) return true;
  if (history_ != nullptr && history_->active_ports().contains(port_key(page_, state))) return true;
  // Greatest value of the port's network devices; nothing where none tells.
  const auto most = [&](const MetricDesc& metric) {
    std::optional<double> found;
    for (const Series* s : page_.with(metric, "device", state.label("device")))
      if (s->label("port") == state.label("port")) found = std::max(found.value_or(0), s->value());
    return found;
  };
  if (most(metric::port_link_downed).value_or(0) >= 1) return true;
  if (most(metric::netdev_operational_state).value_or(0) >= kOperational) return true;
  if (const auto ups = most(metric::netdev_carrier_up)) return *ups >= 1;
  // Kernels before 4.16 count both directions together. The first change of a port without a cable is that its driver
  // says so.
  return most(metric::netdev_carrier_changes).value_or(0) >= 2;
}

bool CheckContext::expects_port(const Series& state) const {
  const std::string_view device = state.label("device");
  const DeviceExpectation* declared = expected(device);
  if (declared != nullptr && declared->ports) {
    const auto number = parse_u64(state.label("port"));
    return number && *number <= kMaxPort && declared->ports->contains(static_cast<unsigned>(*number));
  }
  if (had_link(state)) return true;
  // Nobody declares a device for storage and leaves all of its ports without a cable.
  if (declared == nullptr || declared->role != "storage") return false;
  const auto ports = page_.with(metric::port_state, "device", device);
  return std::none_of(ports.begin(), ports.end(),
                      [&](const Series* s) { return had_link(*s) || carries_sessions(*s); });
}

bool CheckContext::tells_ports(std::string_view device) const {
  if (page_.with(metric::port_state, "device", device).empty()) return false;
  const auto ports = page_.with(metric::port_info, "device", device);
  return std::all_of(ports.begin(), ports.end(), [&](const Series* port) {
    return page_.find(metric::port_state, {{"device", device}, {"port", port->label("port")}}) != nullptr;
  });
}

bool CheckContext::carries_sessions(const Series& state) const {
  const std::string_view device = state.label("device");
  const std::string_view port = state.label("port");
  const std::string_view netdev = netdev_of(state);
  for (const MetricDesc* links :
       {&metric::nvme_controller_link_info, &metric::nfs_mount_link_info, &metric::iser_session_link_info})
    for (const Series& link : page_.of(*links)) {
      if (!device.empty() && link.label("device") == device && link.label("port") == port) return true;
      if (!netdev.empty() && link.label("netdev") == netdev) return true;
    }
  return false;
}

bool CheckContext::is_representor(const Series& series) const {
  return page_.find(metric::representor_info, {{"device", series.label("device")}, {"port", series.label("port")}}) !=
         nullptr;
}

bool CheckContext::told_by(std::string_view collector) const {
  return std::all_of(not_ok_.begin(), not_ok_.end(), [&](const SourceState* s) { return s->collector != collector; });
}

bool CheckContext::hides_devices() const {
  return !told_by("inventory") || page_.of(metric::device_info).size() < verdict_.devices;
}

bool CheckContext::reported(std::string_view object) const {
  const auto is_it = [&](const Finding& f) { return f.id == check_->id && f.object == object; };
  return std::any_of(verdict_.findings.begin(), verdict_.findings.end(), is_it) ||
         std::any_of(overflow_.begin(), overflow_.end(), is_it);
}

std::string port_of(const Series& series) {
  const std::string_view device = series.label("device");
  const std::string_view port = series.label("port");
  if (device.empty()) return std::string(series.label("netdev"));
  return port.empty() ? std::string(device) : fmt::format("{}/{}", device, port);
}

std::string object_of(const Series& series) {
  std::string out = port_of(series);
  for (const std::string_view own :
       {"controller", "subsystem", "namespace", "mount",    "session",   "gpu",         "pid",
        "comm",       "owner",     "bond",      "priority", "direction", "pci_address", "sensor",
        "label",      "size",      "node",      "cgroup",   "resource",  "reporter",    "limit"}) {
    const std::string_view value = series.label(own);
    if (value.empty()) continue;
    if (!out.empty()) out += ' ';
    if (own == "priority" || own == "namespace" || own == "node" || own == "pid") out += fmt::format("{} ", own);
    out += value;
  }
  return out.empty() ? "host" : out;
}

double priority_of_dscp(const CheckContext& context, const Series& entries, unsigned dscp) {
  constexpr double kAll = 64;
  const std::string_view netdev = entries.label("netdev");
  if (const Series* mapped =
          context.page().find(metric::dscp_priority, {{"netdev", netdev}, {"dscp", std::to_string(dscp)}}))
    return mapped->value();
  // A page leaves out of a whole table what follows the common map, and of a part of one nothing.
  if (entries.value() >= kAll) return std::floor(dscp / 8.0);
  const Series* usual = context.page().find(metric::dcb_app_priority, {{"netdev", netdev}, {"application", "default"}});
  return usual == nullptr ? 0 : usual->value();
}

std::string in_last(double seconds) {
  return seconds < 120 ? fmt::format("in the last {:.0f} s", seconds)
                       : fmt::format("in the last {:.0f} min", seconds / 60);
}

std::string short_number(double value) {
  if (std::isinf(value)) return value > 0 ? "unlimited" : "below all";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

std::string percent(double ratio) { return fmt::format("{:.0f} %", ratio * 100); }

std::string bytes_text(double bytes) {
  if (std::isinf(bytes)) return "unlimited";
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string seconds_text(double seconds) { return std::isinf(seconds) ? "for ever" : fmt::format("{:.4g} s", seconds); }

std::string part_of(const Series& series, std::string_view part) {
  return part.empty() ? object_of(series) : fmt::format("{} {}", object_of(series), part);
}

namespace {

// "1 retry begun" of "retries begun": the first plural of it is what is counted.
std::string counted(double number, std::string_view what) {
  std::string text(what);
  std::size_t end = text.find(' ');
  while (end != std::string::npos && text[end - 1] != 's') end = text.find(' ', end + 1);
  if (short_number(number) == "1") {
    end = std::min(end, text.size());
    if (std::string_view(text).substr(0, end).ends_with("ies"))
      text.replace(end - 3, 3, "y");
    else if (text[end - 1] == 's')
      text.erase(end - 1, 1);
  }
  return fmt::format("{} {}", short_number(number), text);
}

}  // namespace

void report_moving(CheckContext& context, const MetricDesc& metric, const Movement& movement, std::string_view what,
                   const std::function<bool(const Series&)>& wanted) {
  struct Sum {
    std::string object;
    double count = 0;
    double seconds = 0;
    std::string reasons;
  };
  std::vector<Sum> sums;  // of what differs in its reason alone
  for (const Series& series : context.of(metric)) {
    if (wanted && !wanted(series)) continue;
    const auto growth = context.growth(series, movement.span);
    if (!growth || growth->increase <= 0) continue;
    std::string object = part_of(series, movement.part);
    auto at = std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) { return sum.object == object; });
    if (at == sums.end()) at = sums.insert(sums.end(), Sum{std::move(object), 0, 0, {}});
    at->count += growth->increase;
    at->seconds = std::max(at->seconds, growth->seconds);
    std::string reason;
    for (const std::string_view label : {"side", "reason", "type", "severity", "level", "result", "traffic_class"})
      if (const std::string_view value = series.label(label); !value.empty())
        reason += fmt::format("{}{}", reason.empty() ? "" : " ", value);
    if (!reason.empty())
      at->reasons += fmt::format("{}{} {}", at->reasons.empty() ? "" : ", ", short_number(growth->increase), reason);
  }
  for (Sum& sum : sums) {
    if (sum.count < movement.count || sum.count < movement.per_second * sum.seconds) continue;
    std::string found = fmt::format("{} {}", counted(sum.count, what), in_last(sum.seconds));
    if (!sum.reasons.empty()) found += fmt::format(" ({})", sum.reasons);
    context.report(std::move(sum.object), std::move(found));
  }
}

Verdict judge(const Page& page, const History* history, const Profile* profile, bool advice) {
  const auto batches = page.batches();
  return judge(PageView(batches), page.sources, page.devices, history, profile, advice);
}

Verdict judge(const PageView& view, SourceStates sources, std::size_t devices, const History* history,
              const Profile* profile, bool advice) {
  Verdict verdict;
  verdict.sources = std::move(sources);
  verdict.devices = devices;
  CheckContext context(view, history, profile, verdict.sources, verdict);
  for (const Check& check : all_checks()) {
    if (check.severity == Status::kInfo && !advice) continue;
    context.run(check);
    if (check.id == "source-failing") report_failing_sources(context, verdict);
  }
  if (profile != nullptr) judge_profile(context, *profile, verdict);
  context.finish();
  name_devices(view, profile, verdict);
  verdict.second_sample = context.second_sample();
  conclude(verdict);
  return verdict;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/iser.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/collectors/storage_link.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// The kernel's words and the label values for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSessionStates{
    {{"LOGGED_IN", "logged_in"}, {"FAILED", "failed"}, {"FREE", "free"}}};
constexpr std::array<std::string_view, 4> kSessionLabels{"logged_in", "failed", "free", "unknown"};
constexpr std::array<std::string_view, 4> kConnectionStates{"up", "down", "failed", "bound"};

std::string_view session_state(std::string_view text) {
  for (const auto& [word, label] : kSessionStates)
    if (text == word) return label;
  return "unknown";
}

// "session12" to "12", "connection12:0" to "12"; empty for other names.
std::string_view number_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return {};
  name.remove_prefix(prefix.size());
  name = name.substr(0, name.find(':'));
  return parse_u64(name) ? name : std::string_view();
}

// The component "host7" of a path.
std::string_view scsi_host_in(std::string_view path) {
  while (!path.empty()) {
    const auto slash = path.rfind('/');
    const std::string_view last = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (!number_of(last, "host").empty()) return last;
    path = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  }
  return {};
}

class IserCollector : public Collector {
 public:
  explicit IserCollector(CollectorContext context) : Collector(std::move(context)), links_(host()) {}

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "sysfs_iscsi", "");
    const std::string top = host().sysfs + "/class/iscsi_session";
    const auto sessions = list_directory(top);
    if (!sessions) {
      if (sessions.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(sessions.error());
    }
    const auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    const auto connections = connections_by_session();
    for (const std::string& session : *sessions) {
      const std::string_view number = number_of(session, "session");
      if (number.empty() || !is_iser(top + "/" + session)) continue;
      const auto own = connections.find(number);
      static const std::vector<std::string> kNone;
      add_session(session, top + "/" + session, own == connections.end() ? kNone : own->second, part->samples);
    }
    links_.prune();
    if (!part->samples.samples().empty()) out.parts.push_back(part);
    return failures_.conclude();
  }

 private:
  std::string text_or_empty(const std::string& path) { return failures_.value(read_attribute(path)).value_or(""); }
  std::string shown(const std::string& identity) const {
    return context().settings.hide_identity ? std::string() : identity;
  }

  // The SCSI host above the session names its driver. Where no host is to be seen, iSER must be the only transport.
  bool is_iser(const std::string& dir) const {
    if (const auto path = resolve(dir)) {
      const std::string_view scsi_host = scsi_host_in(*path);
      if (!scsi_host.empty())
        if (const auto name =
                read_attribute(host().sysfs + "/class/scsi_host/" + std::string(scsi_host) + "/proc_name"))
          return *name == "iscsi_iser" || *name == "iser";
    }
    const auto transports = list_directory(host().sysfs + "/class/iscsi_transport");
    return transports && transports->size() == 1 && transports->front() == "iser";
  }

  std::map<std::string, std::vector<std::string>, std::less<>> connections_by_session() const {
    std::map<std::string, std::vector<std::string>, std::less<>> found;
    const std::string top = host().sysfs + "/class/iscsi_connection";
    const auto names = list_directory(top);
    if (!names) return found;
    for (const std::string& name : *names)
      if (const std::string_view session = number_of(name, "connection"); !session.empty())
        found[std::string(session)].push_back(top + "/" + name);
    return found;
  }

  void add_session(const std::string& session, const std::string& dir, const std::vector<std::string>& connections,
                   SampleBatch& batch) {
    if (const auto state = read_attribute(dir + "/state")) {
      const std::string_view label = session_state(*state);
      for (std::string_view each : kSessionLabels)
        batch.add(metric::iser_session_state, {session, each}, each == label);
    } else {
      failures_.note(state.error());
    }
    std::string address;
    std::string service;
    std::map<std::string_view, std::uint64_t> by_state;
    for (const std::string& connection : connections) {
      if (address.empty()) {
        // The address in use; the persistent one is what was asked for.
        address = text_or_empty(connection + "/address");
        if (address.empty()) address = text_or_empty(connection + "/persistent_address");
        service = text_or_empty(connection + "/port");
        if (service.empty()) service = text_or_empty(connection + "/persistent_port");
      }
      const std::string state = text_or_empty(connection + "/state");
      if (state.empty()) continue;
      const auto* known = std::find(kConnectionStates.begin(), kConnectionStates.end(), state);
      ++by_state[known == kConnectionStates.end() ? "unknown" : *known];
    }
    for (const auto& [state, count] : by_state) batch.add(metric::iser_connections, {session, state}, count);
    const std::string interface = text_or_empty(dir + "/ifacename");
    batch.add(metric::iser_session_info,
              {session, shown(text_or_empty(dir + "/targetname")), shown(address), service, interface}, 1);
    if (const auto seconds = parse_u64(text_or_empty(dir + "/recovery_tmo")))
      batch.add(metric::iser_session_recovery_timeout, {session}, *seconds);
    // ifacename is open-iscsi's name of a record, not one of a network device.
    if (const auto link = links_.find({address, "", ""}, device().devices, false))
      batch.add(metric::iser_session_link_info, {session, link->device, link->port, link->netdev, link->found_by}, 1);
  }

  StorageLinkFinder links_;
  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_iser_collector(const CollectorContext& context) {
  return std::make_unique<IserCollector>(context);
}

}  // namespace roce

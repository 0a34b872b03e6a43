// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/nvmet.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

class NvmetCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "configfs_nvmet", "");
    failed_.reset();
    const std::string top = host().configfs() + "/nvmet";
    const auto subsystems = list_directory(top + "/subsystems");
    if (!subsystems) {
      if (subsystems.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(subsystems.error());
    }
    const auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    std::map<std::string, std::uint64_t> enabled_of;  // NQN -> enabled namespaces
    std::uint64_t enabled = 0;
    std::uint64_t disabled = 0;
    for (const std::string& nqn : *subsystems) {
      const std::string dir = top + "/subsystems/" + nqn;
      for (const std::string& id : names(dir + "/namespaces")) {
        const auto value = text(dir + "/namespaces/" + id + "/enable");
        if (!value) continue;
        if (*value == "1") {
          ++enabled;
          ++enabled_of[nqn];
        } else {
          ++disabled;
        }
      }
      if (!context().settings.hide_identity)
        part->samples.add(metric::nvmet_subsystem_info,
                          {nqn, text_or_empty(dir + "/attr_model"), text_or_empty(dir + "/attr_serial")}, 1);
    }
    part->samples.add(metric::nvmet_subsystems, {}, static_cast<std::uint64_t>(subsystems->size()));
    part->samples.add(metric::nvmet_namespaces, {"enabled"}, enabled);
    part->samples.add(metric::nvmet_namespaces, {"disabled"}, disabled);
    const auto controllers = count_controllers(*subsystems);
    for (const std::string& id : names(top + "/ports")) {
      add_port(top + "/ports/" + id, id, enabled_of, part->samples);
      if (!controllers) continue;
      const auto found = controllers->find(id);
      part->samples.add(metric::nvmet_controllers, {id},
                        found == controllers->end() ? std::uint64_t{0} : found->second);
    }
    out.parts.push_back(part);
    if (failed_) return tl::unexpected(*failed_);
    return {};
  }

 private:
  void note(const Error& error) {
    if (!failed_ && error.kind != ErrorKind::kAbsent && error.kind != ErrorKind::kUnsupported) failed_ = error;
  }
  std::vector<std::string> names(const std::string& dir) {
    auto found = list_directory(dir);
    if (found) return std::move(*found);
    note(found.error());
    return {};
  }
  std::optional<std::string> text(const std::string& path) {
    auto value = read_attribute(path);
    if (value) return std::move(*value);
    note(value.error());
    return std::nullopt;
  }
  std::string text_or_empty(const std::string& path) { return text(path).value_or(""); }

  void add_port(const std::string& dir, const std::string& id, const std::map<std::string, std::uint64_t>& enabled_of,
                SampleBatch& batch) {
    const std::string transport = text_or_empty(dir + "/addr_trtype");
    const bool hide = context().settings.hide_identity;
    batch.add(metric::nvmet_port_info,
              {id, transport, text_or_empty(dir + "/addr_adrfam"),
               hide ? std::string() : text_or_empty(dir + "/addr_traddr"), text_or_empty(dir + "/addr_trsvcid")},
              1);
    const auto exported = names(dir + "/subsystems");
    std::uint64_t namespaces = 0;
    for (const std::string& nqn : exported)
      if (const auto found = enabled_of.find(nqn); found != enabled_of.end()) namespaces += found->second;
    batch.add(metric::nvmet_port_subsystems, {id, transport}, static_cast<std::uint64_t>(exported.size()));
    batch.add(metric::nvmet_port_namespaces, {id, transport}, namespaces);
    // -1: the transport's default.
    if (const auto size = text(dir + "/param_max_queue_size"))
      if (const auto value = parse_u64(*size)) batch.add(metric::nvmet_port_max_queue_size, {id, transport}, *value);
  }

  // By port. Root alone may look into debugfs: for others the number is not known, which is no failure.
  std::optional<std::map<std::string, std::uint64_t>> count_controllers(const std::vector<std::string>& subsystems) {
    const std::string top = host().debugfs() + "/nvmet";
    if (!list_directory(top)) return std::nullopt;
    std::map<std::string, std::uint64_t> by_port;
    for (const std::string& nqn : subsystems) {
      const auto entries = list_directory(top + "/" + nqn);
      if (!entries) continue;
      for (const std::string& entry : *entries) {
        if (!entry.starts_with("ctrl")) continue;
        const auto port = read_attribute(top + "/" + nqn + "/" + entry + "/port");
        if (port) ++by_port[*port];
      }
    }
    return by_port;
  }

  std::optional<Error> failed_;
};

}  // namespace

std::unique_ptr<Collector> make_nvmet_collector(const CollectorContext& context) {
  return std::make_unique<NvmetCollector>(context);
}

}  // namespace roce

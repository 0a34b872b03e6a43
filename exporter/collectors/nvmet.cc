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
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

class NvmetCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    const CallTracker::Scope scope(host().calls.get(), "configfs_nvmet", "");
    const std::string top = host().configfs() + "/nvmet";
    const auto subsystems = list_directory(top + "/subsystems");
    if (!subsystems) {
      if (subsystems.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(subsystems.error());
    }
    const auto part = std::make_shared<Part>();
    part->read_at = Part::Clock::now();
    Namespaces all;
    std::map<std::string, Namespaces> namespaces;  // by NQN
    for (const std::string& nqn : *subsystems) {
      const std::string dir = top + "/subsystems/" + nqn;
      const Namespaces own = count_namespaces(dir + "/namespaces");
      namespaces.emplace(nqn, own);
      all.add(own);
      if (!context().settings.hide_identity)
        part->samples.add(metric::nvmet_subsystem_info,
                          {nqn, text_or_empty(dir + "/attr_model"), text_or_empty(dir + "/attr_serial")}, 1);
    }
    part->samples.add(metric::nvmet_subsystems, {}, static_cast<std::uint64_t>(subsystems->size()));
    if (all.known) {
      part->samples.add(metric::nvmet_namespaces, {"enabled"}, all.enabled);
      part->samples.add(metric::nvmet_namespaces, {"disabled"}, all.disabled);
    }
    const auto controllers = count_controllers(*subsystems);
    for (const std::string& id : names(top + "/ports").value_or(std::vector<std::string>())) {
      add_port(top + "/ports/" + id, id, namespaces, part->samples);
      if (!controllers) continue;
      const auto found = controllers->find(id);
      part->samples.add(metric::nvmet_controllers, {id},
                        found == controllers->end() ? std::uint64_t{0} : found->second);
    }
    out.parts.push_back(part);
    return failures_.conclude();
  }

 private:
  // Counts that hold one that could not be read are not known.
  struct Namespaces {
    bool known = true;
    std::uint64_t enabled = 0;
    std::uint64_t disabled = 0;
    void add(const Namespaces& other) {
      known = known && other.known;
      enabled += other.enabled;
      disabled += other.disabled;
    }
  };

  // Nothing where the directory cannot be read; one that is not there holds nothing.
  std::optional<std::vector<std::string>> names(const std::string& dir) {
    auto found = list_directory(dir);
    if (!found && found.error().kind == ErrorKind::kAbsent) return std::vector<std::string>();
    return failures_.value(std::move(found));
  }
  std::optional<std::string> text(const std::string& path) { return failures_.value(read_attribute(path)); }
  std::string text_or_empty(const std::string& path) { return text(path).value_or(""); }

  Namespaces count_namespaces(const std::string& dir) {
    Namespaces count;
    const auto ids = names(dir);
    count.known = ids.has_value();
    for (const std::string& id : ids.value_or(std::vector<std::string>())) {
      const auto value = text(dir + "/" + id + "/enable");
      if (value == "1")
        ++count.enabled;
      else if (value == "0")
        ++count.disabled;
      else
        count.known = false;
    }
    return count;
  }

  void add_port(const std::string& dir, const std::string& id, const std::map<std::string, Namespaces>& namespaces,
                SampleBatch& batch) {
    const std::string transport = text_or_empty(dir + "/addr_trtype");
    const bool hide = context().settings.hide_identity;
    batch.add(metric::nvmet_port_info,
              {id, transport, text_or_empty(dir + "/addr_adrfam"),
               hide ? std::string() : text_or_empty(dir + "/addr_traddr"), text_or_empty(dir + "/addr_trsvcid")},
              1);
    if (const auto exported = names(dir + "/subsystems")) {
      Namespaces count;
      for (const std::string& nqn : *exported)
        if (const auto found = namespaces.find(nqn); found != namespaces.end()) count.add(found->second);
      batch.add(metric::nvmet_port_subsystems, {id, transport}, static_cast<std::uint64_t>(exported->size()));
      if (count.known) batch.add(metric::nvmet_port_namespaces, {id, transport}, count.enabled);
    }
    // -1: the transport's default.
    if (const auto size = text(dir + "/param_max_queue_size"))
      if (const auto value = parse_u64(*size)) batch.add(metric::nvmet_port_max_queue_size, {id, transport}, *value);
  }

  // By port. Root alone may look into debugfs: for others the number is not known, which is no failure. A controller
  // whose port cannot be read may be any port's.
  std::optional<std::map<std::string, std::uint64_t>> count_controllers(const std::vector<std::string>& subsystems) {
    const std::string top = host().debugfs() + "/nvmet";
    if (!list_directory(top)) return std::nullopt;
    bool known = true;
    std::map<std::string, std::uint64_t> by_port;
    for (const std::string& nqn : subsystems) {
      const auto entries = names(top + "/" + nqn);
      known = known && entries;
      for (const std::string& entry : entries.value_or(std::vector<std::string>())) {
        if (!entry.starts_with("ctrl")) continue;
        const std::string dir = top + "/" + nqn + "/" + entry;
        if (const auto port = text(dir + "/port"))
          ++by_port[*port];
        else if (exists(dir))  // not one that has gone meanwhile
          known = false;
      }
    }
    if (!known) return std::nullopt;
    return by_port;
  }

  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_nvmet_collector(const CollectorContext& context) {
  return std::make_unique<NvmetCollector>(context);
}

}  // namespace roce

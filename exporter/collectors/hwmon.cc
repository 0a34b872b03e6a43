// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/hwmon.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/pci.h"

namespace roce {
namespace {

constexpr std::size_t kMostSensors = 24;
constexpr std::int64_t kMostMillidegrees = 1'000'000;

class HwmonCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    if (device().path.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "sysfs_hwmon", device().name);
    const auto path = find_pci_path(host(), device().path + "/device", device().pci_address);
    if (!path) {
      if (path.error().kind == ErrorKind::kAbsent) return {};
      return tl::unexpected(path.error());
    }
    // The sensors of a card belong to its physical function.
    if (path->shares_function) return {};
    auto part = std::make_shared<Part>();
    sensors_ = 0;
    const auto dirs = directories(path->hops.front());
    // The number of a hwmon device may differ after a reboot, its place among those of the function does not.
    for (std::size_t i = 0; i < dirs.size(); ++i)
      read_sensors(dirs[i], dirs.size() == 1 ? std::string() : std::to_string(i) + "/", *part);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures_.conclude();
  }

 private:
  // Below the function; or, in a tree that holds the class alone, those that point at it.
  std::vector<std::string> directories(const PciFunction& function) {
    std::vector<std::string> found;
    if (const auto names = list_directory(function.path + "/hwmon"))
      for (const std::string& name : *names) found.push_back(function.path + "/hwmon/" + name);
    else
      failures_.note(names.error());
    if (!found.empty()) return found;
    const std::string class_dir = host().sysfs + "/class/hwmon";
    if (const auto names = list_directory(class_dir))
      for (const std::string& name : *names)
        if (const auto parent = resolve(class_dir + "/" + name + "/device"); parent && *parent == function.path)
          found.push_back(class_dir + "/" + name);
    return found;
  }

  std::optional<double> degrees(const std::string& path) {
    const auto text = read_attribute(path);
    if (!text) {
      failures_.note(text.error());
      return std::nullopt;
    }
    const auto value = parse_i64(*text);
    if (!value || *value > kMostMillidegrees || *value < -kMostMillidegrees) {
      failures_.note(Error{ErrorKind::kMalformed, 0, path});
      return std::nullopt;
    }
    return static_cast<double>(*value) / 1000;
  }

  void read_sensors(const std::string& dir, const std::string& place, Part& part) {
    const auto files = list_directory(dir);
    if (!files) {
      failures_.note(files.error());
      return;
    }
    for (const std::string& file : *files) {
      if (!file.starts_with("temp") || !file.ends_with("_input")) continue;
      if (++sensors_ > kMostSensors) return;
      const std::string sensor = file.substr(0, file.size() - std::string_view("_input").size());
      read_sensor(dir + "/" + sensor, place + sensor, part);
    }
  }

  void read_sensor(const std::string& prefix, const std::string& sensor, Part& part) {
    const std::string& name = device().name;
    if (read_attribute(prefix + "_fault").value_or("0") != "0") return;
    const auto now = degrees(prefix + "_input");
    if (!now) return;
    const std::string label = read_attribute(prefix + "_label").value_or("");
    part.samples.add(metric::temperature, {name, sensor, label}, *now);
    if (const auto highest = degrees(prefix + "_highest"))
      part.samples.add(metric::temperature_highest, {name, sensor, label}, *highest);
    for (const char* limit : {"max", "crit", "emergency"})
      if (const auto value = degrees(prefix + "_" + limit))
        part.samples.add(metric::temperature_limit, {name, sensor, label, limit}, *value);
  }

  std::size_t sensors_ = 0;
  FailureNote failures_;
};

}  // namespace

std::unique_ptr<Collector> make_hwmon_collector(const CollectorContext& context) {
  return std::make_unique<HwmonCollector>(context);
}

}  // namespace roce

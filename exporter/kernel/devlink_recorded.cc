// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/devlink_recorded.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxFileSize = std::size_t{16} << 20;

// "pci/0000:3b:00.0", and "pci/0000:3b:00.0/1" for a port of it.
std::optional<HealthReporter> of_handle(std::string_view handle) {
  HealthReporter reporter;
  const std::size_t slash = handle.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  reporter.device.bus = handle.substr(0, slash);
  handle.remove_prefix(slash + 1);
  const std::size_t port = handle.find('/');
  reporter.device.name = handle.substr(0, port);
  if (port == std::string_view::npos) return reporter;
  const auto number = parse_u64(handle.substr(port + 1));
  if (!number) return std::nullopt;
  reporter.port = static_cast<std::uint32_t>(*number);
  return reporter;
}

std::uint64_t count_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class RecordedDevlink final : public DevlinkSource {
 public:
  explicit RecordedDevlink(Result<std::vector<HealthReporter>> all) : all_(std::move(all)) {}

  Result<std::vector<HealthReporter>> health_reporters(const DevlinkHandle& device) override {
    if (!all_) return tl::unexpected<Error>(all_.error());
    std::vector<HealthReporter> mine;
    for (const HealthReporter& reporter : *all_)
      if (reporter.device == device) mine.push_back(reporter);
    if (mine.empty()) return fail(ErrorKind::kAbsent, "devlink health " + device.name);
    return mine;
  }

 private:
  const Result<std::vector<HealthReporter>> all_;
};

Result<std::vector<HealthReporter>> read_all(const std::string& path) {
  const auto text = read_file(path, kMaxFileSize);
  if (!text) return tl::unexpected<Error>(text.error());
  auto all = parse_devlink_health_json(*text);
  if (!all) all.error().object = path;
  return all;
}

}  // namespace

Result<std::vector<HealthReporter>> parse_devlink_health_json(std::string_view text) {
  const auto refuse = [] { return fail(ErrorKind::kMalformed, "devlink health"); };
  const Json json = Json::parse(text, nullptr, false);
  const auto devices = json.is_object() ? json.find("health") : json.end();
  if (!json.is_object() || devices == json.end() || !devices->is_object()) return refuse();
  std::vector<HealthReporter> all;
  for (const auto& [handle, reporters] : devices->items()) {
    const auto of = of_handle(handle);
    if (!of || !reporters.is_array()) return refuse();
    for (const Json& each : reporters) {
      if (!each.is_object()) return refuse();
      HealthReporter reporter = *of;
      reporter.name = text_at(each, "reporter");
      const std::string state = text_at(each, "state");
      if (reporter.name.empty() || state.empty()) return refuse();
      reporter.in_error = state != "healthy";
      reporter.errors = count_at(each, "error");
      reporter.recoveries = count_at(each, "recover");
      all.push_back(std::move(reporter));
    }
  }
  return all;
}

std::unique_ptr<DevlinkSource> open_devlink_recording(const std::string& dir) {
  auto all = read_all(dir + "/rdma/devlink_health.json");
  if (!all && all.error().kind == ErrorKind::kAbsent) return open_devlink_recording();
  return std::make_unique<RecordedDevlink>(std::move(all));
}

}  // namespace roce

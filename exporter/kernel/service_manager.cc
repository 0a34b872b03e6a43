// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/service_manager.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

// Where configuration lies, the weightiest first.
constexpr std::array<std::string_view, 4> kPlaces = {"/etc", "/run", "/usr/local/lib", "/usr/lib"};
constexpr std::string_view kKey = "DefaultLimitMEMLOCK";

std::optional<Limit> bytes_of(std::string_view text) {
  text = trim(text);
  if (text == "infinity") return Limit();
  std::uint64_t unit = 1;
  if (!text.empty()) {
    constexpr std::string_view kUnits = "KMGTPE";
    std::string_view suffix = text.substr(text.size() - 1);
    if (suffix == "B" && text.size() > 1) {
      text.remove_suffix(1);
      suffix = text.substr(text.size() - 1);
    }
    if (const auto power = kUnits.find(suffix.front()); power != std::string_view::npos) {
      unit = std::uint64_t{1} << (10 * (power + 1));
      text = trim(text.substr(0, text.size() - 1));
    }
  }
  const auto number = parse_u64(text);
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return Limit(*number * unit);
}

void apply(const std::string& path, std::optional<MemlockLimit>& limit) {
  const auto text = read_file(path, std::size_t{1} << 20);
  if (!text) return;
  const SystemdSetting setting = parse_systemd_setting(*text, kKey);
  if (!setting.assigned) return;
  if (setting.value.empty()) {
    limit.reset();
  } else if (const auto parsed = parse_systemd_limit(setting.value)) {
    limit = parsed;
  }
}

}  // namespace

std::optional<MemlockLimit> parse_systemd_limit(std::string_view text) {
  const auto colon = text.find(':');
  const auto soft = bytes_of(text.substr(0, colon));
  if (!soft) return std::nullopt;
  if (colon == std::string_view::npos) return MemlockLimit{*soft, *soft};
  const auto hard = bytes_of(text.substr(colon + 1));
  if (!hard || (*hard && (!*soft || **soft > **hard))) return std::nullopt;
  return MemlockLimit{*soft, *hard};
}

SystemdSetting parse_systemd_setting(std::string_view text, std::string_view key) {
  SystemdSetting setting;
  bool manager = false;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      manager = line == "[Manager]";
      continue;
    }
    const auto equals = line.find('=');
    if (!manager || equals == std::string_view::npos || trim(line.substr(0, equals)) != key) continue;
    setting = {true, std::string(trim(line.substr(equals + 1)))};
  }
  return setting;
}

std::optional<MemlockLimit> read_default_memlock(const std::string& rootfs) {
  const std::string root = rootfs == "/" ? std::string() : rootfs;
  std::optional<MemlockLimit> limit;
  for (const std::string_view place : kPlaces) {
    const std::string file = root + std::string(place) + "/systemd/system.conf";
    if (!exists(file)) continue;
    apply(file, limit);
    break;
  }
  for (const auto& [name, path] : manager_drop_ins(rootfs)) apply(path, limit);
  return limit;
}

std::map<std::string, std::string> manager_drop_ins(const std::string& rootfs) {
  const std::string root = rootfs == "/" ? std::string() : rootfs;
  std::map<std::string, std::string> drop_ins;
  for (const std::string_view place : kPlaces) {
    const std::string dir = root + std::string(place) + "/systemd/system.conf.d";
    const auto names = list_directory(dir);
    if (!names) continue;
    for (const std::string& name : *names)
      if (name.ends_with(".conf")) drop_ins.emplace(name, dir + "/" + name);
  }
  return drop_ins;
}

}  // namespace roce

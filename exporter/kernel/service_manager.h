// SPDX-License-Identifier: Apache-2.0
//
// The limit on locked memory that systemd gives to services which ask for none, from its configuration files. Only
// files are read; the manager is not asked. Thread-safe, no state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/kernel/process.h"

namespace roce {

// "64M", "8M:infinity", "infinity" as systemd writes a limit of bytes: one value for both or soft:hard, suffixes of
// 1024. Nothing for what it would refuse.
std::optional<MemlockLimit> parse_systemd_limit(std::string_view text);

// The last assignment of `key` in the section [Manager] of one file, and whether there was one. An empty value takes
// back what files before it set.
struct SystemdSetting {
  bool assigned = false;
  std::string value;
};
SystemdSetting parse_systemd_setting(std::string_view text, std::string_view key);

// DefaultLimitMEMLOCK of the system manager: system.conf and its drop-ins in the order that systemd gives them. Nothing
// where no file sets it.
std::optional<MemlockLimit> read_default_memlock(const std::string& rootfs);

// Paths of the drop-ins by their names, in whose order they are read; of one name the weightiest alone.
std::map<std::string, std::string> manager_drop_ins(const std::string& rootfs);

}  // namespace roce

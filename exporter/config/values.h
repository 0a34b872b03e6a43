// SPDX-License-Identifier: Apache-2.0
//
// Values that settings of both programs have: what their texts may be. A function that finds a problem changes nothing;
// `out` is set only without one. Thread-safe (no state).
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/log.h"
#include "exporter/config/text.h"

namespace roce::config {

// `true` or `false`.
std::optional<Problem> parse_switch(std::string_view text, bool& out);

// A whole number from low to high; `low_means` says in brackets what the lowest does, unless empty.
std::optional<Problem> set_number(std::string_view text, int low, int high, std::string_view low_means, int& out);
std::optional<Problem> set_number(std::string_view text, std::uint32_t low, std::uint32_t high,
                                  std::string_view low_means, std::uint32_t& out);

// "500ms", "10s", "5m", "1h", also "50us"; with a `zero` word such as "off" that too.
std::optional<Problem> set_duration(std::string_view text, std::chrono::microseconds low,
                                    std::chrono::microseconds high, std::string_view zero,
                                    std::chrono::microseconds& out);
// The shortest such spelling.
std::string duration_text(std::chrono::microseconds duration);

Problem not_one_of(std::string_view text, std::span<const std::string_view> words);

// A folder that can be listed. The default is taken as it is: a host without it still has something to serve. A tree
// made for a test or a recording often holds no procfs; what would come from there is absent then.
std::optional<Problem> set_directory(std::string_view text, std::string_view by_default, std::string& out,
                                     bool may_be_absent = false);
// A file that can be read.
std::optional<Problem> set_file(std::string_view text, bool or_directory, std::string_view allowed, std::string& out);

// A name as DNS has them, or an IPv4 address.
bool is_host_name(std::string_view host);
std::optional<Problem> add_listen_address(std::string_view text, std::vector<std::string>& out);
// `others` are paths that the program serves beside "/" and "/-/...".
std::optional<Problem> set_telemetry_path(std::string_view text, std::initializer_list<std::string_view> others,
                                          std::string& out);

std::optional<Problem> set_log_level(std::string_view text, log::Level& out);
std::optional<Problem> set_log_format(std::string_view text, log::Format& out);
std::string_view name_of(log::Level level);
std::string_view name_of(log::Format format);

}  // namespace roce::config

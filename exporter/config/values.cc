// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/values.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace roce::config {
namespace {

constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 2> kFormats{"logfmt", "json"};

struct Unit {
  std::string_view name;
  std::int64_t microseconds;
};
constexpr std::array<Unit, 5> kUnits{
    {{"us", 1}, {"ms", 1000}, {"s", 1'000'000}, {"m", 60'000'000}, {"h", 3'600'000'000}}};

std::string reason(int err) {
  char buffer[128];
  return strerror_r(err, buffer, sizeof buffer);
}

template <class T>
std::optional<Problem> parse_number(std::string_view text, T low, T high, std::string_view zero_means, T& out) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return Problem{ticked(text),
                   zero_means.empty() ? fmt::format("a whole number from {} to {}", low, high)
                                      : fmt::format("a whole number from {} ({}) to {}", low, zero_means, high),
                   {}};
  }
  out = value;
  return {};
}

// No path holds a NUL byte, but a double-quoted text of the file can.
bool has_nul(const std::string& path) {
  errno = EINVAL;
  return path.find('\0') != std::string::npos;
}

}  // namespace

std::optional<Problem> parse_switch(std::string_view text, bool& out) {
  if (text != "true" && text != "false") return Problem{ticked(text), "true or false", {}};
  out = text == "true";
  return {};
}

std::optional<Problem> set_number(std::string_view text, int low, int high, std::string_view low_means, int& out) {
  return parse_number(text, low, high, low_means, out);
}
std::optional<Problem> set_number(std::string_view text, std::uint32_t low, std::uint32_t high,
                                  std::string_view low_means, std::uint32_t& out) {
  return parse_number(text, low, high, low_means, out);
}

std::optional<Problem> set_duration(std::string_view text, std::chrono::microseconds low,
                                    std::chrono::microseconds high, std::string_view zero,
                                    std::chrono::microseconds& out) {
  if (!zero.empty() && text == zero) {
    out = std::chrono::microseconds(0);
    return {};
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto known = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit; });
  if (error == std::errc() && known != kUnits.end() && number <= 1'000'000'000) {
    const std::chrono::microseconds duration(static_cast<std::int64_t>(number) * known->microseconds);
    if (duration >= low && duration <= high) {
      out = duration;
      return {};
    }
  }
  std::string allowed = fmt::format("a duration from {} to {}", duration_text(low), duration_text(high));
  if (!zero.empty()) allowed += fmt::format(", or {}", zero);
  return Problem{ticked(text), std::move(allowed), {}};
}

std::string duration_text(std::chrono::microseconds duration) {
  const std::int64_t count = duration.count();
  for (auto unit = kUnits.rbegin(); unit != kUnits.rend(); ++unit)
    if (count != 0 && count % unit->microseconds == 0)
      return fmt::format("{}{}", count / unit->microseconds, unit->name);
  return "0s";
}

Problem not_one_of(std::string_view text, std::span<const std::string_view> words) {
  const std::vector<std::string> candidates(words.begin(), words.end());
  return Problem{ticked(text), either(words), nearest(text, candidates)};
}

std::optional<Problem> set_directory(std::string_view text, std::string_view by_default, std::string& out,
                                     bool may_be_absent) {
  if (text != by_default) {
    if (text.empty()) return Problem{"nothing", "an existing directory", {}};
    const std::string path(text);
    const int fd = has_nul(path) ? -1 : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && !(may_be_absent && errno == ENOENT)) {
      return Problem{fmt::format("{} ({})", ticked(text), reason(errno)), "an existing directory that can be read", {}};
    }
    if (fd >= 0) ::close(fd);
  }
  out = text;
  return {};
}

std::optional<Problem> set_file(std::string_view text, bool or_directory, std::string_view allowed, std::string& out) {
  const std::string path(text);
  if (text.empty()) return Problem{"nothing", std::string(allowed), {}};
  struct stat info{};
  if (has_nul(path) || ::stat(path.c_str(), &info) != 0 || ::access(path.c_str(), R_OK) != 0) {
    return Problem{fmt::format("{} ({})", ticked(text), reason(errno)), std::string(allowed), {}};
  }
  if (!S_ISREG(info.st_mode) && !(or_directory && S_ISDIR(info.st_mode))) {
    return Problem{
        ticked(text) + (S_ISDIR(info.st_mode) ? " (a directory)" : " (no regular file)"), std::string(allowed), {}};
  }
  out = path;
  return {};
}

bool is_host_name(std::string_view host) {
  if (host.empty() || host.size() > 253 || host.front() == '-' || host.front() == '.') return false;
  // Only digits and dots is an attempt at an IPv4 address, and inet_pton has refused it.
  if (host.find_first_not_of("0123456789.") == std::string_view::npos) return false;
  return std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

std::optional<Problem> add_listen_address(std::string_view text, std::vector<std::string>& out) {
  Problem problem{ticked(text), "[HOST]:PORT with a port from 0 to 65535, IPv6 hosts in brackets", {}};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.find('\0') != std::string_view::npos) return problem;
  const std::string_view port = text.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) return problem;
  const std::string host(text.substr(0, colon));
  unsigned char address[sizeof(in6_addr)];
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    if (inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), address) != 1) return problem;
  } else if (!host.empty() && inet_pton(AF_INET, host.c_str(), address) != 1 && !is_host_name(host)) {
    return problem;
  }
  if (std::find(out.begin(), out.end(), text) != out.end()) {
    return Problem{ticked(text) + " twice", "each address once", {}};
  }
  out.emplace_back(text);
  return {};
}

std::optional<Problem> set_telemetry_path(std::string_view text, std::initializer_list<std::string_view> others,
                                          std::string& out) {
  const bool path_like =
      text.starts_with('/') && text.size() <= 256 && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-._~/").find(c) != std::string_view::npos;
      });
  const bool walks = text.find("//") != std::string_view::npos || text.find("/.") != std::string_view::npos;
  const bool taken = text == "/" || text == "/-" || std::find(others.begin(), others.end(), text) != others.end() ||
                     text.starts_with("/-/");
  if (!path_like || walks || taken) {
    return Problem{ticked(text) + (taken ? " (taken by another page)" : ""),
                   "a URL path such as /metrics: / and then letters, digits, -._~/",
                   {}};
  }
  out = text;
  return {};
}

std::optional<Problem> set_log_level(std::string_view text, log::Level& out) {
  if (log::parse_level(text, out)) return {};
  return not_one_of(text, kLevels);
}
std::optional<Problem> set_log_format(std::string_view text, log::Format& out) {
  if (log::parse_format(text, out)) return {};
  return not_one_of(text, kFormats);
}
std::string_view name_of(log::Level level) { return kLevels[static_cast<std::size_t>(level)]; }
std::string_view name_of(log::Format format) { return kFormats[static_cast<std::size_t>(format)]; }

}  // namespace roce::config

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nfs_mountstats.h"

#include <algorithm>
#include <array>
#include <utility>

#include "exporter/base/parse.h"

namespace roce {
namespace {

constexpr std::size_t kMaxNumbers = 64;  // of a line; the kernel prints 27 at most

// Numbers up to the end of the line or the first word that is none; `line` becomes what is left from there on.
std::vector<std::uint64_t> take_numbers(std::string_view& line) {
  std::vector<std::uint64_t> numbers;
  while (numbers.size() < kMaxNumbers) {
    std::string_view rest = line;
    const auto number = parse_u64(take_word(rest));
    if (!number) break;
    numbers.push_back(*number);
    line = rest;
  }
  line = trim(line);
  return numbers;
}

// The kernel writes blanks, tabs, line ends and backslashes in names as three octal digits.
std::string unescape(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) && octal(text[i + 3]) &&
        text[i + 1] <= '3') {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "device SOURCE mounted on POINT with fstype TYPE statvers=1.1"; blanks in names are escaped.
std::optional<NfsMount> parse_device_line(std::string_view line) {
  constexpr std::string_view kOn = " mounted on ";
  constexpr std::string_view kWith = " with fstype ";
  if (!line.starts_with("device ")) return std::nullopt;
  line.remove_prefix(7);
  const auto on = line.find(kOn);
  if (on == std::string_view::npos) return std::nullopt;
  const auto with = line.find(kWith, on);
  if (with == std::string_view::npos || with < on + kOn.size()) return std::nullopt;
  NfsMount mount;
  mount.source = unescape(line.substr(0, on));
  mount.mount_point = unescape(line.substr(on + kOn.size(), with - on - kOn.size()));
  std::string_view rest = line.substr(with + kWith.size());
  mount.type = take_word(rest);
  return mount;
}

std::optional<NfsOperation> parse_operation(std::string_view line) {
  line = trim(line);
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view name = line.substr(0, colon);
  if (name.find_first_of(" \t") != std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(colon + 1);
  const auto n = take_numbers(rest);
  if (n.size() < 8) return std::nullopt;
  NfsOperation operation{std::string(name), n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], std::nullopt};
  if (n.size() > 8) operation.errors = n[8];
  return operation;
}

}  // namespace

std::string_view NfsMount::option(std::string_view name) const {
  std::string_view rest = options;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=')
      return part.substr(name.size() + 1);
  }
  return {};
}

std::string_view NfsMount::server() const {
  const std::string_view text = source;
  if (text.starts_with('['))
    if (const auto end = text.find(']'); end != std::string_view::npos) return text.substr(1, end - 1);
  return text.substr(0, text.find(':'));
}

std::string_view NfsMount::exported() const {
  std::string_view text = source;
  if (text.starts_with('['))
    if (const auto end = text.find(']'); end != std::string_view::npos) text.remove_prefix(end);
  const auto colon = text.find(':');
  return colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
}

bool NfsMount::over_rdma() const {
  return std::any_of(transports.begin(), transports.end(),
                     [](const NfsTransport& t) { return t.protocol == "rdma"; }) ||
         (transports.empty() && option("proto").starts_with("rdma"));
}

std::vector<NfsOperation> parse_nfs_operations(std::string_view text) {
  std::vector<NfsOperation> operations;
  while (!text.empty())
    if (auto operation = parse_operation(take_line(text))) operations.push_back(std::move(*operation));
  return operations;
}

bool mounts_nfs_over_rdma(std::string_view text) {
  while (!text.empty()) {
    // SOURCE PLACE TYPE OPTIONS 0 0; blanks within are escaped.
    std::string_view line = take_line(text);
    std::array<std::string_view, 4> words;
    for (std::string_view& word : words) word = take_word(line);
    if (words[2] != "nfs" && words[2] != "nfs4") continue;
    std::string_view options = words[3];
    while (!options.empty()) {
      const auto end = std::min(options.find(','), options.size());
      if (options.substr(0, end).starts_with("proto=rdma")) return true;
      options.remove_prefix(std::min(end + 1, options.size()));
    }
  }
  return false;
}

std::vector<NfsMount> parse_mountstats(std::string_view text) {
  std::vector<NfsMount> mounts;
  bool in_nfs = false;
  bool in_operations = false;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.starts_with("device ") || line.starts_with("no device ")) {
      auto mount = parse_device_line(line);
      in_nfs = mount && (mount->type == "nfs" || mount->type == "nfs4");
      in_operations = false;
      if (in_nfs) mounts.push_back(std::move(*mount));
      continue;
    }
    if (!in_nfs) continue;
    NfsMount& mount = mounts.back();
    std::string_view rest = trim(line);
    if (in_operations) {
      if (auto operation = parse_operation(rest)) mount.operations.push_back(std::move(*operation));
    } else if (rest.starts_with("opts:")) {
      mount.options = trim(rest.substr(5));
    } else if (rest.starts_with("age:")) {
      mount.age = parse_u64(rest.substr(4)).value_or(0);
    } else if (rest.starts_with("xprt:")) {
      rest.remove_prefix(5);
      NfsTransport transport;
      transport.protocol = take_word(rest);
      transport.numbers = take_numbers(rest);
      transport.malformed = !rest.empty();
      if (!transport.protocol.empty()) mount.transports.push_back(std::move(transport));
    } else if (rest.starts_with("per-op statistics")) {
      in_operations = true;
    }
  }
  return mounts;
}

}  // namespace roce

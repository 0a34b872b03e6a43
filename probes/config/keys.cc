// SPDX-License-Identifier: Apache-2.0
//
// The keys file. Its own reader, since its secrets stand in files of their own whose modes are checked.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <exception>

#include "exporter/config/document.h"
#include "exporter/config/values.h"
#include "probes/config/options.h"

namespace roce::probe {
namespace {

using config::Findings;
using config::one_line;
using config::Problem;
using config::shown;
using config::ticked;
using config::YamlNode;

constexpr std::size_t kMostKeys = 2;
constexpr std::size_t kLeastSecret = 16;
constexpr std::size_t kMostSecret = 1024;
constexpr std::string_view kNames = "id, secret_file or not_after";

// A path in the keys file stands beside it unless it begins with a slash.
std::string beside(const std::string& file, const std::string& path) {
  if (path.starts_with('/')) return path;
  return file.substr(0, file.find_last_of('/') + 1) + path;
}

std::string reason(int err) {
  char buffer[128];
  return strerror_r(err, buffer, sizeof buffer);
}

// The bytes of the file without blanks at their end, or what is wrong with it.
tl::expected<std::vector<std::uint8_t>, Problem> read_secret(const std::string& path) {
  constexpr std::string_view kAllowed = "a file of 16 to 1024 bytes that only owner and group can read";
  const auto bad = [&](std::string_view why) {
    return tl::unexpected(Problem{fmt::format("{} ({})", ticked(path), why), std::string(kAllowed), {}});
  };
  if (path.find('\0') != std::string::npos) return bad("a NUL byte");
  // Opened without waiting, should it be a pipe; the mode is that of what was opened.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(reason(errno));
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat info{};
  if (::fstat(fd, &info) != 0) return bad(reason(errno));
  if (!S_ISREG(info.st_mode)) return bad("no regular file");
  if ((info.st_mode & 0007) != 0 || (info.st_mode & S_IWGRP) != 0)
    return bad(fmt::format("mode {:04o}", info.st_mode & 07777));
  std::vector<std::uint8_t> bytes(kMostSecret + 16);
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  if (n < 0) return bad(reason(errno));
  bytes.resize(static_cast<std::size_t>(n));
  while (!bytes.empty() && (bytes.back() == '\n' || bytes.back() == '\r' || bytes.back() == ' ')) bytes.pop_back();
  if (bytes.size() < kLeastSecret || bytes.size() > kMostSecret) return bad(fmt::format("{} bytes", bytes.size()));
  return bytes;
}

struct Row {
  Key key;
  std::string secret_file;
  int secret_line = 1;
  bool has_id = false, has_time = false;
};

void read_row(Findings& findings, const YamlNode& item, Row& row) {
  if (item.kind != YamlNode::Kind::kMapping)
    return findings.add(item.line, "keys", {shown(item), "a mapping with " + std::string(kNames), {}});
  config::walk_mapping(findings, "keys", item, std::string(kNames), [&](const YamlNode& name, const YamlNode& value) {
    const std::string path = "keys." + name.text;
    if (name.text != "id" && name.text != "secret_file" && name.text != "not_after") {
      static const std::vector<std::string> known{"id", "secret_file", "not_after"};
      return findings.add(name.line, path, {"an unknown key", std::string(kNames), config::nearest(name.text, known)});
    }
    if (value.kind != YamlNode::Kind::kScalar)
      return findings.add(value.line, path, {shown(value), "a single value", {}});
    if (name.text == "id") {
      std::uint32_t id = 0;
      if (auto problem = config::set_number(value.text, 0u, 255u, "", id))
        return findings.add(value.line, path, std::move(*problem));
      row.key.id = static_cast<std::uint8_t>(id);
      row.has_id = true;
    } else if (name.text == "secret_file") {
      row.secret_file = value.text;
      row.secret_line = value.line;
    } else {
      const auto time = parse_time(value.text);
      if (!time)
        return findings.add(value.line, path, {ticked(value.text), "a UTC time such as 2027-06-30T00:00:00Z", {}});
      row.key.not_after = *time;
      row.has_time = true;
    }
  });
}

std::vector<Key> read_keys(Findings& findings, const YamlNode& root, const std::string& file, bool read_secrets) {
  std::vector<Key> keys;
  bool found = false;
  config::walk_mapping(findings, "", root, "keys", [&](const YamlNode& name, const YamlNode& list) {
    if (name.text != "keys") return findings.add(name.line, name.text, {"an unknown key", "keys", {}});
    found = true;
    if (list.kind != YamlNode::Kind::kList || list.items.empty())
      return findings.add(list.line, "keys", {shown(list), "a list of one or two keys", {}});
    if (list.items.size() > kMostKeys)
      return findings.add(
          list.items[kMostKeys].line, "keys",
          {fmt::format("{} keys", list.items.size()), "at most two: the one that signs, and the next or last", {}});
    for (const YamlNode& item : list.items) {
      Row row;
      const bool clean = findings.empty();
      read_row(findings, item, row);
      if (clean && !findings.empty()) continue;
      if (!row.has_id || !row.has_time || row.secret_file.empty()) {
        findings.add(item.line, "keys", {"a key that is not complete", "id, secret_file and not_after", {}});
        continue;
      }
      if (std::any_of(keys.begin(), keys.end(), [&](const Key& k) { return k.id == row.key.id; })) {
        findings.add(item.line, "keys.id", {fmt::format("{} again", row.key.id), "each id once", {}});
        continue;
      }
      if (read_secrets) {
        auto secret = read_secret(beside(file, row.secret_file));
        if (!secret) {
          findings.add(row.secret_line, "keys.secret_file", std::move(secret).error());
          continue;
        }
        row.key.secret = std::move(*secret);
      }
      keys.push_back(std::move(row.key));
    }
  });
  if (!found && findings.empty()) findings.add(1, "", {"no keys", "a list `keys`", {}});
  return keys;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text) {
  // YYYY-MM-DD, then nothing or THH:MM:SSZ.
  static constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != 10 && text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t length) {
    int value = 0;
    if (at + length <= text.size()) std::from_chars(text.data() + at, text.data() + at + length, value);
    return value;
  };
  using namespace std::chrono;
  const year_month_day date{year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                            day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const sys_seconds time = sys_days(date) + hours(hour) + minutes(minute) + seconds(second);
  // The clock counts nanoseconds from 1677 to 2262; what is beyond is "always" or "never" all the same.
  if (time >= floor<seconds>(system_clock::time_point::max())) return system_clock::time_point::max();
  if (time <= ceil<seconds>(system_clock::time_point::min())) return system_clock::time_point::min();
  return time;
}

tl::expected<std::vector<Key>, std::string> read_keys_text(std::string_view text, const std::string& file,
                                                           bool read_secrets) {
  const std::string name = one_line(file, 4096);
  try {
    const auto root = config::parse_document(text, "keys: []");
    if (!root) return tl::unexpected(fmt::format("{}:{}", name, root.error()));
    Findings findings;
    auto keys = read_keys(findings, *root, file, read_secrets);
    if (!findings.empty()) return tl::unexpected(fmt::format("{}:{}", name, findings.report()));
    return keys;
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: {}", name, one_line(error.what(), 200)));
  }
}

bool all_expired(const std::vector<Key>& keys) {
  const auto now = std::chrono::system_clock::now();
  return !keys.empty() && std::all_of(keys.begin(), keys.end(), [&](const Key& k) { return k.not_after < now; });
}

tl::expected<std::vector<Key>, std::string> read_keys_file(const std::string& file) {
  const auto text = config::read_yaml_file(file);
  if (!text) return tl::unexpected(fmt::format("{}: {}", one_line(file, 4096), text.error()));
  return read_keys_text(*text, file, true);
}

}  // namespace roce::probe

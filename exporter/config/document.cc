// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/document.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

namespace roce::config {
namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr std::size_t kMaxNamed = 20;  // problems named in one line

// The lines of text in another format that administrators try: "[section]" and "name = value". Empty when it is none.
struct Foreign {
  int line = 0;
  std::string lines;
};
Foreign find_ini(std::string_view text) {
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-\"' ";
  Foreign found;
  int number = 0;
  std::size_t named = 0;
  while (!text.empty() && named < kMaxNamed) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    const bool section = line.size() > 2 && line.front() == '[' && line.back() == ']' &&
                         line.substr(1, line.size() - 2).find_first_not_of(kName) == std::string_view::npos;
    const std::size_t equals = line.find('=');
    const bool pair = equals != std::string_view::npos && equals > 0 &&
                      line.substr(0, equals).find_first_not_of(kName) == std::string_view::npos;
    if (!section && !pair) return {};
    if (found.line == 0) found.line = number;
    found.lines += (named++ == 0 ? "" : ", ") + ticked(line);
  }
  return found;
}

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

std::string glimpse_at(const YamlNode& node, std::size_t depth) {
  constexpr std::size_t kEnough = 120;
  std::string out;
  const auto append = [&](const std::string& part) {
    if (!part.empty() && out.size() < kEnough) out += (out.empty() ? "" : ", ") + part;
  };
  if (node.kind == YamlNode::Kind::kScalar) return one_line(node.text, 40);
  if (depth > 3) return out;
  for (const auto& [key, value] : node.members) append(one_line(key.text, 40) + ": " + glimpse_at(value, depth + 1));
  for (const YamlNode& item : node.items) append(glimpse_at(item, depth + 1));
  return one_line(out, kEnough);
}

}  // namespace

tl::expected<std::string, std::string> read_yaml_file(const std::string& file) {
  const auto failed = [](int err) {
    char buffer[128];
    return tl::unexpected(
        fmt::format("found no way to read it ({}), allowed a YAML file", strerror_r(err, buffer, sizeof buffer)));
  };
  // Opening some devices has effects of its own, so the kind is asked for first. O_NONBLOCK: should the name have
  // become a pipe since, opening must not wait for a writer.
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return failed(errno);
  if (S_ISDIR(info.st_mode)) return tl::unexpected(std::string("found a directory, allowed a YAML file"));
  if (!S_ISREG(info.st_mode)) return tl::unexpected(std::string("found no regular file, allowed a YAML file"));
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed(errno);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > kMaxFile) return tl::unexpected(std::string("found more than 1 MiB, allowed at most that"));
  }
}

tl::expected<YamlNode, std::string> parse_document(std::string_view text, std::string_view example) {
  auto root = parse_yaml(text);
  const bool mapping = root && (root->kind == YamlNode::Kind::kMapping || root->kind == YamlNode::Kind::kNull);
  if (!mapping) {
    if (const Foreign ini = find_ini(text); ini.line > 0) {
      return tl::unexpected(
          fmt::format("{}: found INI or TOML text ({}), allowed YAML such as `{}`", ini.line, ini.lines, example));
    }
  }
  if (!root) return tl::unexpected(fmt::format("{}: {}", root.error().line, root.error().text));
  if (!mapping) {
    return tl::unexpected(fmt::format("{}: found {}, allowed a mapping of settings", root->line, shown(*root)));
  }
  return std::move(*root);
}

void Findings::add(int line, const std::string& key, Problem problem) {
  found_.push_back({line, key.empty() ? "" : fmt::format("key {}: ", ticked(key)), std::move(problem)});
}

std::string Findings::report() const {
  std::string out = fmt::format("{}: {}{}", found_[0].line, found_[0].where, found_[0].problem.text());
  if (found_.size() == 1) return out;
  out += fmt::format("; and {} more: ", found_.size() - 1);
  for (std::size_t i = 1; i < found_.size(); ++i) {
    if (i > 1) out += "; ";
    if (i == kMaxNamed) return out + "...";
    const Found& found = found_[i];
    out += fmt::format("line {}: {}found {}", found.line, found.where, found.problem.found);
    if (!found.problem.meant.empty()) out += fmt::format(" (did you mean `{}`?)", found.problem.meant);
  }
  return out;
}

void walk_mapping(Findings& findings, const std::string& path, const YamlNode& mapping, const std::string& allowed,
                  const std::function<void(const YamlNode& key, const YamlNode& value)>& take) {
  std::map<std::string, int> lines;
  for (const auto& [key, value] : mapping.members) {
    if (key.kind != YamlNode::Kind::kScalar) {
      findings.add(key.line, path, {fmt::format("{} as a key", kind_name(key)), allowed, {}});
      continue;
    }
    if (const auto [first, fresh] = lines.emplace(key.text, key.line); !fresh) {
      findings.add(key.line, path.empty() ? key.text : path + "." + key.text,
                   {fmt::format("it again (first in line {})", first->second), "each key once", {}});
      continue;
    }
    take(key, value);
  }
}

std::string shown(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return std::string(kind_name(node));
  return node.plain ? ticked(node.text) : ticked("\"" + node.text + "\"");
}

std::string glimpse(const YamlNode& node) { return glimpse_at(node, 0); }

}  // namespace roce::config

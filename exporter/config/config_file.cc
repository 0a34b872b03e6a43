// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "exporter/config/options.h"
#include "exporter/config/setting.h"
#include "exporter/config/yaml_tree.h"

namespace roce {
namespace {

using config::Kind;
using config::one_line;
using config::Problem;
using config::Setting;
using config::ticked;
using config::YamlNode;

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr std::size_t kMaxNamed = 20;  // problems named in one line
constexpr std::string_view kCollectorsSection = "collectors";

tl::expected<std::string, std::string> read_file(const std::string& file) {
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

// "found" wording of a value of the wrong type.
std::string shown(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return std::string(kind_name(node));
  return node.plain ? ticked(node.text) : ticked("\"" + node.text + "\"");
}

// A glimpse of what stands under an unknown key, so that the reader recognises it: "name: value, name: value".
std::string glimpse(const YamlNode& node, std::size_t depth = 0) {
  constexpr std::size_t kEnough = 120;
  std::string out;
  const auto append = [&](const std::string& part) {
    if (!part.empty() && out.size() < kEnough) out += (out.empty() ? "" : ", ") + part;
  };
  if (node.kind == YamlNode::Kind::kScalar) return one_line(node.text, 40);
  if (depth > 3) return out;
  for (const auto& [key, value] : node.members) append(one_line(key.text, 40) + ": " + glimpse(value, depth + 1));
  for (const YamlNode& item : node.items) append(glimpse(item, depth + 1));
  return one_line(out, kEnough);
}

class Reader {
 public:
  Reader(const Options& options, const std::vector<std::string>& set_by_flag,
         const std::vector<CollectorChoice>& collectors)
      : result_(options), checked_(options), set_by_flag_(set_by_flag), collectors_(collectors) {
    for (const Setting& setting : config::settings()) {
      if (setting.key.empty()) continue;
      const std::string key(setting.key);
      keys_.push_back(key);
      const std::size_t dot = key.find('.');
      add_name(sections_[""], key.substr(0, dot));
      if (dot != std::string::npos) add_name(sections_[key.substr(0, dot)], key.substr(dot + 1));
    }
    for (const CollectorChoice& collector : collectors) {
      add_name(sections_[std::string(kCollectorsSection)], std::string(collector.name));
      keys_.push_back(fmt::format("{}.{}", kCollectorsSection, collector.name));
    }
  }

  void read(const YamlNode& root) { read_mapping("", root); }

  bool good() const { return problems_.empty(); }
  Options take() { return std::move(result_); }

  // Problems stand in the order of the file, as the walk finds them.
  // "LINE: key `x`: found ..., allowed ...; and 2 more: line 7: key `y`: found ...".
  std::string report() {
    std::string out = fmt::format("{}: {}{}", problems_[0].line, problems_[0].where, problems_[0].problem.text());
    if (problems_.size() == 1) return out;
    out += fmt::format("; and {} more: ", problems_.size() - 1);
    for (std::size_t i = 1; i < problems_.size(); ++i) {
      if (i > 1) out += "; ";
      if (i == kMaxNamed) return out + "...";
      const Found& found = problems_[i];
      out += fmt::format("line {}: {}found {}", found.line, found.where, found.problem.found);
      if (!found.problem.meant.empty()) out += fmt::format(" (did you mean `{}`?)", found.problem.meant);
    }
    return out;
  }

 private:
  struct Found {
    int line;
    std::string where;  // "key `x`: " or empty
    Problem problem;
  };

  static void add_name(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  void add(int line, const std::string& key, Problem problem) {
    problems_.push_back({line, key.empty() ? "" : fmt::format("key {}: ", ticked(key)), std::move(problem)});
  }

  std::string allowed_names(const std::string& section) const {
    const auto& names = sections_.at(section);
    const std::vector<std::string_view> views(names.begin(), names.end());
    return config::either(views);
  }

  void read_mapping(const std::string& section, const YamlNode& mapping) {
    const std::string prefix = section.empty() ? "" : section + ".";
    std::map<std::string, int> lines;
    for (const auto& [key, value] : mapping.members) {
      if (key.kind != YamlNode::Kind::kScalar) {
        add(key.line, section, {fmt::format("{} as a key", kind_name(key)), allowed_names(section), {}});
        continue;
      }
      const std::string name = prefix + key.text;
      if (const auto [first, fresh] = lines.emplace(name, key.line); !fresh) {
        add(key.line, name, {fmt::format("it again (first in line {})", first->second), "each key once", {}});
        continue;
      }
      read_member(section, name, key, value);
    }
  }

  void read_member(const std::string& section, const std::string& name, const YamlNode& key, const YamlNode& value) {
    if (section.empty() && sections_.contains(name) && !name.empty()) {
      // A section whose lines are all commented out is fine.
      if (value.kind == YamlNode::Kind::kMapping) {
        read_mapping(name, value);
      } else if (value.kind != YamlNode::Kind::kNull) {
        add(value.line, name, {shown(value), "a mapping with " + allowed_names(name), {}});
      }
      return;
    }
    for (const Setting& setting : config::settings()) {
      // A name with a dot in it is no path: "web.max_requests: 1" at the top is a mistake.
      if (setting.key == name && key.text.find('.') == std::string::npos) return read_setting(setting, name, value);
    }
    if (section == kCollectorsSection) {
      for (const CollectorChoice& collector : collectors_) {
        if (key.text == collector.name) return read_collector(collector, name, value);
      }
    }
    std::string what = "an unknown key";
    if (const std::string inside = glimpse(value); !inside.empty()) what += fmt::format(" (with `{}`)", inside);
    std::string meant = config::nearest(key.text, sections_.at(section));
    if (meant.empty()) meant = nested(config::nearest(name, keys_));
    if (meant.empty()) meant = nested(config::nearest(key.text, keys_));
    if (meant.empty()) meant = nested(flag_as_key(key.text));
    add(key.line, name, {std::move(what), allowed_names(section), std::move(meant)});
  }

  // "web: {max_requests: ...}" for web.max_requests: what to write instead of a key in the wrong place.
  static std::string nested(const std::string& key) {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? key : fmt::format("{}: {{{}: ...}}", key.substr(0, dot), key.substr(dot + 1));
  }

  // The key for a name spelled as the flag: "collector.rdma.device-include".
  static std::string flag_as_key(std::string_view text) {
    for (const Setting& setting : config::settings()) {
      if (setting.flag == text && !setting.key.empty()) return std::string(setting.key);
    }
    return {};
  }

  bool decided_by_flag(const std::string& flag) const {
    return std::find(set_by_flag_.begin(), set_by_flag_.end(), flag) != set_by_flag_.end();
  }

  // Sets a value everywhere it counts: always in the copy that only serves to check.
  std::optional<Problem> set(const Setting& setting, const std::string& text) {
    if (auto problem = setting.set(checked_, text)) return problem;
    if (!decided_by_flag(std::string(setting.flag))) return setting.set(result_, text);
    return {};
  }

  void read_setting(const Setting& setting, const std::string& name, const YamlNode& value) {
    if (setting.kind == Kind::kList) return read_list(setting, name, value);
    const std::string_view allowed = setting.kind == Kind::kSwitch   ? "true or false"
                                     : setting.kind == Kind::kNumber ? "a whole number"
                                                                     : "text";
    const bool typed = setting.kind != Kind::kText;
    if (value.kind != YamlNode::Kind::kScalar || (typed && !value.plain)) {
      return add(value.line, name, {shown(value), std::string(allowed), {}});
    }
    if (auto problem = set(setting, value.text)) add(value.line, name, std::move(*problem));
  }

  void read_list(const Setting& setting, const std::string& name, const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kList || value.items.empty()) {
      const std::string what = value.kind == YamlNode::Kind::kList ? "an empty list" : shown(value);
      return add(value.line, name, {what, fmt::format("a list of {}", setting.value), {}});
    }
    setting.clear(checked_);
    if (!decided_by_flag(std::string(setting.flag))) setting.clear(result_);
    for (const YamlNode& item : value.items) {
      if (item.kind != YamlNode::Kind::kScalar) {
        add(item.line, name, {shown(item), std::string(setting.value), {}});
      } else if (auto problem = set(setting, item.text)) {
        add(item.line, name, std::move(*problem));
      }
    }
  }

  void read_collector(const CollectorChoice& collector, const std::string& name, const YamlNode& value) {
    bool on = false;
    if (value.kind != YamlNode::Kind::kScalar || !value.plain) {
      return add(value.line, name, {shown(value), "true or false", {}});
    }
    if (auto problem = config::parse_switch(value.text, on)) return add(value.line, name, std::move(*problem));
    if (!decided_by_flag(fmt::format("collector.{}", collector.name))) {
      result_.collectors[std::string(collector.name)] = on;
    }
  }

  Options result_;
  Options checked_;
  const std::vector<std::string>& set_by_flag_;
  const std::vector<CollectorChoice>& collectors_;
  std::map<std::string, std::vector<std::string>> sections_;  // "" holds the top level
  std::vector<std::string> keys_;                             // with their sections
  std::vector<Found> problems_;
};

tl::expected<Options, std::string> read_text(std::string_view text, const Options& options,
                                             const std::vector<std::string>& set_by_flag,
                                             const std::vector<CollectorChoice>& collectors) {
  const auto root = config::parse_yaml(text);
  const bool mapping = root && (root->kind == YamlNode::Kind::kMapping || root->kind == YamlNode::Kind::kNull);
  if (!mapping) {
    if (const Foreign ini = find_ini(text); ini.line > 0) {
      return tl::unexpected(fmt::format("{}: found INI or TOML text ({}), allowed YAML such as `log: {{level: info}}`",
                                        ini.line, ini.lines));
    }
  }
  if (!root) return tl::unexpected(fmt::format("{}: {}", root.error().line, root.error().text));
  if (!mapping) {
    return tl::unexpected(fmt::format("{}: found {}, allowed a mapping of settings", root->line, shown(*root)));
  }
  Reader reader(options, set_by_flag, collectors);
  reader.read(*root);
  if (!reader.good()) return tl::unexpected(reader.report());
  return reader.take();
}

}  // namespace

tl::expected<Options, std::string> apply_config_text(std::string_view text, const std::string& file,
                                                     const Options& options,
                                                     const std::vector<std::string>& set_by_flag,
                                                     const std::vector<CollectorChoice>& collectors) {
  const std::string name = one_line(file, 4096);
  try {
    auto result = read_text(text, options, set_by_flag, collectors);
    if (!result) return tl::unexpected(fmt::format("{}:{}", name, result.error()));
    return result;
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: {}", name, one_line(error.what(), 200)));
  }
}

tl::expected<Options, std::string> apply_config_file(const std::string& file, const Options& options,
                                                     const std::vector<std::string>& set_by_flag,
                                                     const std::vector<CollectorChoice>& collectors) {
  const auto text = read_file(file);
  if (!text) return tl::unexpected(fmt::format("{}: {}", one_line(file, 4096), text.error()));
  return apply_config_text(*text, file, options, set_by_flag, collectors);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "exporter/config/document.h"
#include "exporter/config/foreign_file.h"
#include "exporter/config/options.h"
#include "exporter/config/setting.h"
#include "exporter/config/yaml_tree.h"

namespace roce {
namespace {

using config::glimpse;
using config::Kind;
using config::one_line;
using config::Problem;
using config::Setting;
using config::shown;
using config::ticked;
using config::YamlNode;

constexpr std::string_view kCollectorsSection = "collectors";

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

  bool good() const { return findings_.empty() && foreign_.empty(); }
  Options take() { return std::move(result_); }

  std::string report() const { return foreign_.empty() ? findings_.report() : foreign_.report(); }

 private:
  static void add_name(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  void add(int line, const std::string& key, Problem problem) { findings_.add(line, key, std::move(problem)); }

  std::string allowed_names(const std::string& section) const {
    const auto& names = sections_.at(section);
    const std::vector<std::string_view> views(names.begin(), names.end());
    return config::either(views);
  }

  void read_mapping(const std::string& section, const YamlNode& mapping) {
    const std::string prefix = section.empty() ? "" : section + ".";
    config::walk_mapping(
        findings_, section, mapping, allowed_names(section),
        [&](const YamlNode& key, const YamlNode& value) { read_member(section, prefix + key.text, key, value); });
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
    // One key at the top may tell that the whole file is another's; what else it has says nothing then.
    if (section.empty() && foreign_.empty())
      if (auto other = config::foreign_file(key.text)) foreign_.add(key.line, name, std::move(*other));
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
  config::Findings findings_;
  config::Findings foreign_;  // at most one: the file is another's
};

tl::expected<Options, std::string> read_text(std::string_view text, const Options& options,
                                             const std::vector<std::string>& set_by_flag,
                                             const std::vector<CollectorChoice>& collectors) {
  const auto root = config::parse_document(text, "log: {level: info}");
  if (!root) return tl::unexpected(root.error());
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
  const auto text = config::read_yaml_file(file);
  if (!text) return tl::unexpected(fmt::format("{}: {}", one_line(file, 4096), text.error()));
  return apply_config_text(*text, file, options, set_by_flag, collectors);
}

}  // namespace roce

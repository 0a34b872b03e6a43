// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <exception>
#include <map>
#include <utility>

#include "exporter/config/document.h"
#include "exporter/config/foreign_file.h"
#include "exporter/config/values.h"
#include "probes/config/options.h"
#include "probes/config/setting.h"

namespace roce::probe {
namespace {

using config::Kind;
using config::one_line;
using config::Problem;
using config::shown;
using config::ticked;
using config::YamlNode;
using Outcome = std::optional<Problem>;

// A key of a mapping that is no row of the table: its value, and what to do with it.
struct Field {
  std::string_view name;
  bool typed;  // no quotes: a number, a switch
  std::function<Outcome(std::string_view)> set;
};

Outcome label_into(std::string_view text, std::string& out) {
  const bool good = !text.empty() && text.size() <= 128 &&
                    std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x21; });
  if (!good) return Problem{ticked(text), "a name without blanks", {}};
  out = text;
  return {};
}

class Reader {
 public:
  explicit Reader(const Options& options) : result_(options), checked_(options) {
    for (const Setting& setting : settings()) {
      if (setting.key.empty()) continue;
      add_key(std::string(setting.key));
    }
    for (const char* key : {"classes", "rails", "modules", "peers.static", "peers.dns"}) add_key(key);
  }

  void read(const YamlNode& root) { read_section("", root); }
  const config::Findings& findings() const { return findings_; }
  Options take() { return std::move(result_); }

 private:
  void add_key(const std::string& key) {
    keys_.push_back(key);
    const std::size_t dot = key.find('.');
    add_name(sections_[""], key.substr(0, dot));
    if (dot != std::string::npos) add_name(sections_[key.substr(0, dot)], key.substr(dot + 1));
  }
  static void add_name(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  static std::string names_text(const std::vector<std::string>& names) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    return config::either(views);
  }

  void read_section(const std::string& section, const YamlNode& mapping) {
    const auto& names = sections_.at(section);
    config::walk_mapping(findings_, section, mapping, names_text(names),
                         [&](const YamlNode& key, const YamlNode& value) {
                           read_member(section, section.empty() ? key.text : section + "." + key.text, key, value);
                         });
  }

  void read_member(const std::string& section, const std::string& name, const YamlNode& key, const YamlNode& value) {
    const bool dotted = key.text.find('.') != std::string::npos;
    if (section.empty() && !name.empty() && sections_.contains(name)) {
      if (value.kind == YamlNode::Kind::kMapping) {
        read_section(name, value);
      } else if (value.kind != YamlNode::Kind::kNull) {
        findings_.add(value.line, name, {shown(value), "a mapping with " + names_text(sections_.at(name)), {}});
      }
      return;
    }
    if (!dotted) {
      for (const Setting& setting : settings())
        if (setting.key == name) return read_setting(setting, name, value);
      if (name == "classes") return read_classes(value);
      if (name == "rails") return read_rails(value);
      if (name == "modules") return read_modules(value);
      if (name == "peers.static") return read_static(value);
      if (name == "peers.dns") return read_dns(value);
    }
    unknown(name, key, value, sections_.at(section));
  }

  void unknown(const std::string& name, const YamlNode& key, const YamlNode& value,
               const std::vector<std::string>& names) {
    // Its own keys are no other's: of those that foreign_file() knows only a keys file comes here.
    if (&names == &sections_.at(""))
      if (auto other = config::foreign_file(key.text)) return findings_.add(key.line, name, std::move(*other));
    std::string what = "an unknown key";
    if (const std::string inside = config::glimpse(value); !inside.empty()) what += fmt::format(" (with `{}`)", inside);
    std::string meant = config::nearest(key.text, names);
    if (meant.empty()) {
      meant = config::nearest(name, keys_);
      if (meant.empty()) meant = config::nearest(key.text, keys_);
      if (const std::size_t dot = meant.find('.'); dot != std::string::npos)
        meant = fmt::format("{}: {{{}: ...}}", meant.substr(0, dot), meant.substr(dot + 1));
    }
    findings_.add(key.line, name, {std::move(what), names_text(names), std::move(meant)});
  }

  // Sets a value everywhere it counts: always in the copy that only serves to check.
  Outcome set(const Setting& setting, const std::string& text) {
    if (auto problem = setting.set(checked_, text)) return problem;
    return decided_by_flag(setting) ? Outcome() : setting.set(result_, text);
  }
  bool decided_by_flag(const Setting& setting) const {
    const auto& given = result_.set_by_flag;
    return !setting.flag.empty() && std::find(given.begin(), given.end(), setting.flag) != given.end();
  }

  void read_setting(const Setting& setting, const std::string& name, const YamlNode& value) {
    if (setting.kind == Kind::kList) return read_list(setting, name, value);
    const bool typed = setting.kind != Kind::kText;
    if (value.kind != YamlNode::Kind::kScalar || (typed && !value.plain)) {
      const std::string_view allowed = setting.kind == Kind::kSwitch   ? "true or false"
                                       : setting.kind == Kind::kNumber ? "a number"
                                                                       : "text";
      findings_.add(value.line, name, {shown(value), std::string(allowed), {}});
    } else if (auto problem = set(setting, value.text)) {
      findings_.add(value.line, name, std::move(*problem));
    }
  }

  void read_list(const Setting& setting, const std::string& name, const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kList || value.items.empty()) {
      const std::string what = value.kind == YamlNode::Kind::kList ? "an empty list" : shown(value);
      return findings_.add(value.line, name, {what, fmt::format("a list of {}", setting.value), {}});
    }
    setting.clear(checked_);
    if (!decided_by_flag(setting)) setting.clear(result_);
    for (const YamlNode& item : value.items) {
      if (item.kind != YamlNode::Kind::kScalar)
        findings_.add(item.line, name, {shown(item), std::string(setting.value), {}});
      else if (auto problem = set(setting, item.text))
        findings_.add(item.line, name, std::move(*problem));
    }
  }

  // A mapping of single values by these keys; returns whether all was well.
  bool read_record(const std::string& path, const YamlNode& node, const std::vector<Field>& keys) {
    std::vector<std::string> names;
    for (const Field& key : keys) names.emplace_back(key.name);
    if (node.kind != YamlNode::Kind::kMapping) {
      findings_.add(node.line, path, {shown(node), "a mapping with " + names_text(names), {}});
      return false;
    }
    bool good = true;
    config::walk_mapping(findings_, path, node, names_text(names), [&](const YamlNode& name, const YamlNode& value) {
      const std::string whole = path + "." + name.text;
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const Field& k) { return k.name == name.text; });
      if (key == keys.end()) {
        good = false;
        return unknown(whole, name, value, names);
      }
      if (value.kind != YamlNode::Kind::kScalar || (key->typed && !value.plain)) {
        good = false;
        return findings_.add(value.line, whole, {shown(value), key->typed ? "a number" : "text", {}});
      }
      if (auto problem = key->set(value.text)) {
        good = false;
        findings_.add(value.line, whole, std::move(*problem));
      }
    });
    return good;
  }

  // Calls `each` for the items of a list of at most `most`.
  template <class F>
  void read_items(const std::string& path, const YamlNode& value, std::size_t most, std::string_view what, F each) {
    if (value.kind == YamlNode::Kind::kNull) return;
    if (value.kind != YamlNode::Kind::kList)
      return findings_.add(value.line, path, {shown(value), fmt::format("a list of {}", what), {}});
    if (value.items.size() > most)
      return findings_.add(value.line, path,
                           {fmt::format("{} {}", value.items.size(), what), fmt::format("at most {}", most), {}});
    for (const YamlNode& item : value.items) each(item);
  }

  void read_classes(const YamlNode& value) {
    std::vector<QosClass> classes;
    read_items("classes", value, kMostClasses, "classes", [&](const YamlNode& item) {
      QosClass fresh;
      const auto byte = [](std::string_view text, std::uint32_t high, std::uint8_t& out) -> Outcome {
        std::uint32_t number = 0;
        if (auto problem = config::set_number(text, 0u, high, "", number)) return problem;
        out = static_cast<std::uint8_t>(number);
        return {};
      };
      if (!read_record("classes", item,
                       {{"name", false, [&](std::string_view t) { return label_into(t, fresh.name); }},
                        {"dscp", true, [&](std::string_view t) { return byte(t, 63, fresh.dscp); }},
                        {"sl", true, [&](std::string_view t) { return byte(t, 15, fresh.sl); }}}))
        return;
      if (fresh.name.empty())
        return findings_.add(item.line, "classes", {"a class without a name", "name, dscp, sl", {}});
      if (std::any_of(classes.begin(), classes.end(), [&](const QosClass& c) { return c.name == fresh.name; }))
        return findings_.add(item.line, "classes", {ticked(fresh.name) + " twice", "each name once", {}});
      classes.push_back(std::move(fresh));
    });
    if (!classes.empty()) result_.engine.classes = std::move(classes);
  }

  void read_rails(const YamlNode& value) {
    if (value.kind == YamlNode::Kind::kNull) return;
    if (value.kind != YamlNode::Kind::kMapping)
      return findings_.add(value.line, "rails", {shown(value), "a mapping of RDMA devices to names of rails", {}});
    result_.rails.clear();
    config::walk_mapping(findings_, "rails", value, "RDMA devices", [&](const YamlNode& key, const YamlNode& rail) {
      std::string name;
      if (rail.kind != YamlNode::Kind::kScalar)
        return findings_.add(rail.line, "rails." + key.text, {shown(rail), "the name of a rail", {}});
      if (auto problem = label_into(rail.text, name))
        return findings_.add(rail.line, "rails." + key.text, std::move(*problem));
      result_.rails[key.text] = std::move(name);
    });
  }

  void read_modules(const YamlNode& value) {
    if (value.kind == YamlNode::Kind::kNull) return;
    if (value.kind != YamlNode::Kind::kMapping)
      return findings_.add(value.line, "modules", {shown(value), "a mapping of names to modules", {}});
    if (value.members.size() > 32)
      return findings_.add(value.line, "modules", {fmt::format("{} modules", value.members.size()), "at most 32", {}});
    config::walk_mapping(
        findings_, "modules", value, "names of modules", [&](const YamlNode& key, const YamlNode& node) {
          Module module;
          module.name = key.text;
          module.burst.count = 10;
          BurstSpec& burst = module.burst;
          if (read_record(
                  "modules." + key.text, node,
                  {{"kind", false, [&](std::string_view t) { return set_kind(t, burst.kind); }},
                   {"count", true,
                    [&](std::string_view t) { return config::set_number(t, 1u, kMostBurst, "", burst.count); }},
                   {"gap", false, [&](std::string_view t) { return set_milliseconds(t, 1, 1000, "", burst.gap); }},
                   {"deadline", false,
                    [&](std::string_view t) { return set_milliseconds(t, 1, 5000, "", burst.deadline); }},
                   {"qos", false, [&](std::string_view t) { return label_into(t, burst.qos); }},
                   {"size", true,
                    [&](std::string_view t) { return config::set_number(t, 8u, kLargestProbe, "", burst.size); }}})) {
            modules_[key.text] = key.line;
            result_.modules[module.name] = std::move(module);
          }
        });
  }

  void read_static(const YamlNode& value) {
    read_items("peers.static", value, kMostEntries, "peers", [&](const YamlNode& item) {
      PeerEntry entry;
      std::string target;
      if (item.kind == YamlNode::Kind::kScalar) {
        target = item.text;
      } else if (!read_record("peers.static", item,
                              {{"node", false, [&](std::string_view t) { return label_into(t, entry.node); }},
                               {"target", false, [&](std::string_view t) { return label_into(t, target); }},
                               {"device", false, [&](std::string_view t) { return label_into(t, entry.device); }},
                               {"rail", false, [&](std::string_view t) { return label_into(t, entry.rail); }},
                               {"address", false, [&](std::string_view t) {
                                  std::string address;
                                  if (auto problem = label_into(t, address)) return Outcome(std::move(problem));
                                  entry.addresses.push_back(std::move(address));
                                  return Outcome();
                                }}})) {
        return;
      }
      if (target.empty()) target = entry.node;
      if (target.empty())
        return findings_.add(item.line, "peers.static", {"a peer without node and target", "one of the two", {}});
      waiting_.push_back({item.line, std::move(target), std::move(entry)});
    });
  }

  void read_dns(const YamlNode& value) {
    std::vector<DnsSource> sources;
    read_items("peers.dns", value, 16, "names", [&](const YamlNode& item) {
      DnsSource source;
      source.port = 0;
      bool named = false;
      if (!read_record(
              "peers.dns", item,
              {{"name", false,
                [&](std::string_view t) {
                  const bool good = !t.empty() && t.size() <= 253 && std::all_of(t.begin(), t.end(), [](char c) {
                    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '.' || c == '_';
                  });
                  if (!good) return Outcome(Problem{ticked(t), "a DNS name", {}});
                  source.name = t;
                  named = true;
                  return Outcome();
                }},
               {"type", false,
                [&](std::string_view t) {
                  static constexpr std::array<std::string_view, 2> kTypes{"SRV", "A"};
                  if (t != "SRV" && t != "A") return Outcome(config::not_one_of(t, kTypes));
                  source.type = t == "A" ? DnsSource::Type::kA : DnsSource::Type::kSrv;
                  return Outcome();
                }},
               {"port", true,
                [&](std::string_view t) {
                  std::uint32_t port = 0;
                  if (auto problem = config::set_number(t, 1u, 65535u, "", port)) return Outcome(problem);
                  source.port = static_cast<std::uint16_t>(port);
                  return Outcome();
                }},
               {"refresh", false, [&](std::string_view t) {
                  return config::set_duration(t, std::chrono::seconds(5), std::chrono::hours(1), "", source.refresh);
                }}}))
        return;
      if (!named)
        return findings_.add(item.line, "peers.dns", {"an item without a name", "name, type, port, refresh", {}});
      if (source.type == DnsSource::Type::kSrv && source.port != 0)
        return findings_.add(item.line, "peers.dns",
                             {"a port beside type SRV, which has its own", "a port with type A", {}});
      sources.push_back(std::move(source));
    });
    if (value.kind == YamlNode::Kind::kList) result_.dns = std::move(sources);
  }

 public:
  // What can be checked only when the whole file is known.
  void finish() {
    std::map<std::string, int> seen;
    std::vector<PeerEntry> entries;
    for (auto& [line, text, entry] : waiting_) {
      const auto target = parse_target(text, result_.exchange.port);
      if (!target) {
        findings_.add(line, "peers.static", {ticked(text), "HOST or HOST:PORT", {}});
        continue;
      }
      if (entry.node.empty()) entry.node = target->host;
      entry.url = target->url();
      const std::string identity = entry.node + "/" + entry.device + "/" + entry.rail;
      if (const auto [first, fresh] = seen.emplace(identity, line); !fresh) {
        findings_.add(line, "peers.static",
                      {fmt::format("{} again (first in line {})", ticked(entry.node), first->second),
                       "each node once for each of its devices or rails",
                       {}});
        continue;
      }
      entries.push_back(std::move(entry));
    }
    if (!waiting_.empty()) result_.static_peers = std::move(entries);
    for (DnsSource& source : result_.dns)
      if (source.port == 0) source.port = result_.exchange.port;
    for (const auto& [name, line] : modules_) {
      const BurstSpec& burst = result_.modules.at(name).burst;
      if (auto problem = wrong_size(burst.kind, burst.size))
        findings_.add(line, "modules." + name + ".size", std::move(*problem));
      const std::string& qos = burst.qos;
      const auto& classes = result_.engine.classes;
      if (qos.empty() || std::any_of(classes.begin(), classes.end(), [&](const QosClass& c) { return c.name == qos; }))
        continue;
      std::vector<std::string> names;
      for (const QosClass& c : classes) names.push_back(c.name);
      findings_.add(line, "modules." + name + ".qos",
                    {ticked(qos), "the name of a class: " + names_text(names), config::nearest(qos, names)});
    }
    const auto& exchange = result_.exchange;
    if (exchange.cert_file.empty() != exchange.key_file.empty())
      findings_.add(1, "exchange", {"one of cert_file and key_file", "both or none", {}});
    if (exchange.listen_addresses.empty() != exchange.web_config_file.empty())
      findings_.add(1, "exchange", {"one of listen_addresses and web_config_file", "both or none", {}});
    if (result_.engine.deadline > std::chrono::milliseconds(5000) ||
        result_.engine.deadline.count() > 8 * result_.engine.interval.count())
      findings_.add(1, "probes.deadline",
                    {config::duration_text(result_.engine.deadline), "at most eight times probes.interval", {}});
  }

 private:
  struct Waiting {
    int line;
    std::string target;
    PeerEntry entry;
  };

  Options result_;
  Options checked_;
  std::map<std::string, std::vector<std::string>> sections_;  // "" holds the top level
  std::vector<std::string> keys_;
  std::vector<Waiting> waiting_;
  std::map<std::string, int> modules_;  // of this file, with their lines
  config::Findings findings_;
};

}  // namespace

Options::Options() {
  engine.classes = {{"storage", 26, 3}, {"best_effort", 0, 0}};
  Module echo;
  echo.name = "echo";
  modules["echo"] = echo;
  Module read;
  read.name = "read";
  read.burst.kind = BurstSpec::Kind::kRead;
  read.burst.size = 8;
  modules["read"] = read;
  graph.seed = "roce";
}

bool Options::responds() const {
  if (responder != Responder::kAuto) return responder == Responder::kOn;
  return !keys.empty() && (has_peers() || !engine.allowed.empty());
}

tl::expected<Options, std::string> apply_config_text(std::string_view text, const std::string& file,
                                                     const Options& options) {
  const std::string name = one_line(file, 4096);
  try {
    const auto root = config::parse_document(text, "log: {level: info}");
    if (!root) return tl::unexpected(fmt::format("{}:{}", name, root.error()));
    Reader reader(options);
    reader.read(*root);
    reader.finish();
    if (!reader.findings().empty()) return tl::unexpected(fmt::format("{}:{}", name, reader.findings().report()));
    return reader.take();
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: {}", name, one_line(error.what(), 200)));
  }
}

tl::expected<Options, std::string> apply_config_file(const std::string& file, const Options& options) {
  const auto text = config::read_yaml_file(file);
  if (!text) return tl::unexpected(fmt::format("{}: {}", one_line(file, 4096), text.error()));
  return apply_config_text(*text, file, options);
}

std::optional<EngineSettings::Prefix> parse_prefix(std::string_view text) {
  EngineSettings::Prefix prefix;
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  auto& raw = prefix.gid.raw;
  unsigned offset = 0;
  if (inet_pton(AF_INET, address.c_str(), raw.data() + 12) == 1) {
    raw[10] = raw[11] = 0xFF;
    offset = 96;
  } else if (inet_pton(AF_INET6, address.c_str(), raw.data()) != 1) {
    return std::nullopt;
  }
  unsigned bits = 128 - offset;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error != std::errc() || end != digits.data() + digits.size() || bits > 128 - offset) return std::nullopt;
  }
  prefix.bits = static_cast<std::uint8_t>(bits + offset);
  for (unsigned bit = prefix.bits; bit < 128; ++bit)
    raw[bit / 8] = static_cast<std::uint8_t>(raw[bit / 8] & ~(0x80U >> (bit % 8)));
  return prefix;
}

}  // namespace roce::probe

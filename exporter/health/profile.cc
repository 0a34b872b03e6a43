// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/profile.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>

#include "exporter/config/foreign_file.h"
#include "exporter/config/text.h"
#include "exporter/config/yaml_tree.h"
#include "exporter/health/check.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using config::one_line;
using config::Problem;
using config::ticked;
using config::YamlMember;
using config::YamlNode;
using Kind = YamlNode::Kind;
using Outcome = std::optional<Problem>;

constexpr std::size_t kMaxFile = std::size_t{1} << 20U;
constexpr std::size_t kMaxNamed = 20;  // problems named in one line
constexpr std::array<std::string_view, 3> kRoles{"storage", "compute", "management"};
constexpr std::array<std::string_view, 7> kTop{"profile", "devices", "roles", "host", "nvme", "waivers", "classes"};
constexpr std::string_view kDateForm = "a day as YYYY-MM-DD";

std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return ticked(node.text);
    case Kind::kList:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "2MiB", "1GiB", "64KiB" or bytes.
std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t unit = 1;
  for (const auto& [suffix, factor] : {std::pair<std::string_view, std::uint64_t>{"KiB", std::uint64_t{1} << 10U},
                                       {"MiB", std::uint64_t{1} << 20U},
                                       {"GiB", std::uint64_t{1} << 30U},
                                       {"TiB", std::uint64_t{1} << 40U}}) {
    if (!text.ends_with(suffix)) continue;
    text.remove_suffix(suffix.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    unit = factor;
    break;
  }
  const auto value = number<std::uint64_t>(text);
  if (!value || *value == 0 || *value > std::numeric_limits<std::uint64_t>::max() / unit) return std::nullopt;
  return *value * unit;
}

std::optional<std::chrono::year_month_day> parse_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = number<int>(text.substr(0, 4));
  const auto month = number<unsigned>(text.substr(5, 2));
  const auto day = number<unsigned>(text.substr(8, 2));
  if (!year || *year < 2000 || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  return date;
}

bool is_pci_address(std::string_view text) {
  constexpr std::string_view kForm = "hhhh:hh:hh.o";
  if (text.size() != kForm.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (kForm[i] == 'h' ? !hex : kForm[i] == 'o' ? !(c >= '0' && c <= '7') : c != kForm[i]) return false;
  }
  return true;
}

// What one key takes: sets the value or says what is wrong with it. Keys with something below report by themselves.
struct Key {
  std::string_view name;
  std::function<void(const YamlNode&, const std::string& path)> read;
};

class Reader {
 public:
  void read(const YamlNode& root, Profile& out) {
    read_mapping(root, "", overlay_keys(out, true));
    if (problems_.empty()) check_devices(out, "");
  }
  bool good() const { return problems_.empty(); }

  std::string report() const {
    std::string out = fmt::format("{}: {}{}", problems_[0].line, problems_[0].where, problems_[0].problem.text());
    if (problems_.size() == 1) return out;
    out += fmt::format("; and {} more: ", problems_.size() - 1);
    for (std::size_t i = 1; i < problems_.size(); ++i) {
      if (i > 1) out += "; ";
      if (i == kMaxNamed) return out + "...";
      out += fmt::format("line {}: {}found {}", problems_[i].line, problems_[i].where, problems_[i].problem.found);
      if (!problems_[i].problem.meant.empty()) out += fmt::format(" (did you mean `{}`?)", problems_[i].problem.meant);
    }
    return out;
  }

 private:
  struct Found {
    int line;
    std::string where;
    Problem problem;
  };

  void add(int line, const std::string& path, Problem problem) {
    problems_.push_back({line, path.empty() ? "" : fmt::format("key {}: ", ticked(path)), std::move(problem)});
  }

  static std::string below(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
  }

  // Walks a mapping with exactly these keys.
  void read_mapping(const YamlNode& node, const std::string& path, const std::vector<Key>& keys) {
    std::vector<std::string> names;
    for (const Key& key : keys) names.emplace_back(key.name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    if (node.kind != Kind::kMapping)
      return add(node.line, path, {shown(node), "a mapping with " + config::either(views), {}});
    std::map<std::string, int> lines;
    for (const auto& [key, value] : node.members) {
      if (key.kind != Kind::kScalar) {
        add(key.line, path, {shown(key) + " as a key", config::either(views), {}});
        continue;
      }
      const std::string full = below(path, key.text);
      if (const auto [first, fresh] = lines.emplace(key.text, key.line); !fresh) {
        add(key.line, full, {fmt::format("it again (first in line {})", first->second), "each key once", {}});
        continue;
      }
      const auto at = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == key.text; });
      if (auto other = path.empty() ? config::foreign_file(key.text) : std::nullopt; other && at == keys.end())
        add(key.line, full, std::move(*other));
      else if (at == keys.end())
        add(key.line, full, {"an unknown key", config::either(views), config::nearest(key.text, names)});
      else
        at->read(value, full);
    }
  }

  // Calls f(item, path) for each item of a list.
  template <class F>
  void read_list(const YamlNode& node, const std::string& path, std::string_view of, F f) {
    if (node.kind == Kind::kNull) return;  // all commented out
    if (node.kind != Kind::kList) return add(node.line, path, {shown(node), fmt::format("a list of {}", of), {}});
    for (std::size_t i = 0; i < node.items.size(); ++i) f(node.items[i], fmt::format("{}[{}]", path, i));
  }

  // A value by a function of its text.
  template <class T, class Parse>
  void read_value(const YamlNode& node, const std::string& path, std::string_view allowed, Parse parse, T& out) {
    if (node.kind == Kind::kScalar) {
      if (auto value = parse(std::string_view(node.text))) {
        out = std::move(*value);
        return;
      }
    }
    add(node.line, path, {shown(node), std::string(allowed), {}});
  }

  template <class T>
  void read_number(const YamlNode& node, const std::string& path, T low, T high, std::optional<T>& out) {
    std::optional<T> value;
    read_value(
        node, path, fmt::format("a {}number from {} to {}", std::is_integral_v<T> ? "whole " : "", low, high),
        [&](std::string_view text) -> std::optional<T> {
          const auto n = number<T>(text);
          if (!n || *n < low || *n > high) return std::nullopt;
          if constexpr (std::is_floating_point_v<T>)
            if (!std::isfinite(*n)) return std::nullopt;
          return n;
        },
        value);
    if (value) out = value;
  }

  template <class T, std::size_t N>
  void read_choice(const YamlNode& node, const std::string& path, const std::array<T, N>& choices,
                   std::optional<T>& out) {
    std::vector<std::string> names;
    for (const T& choice : choices) names.push_back(fmt::format("{}", choice));
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::optional<T> value;
    read_value(
        node, path, config::either(views),
        [&](std::string_view text) -> std::optional<T> {
          const auto n = number<T>(text);
          if (!n || std::find(choices.begin(), choices.end(), *n) == choices.end()) return std::nullopt;
          return n;
        },
        value);
    if (value) out = value;
  }

  void read_text(const YamlNode& node, const std::string& path, std::string_view allowed, std::string& out) {
    read_value(
        node, path, allowed,
        [](std::string_view text) -> std::optional<std::string> {
          if (text.empty() || text.size() > 256) return std::nullopt;
          return std::string(text);
        },
        out);
  }

  // Seconds, or `off` for never.
  void read_seconds(const YamlNode& node, const std::string& path, std::optional<double>& out) {
    std::optional<double> value;
    read_value(
        node, path, "a whole number of seconds from 0 to 1000000, or off",
        [](std::string_view text) -> std::optional<double> {
          if (text == "off") return std::numeric_limits<double>::infinity();
          const auto n = number<unsigned>(text);
          if (!n || *n > 1000000) return std::nullopt;
          return static_cast<double>(*n);
        },
        value);
    if (value) out = value;
  }

  std::vector<Key> expectation_keys(DeviceExpectation& out) {
    return {
        {"ports",
         [this, &out](const YamlNode& v, const std::string& p) {
           read_numbers(v, p, 1U, kMaxPort, "ports such as [1, 2]", "each port once", out.ports);
         }},
        {"rate",
         [this, &out](const YamlNode& v, const std::string& p) { read_number(v, p, 0.1, 10000.0, out.rate_gbps); }},
        {"mtu", [this, &out](const YamlNode& v, const std::string& p) { read_number(v, p, 68U, 65535U, out.mtu); }},
        {"path_mtu",
         [this, &out](const YamlNode& v, const std::string& p) {
           read_choice(v, p, std::array<unsigned, 5>{256, 512, 1024, 2048, 4096}, out.path_mtu);
         }},
        {"pcie",
         [this, &out](const YamlNode& v, const std::string& p) {
           read_mapping(v, p,
                        {{"lanes",
                          [this, &out](const YamlNode& lanes, const std::string& at) {
                            read_choice(lanes, at, std::array<unsigned, 6>{1, 2, 4, 8, 16, 32}, out.pcie_lanes);
                          }},
                         {"speed", [this, &out](const YamlNode& speed, const std::string& at) {
                            read_choice(speed, at, std::array<double, 6>{2.5, 5, 8, 16, 32, 64}, out.pcie_gts);
                          }}});
         }},
        {"max_read_request",
         [this, &out](const YamlNode& v, const std::string& p) {
           read_choice(v, p, std::array<unsigned, 6>{128, 256, 512, 1024, 2048, 4096}, out.max_read_request);
         }},
        {"pfc_priorities",
         [this, &out](const YamlNode& v, const std::string& p) {
           read_numbers(v, p, 0U, 7U, "priorities such as [3]", "each priority once", out.pfc_priorities);
         }},
        {"dscp", [this, &out](const YamlNode& v, const std::string& p) { read_dscp(v, p, out); }},
        {"ecn", [this, &out](const YamlNode& v, const std::string& p) { read_switch(v, p, out.ecn); }},
        {"firmware",
         [this, &out](const YamlNode& v, const std::string& p) {
           std::string text;
           read_text(v, p, "the version as roce_device_info shows it, in quotes", text);
           if (!text.empty()) out.firmware = text;
         }},
    };
  }

  void read_switch(const YamlNode& node, const std::string& path, std::optional<bool>& out) {
    if (node.kind == Kind::kScalar && node.plain && (node.text == "true" || node.text == "false"))
      out = node.text == "true";
    else
      add(node.line, path, {shown(node), "true or false", {}});
  }

  void read_numbers(const YamlNode& node, const std::string& path, unsigned low, unsigned high, std::string_view of,
                    std::string_view once, std::optional<std::set<unsigned>>& out) {
    if (node.kind != Kind::kList)
      return add(node.line, path, {shown(node), fmt::format("a list of {}, or [] for none", of), {}});
    std::set<unsigned> numbers;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", path, i);
      std::optional<unsigned> number;
      read_number(node.items[i], at, low, high, number);
      if (number && !numbers.insert(*number).second)
        add(node.items[i].line, at, {fmt::format("`{}` twice", *number), std::string(once), {}});
    }
    out = numbers;
  }

  void read_dscp(const YamlNode& node, const std::string& path, DeviceExpectation& out) {
    constexpr std::string_view kAllowed = "a mapping of DSCP (0 to 63) to priority (0 to 7), such as {26: 3}";
    if (node.kind != Kind::kMapping) return add(node.line, path, {shown(node), std::string(kAllowed), {}});
    std::map<unsigned, unsigned> map;
    for (const auto& [key, value] : node.members) {
      const auto dscp = key.kind == Kind::kScalar ? number<unsigned>(key.text) : std::nullopt;
      if (!dscp || *dscp > 63) {
        add(key.line, path, {shown(key) + " as a key", std::string(kAllowed), {}});
        continue;
      }
      const std::string at = below(path, key.text);
      std::optional<unsigned> priority;
      read_number(value, at, 0U, 7U, priority);
      if (priority && !map.emplace(*dscp, *priority).second) add(key.line, at, {"it again", "each DSCP once", {}});
    }
    out.dscp = map;
  }

  void read_role(const YamlNode& node, const std::string& path, std::string& out) {
    if (node.kind == Kind::kScalar && std::find(kRoles.begin(), kRoles.end(), node.text) != kRoles.end()) {
      out = node.text;
      return;
    }
    const std::vector<std::string> names(kRoles.begin(), kRoles.end());
    add(node.line, path,
        {shown(node), config::either(kRoles),
         node.kind == Kind::kScalar ? config::nearest(node.text, names) : std::string()});
  }

  void read_device(const YamlNode& node, const std::string& path, std::vector<DeclaredDevice>& out) {
    if (out.size() >= kMaxDeclaredDevices)
      return add(node.line, path, {"one device more", fmt::format("at most {} devices", kMaxDeclaredDevices), {}});
    DeclaredDevice device;
    auto keys = expectation_keys(device.expected);
    keys.insert(keys.begin(),
                {{"pci_address",
                  [&](const YamlNode& v, const std::string& p) {
                    read_value(
                        v, p, "a PCI address in small letters such as \"0000:17:00.0\"",
                        [](std::string_view text) -> std::optional<std::string> {
                          if (!is_pci_address(text)) return std::nullopt;
                          return std::string(text);
                        },
                        device.pci_address);
                  }},
                 {"device",
                  [&](const YamlNode& v, const std::string& p) {
                    read_text(v, p, "the name of an RDMA device such as mlx5_0", device.name);
                  }},
                 {"role", [&](const YamlNode& v, const std::string& p) { read_role(v, p, device.expected.role); }}});
    const std::size_t before = problems_.size();
    read_mapping(node, path, keys);
    if (problems_.size() != before) return;
    if (device.pci_address.empty() && device.name.empty())
      return add(node.line, path, {"a device without a name", "pci_address or device in each entry", {}});
    lines_[path] = node.line;
    paths_.push_back(path);
    out.push_back(std::move(device));
  }

  void read_roles(const YamlNode& node, const std::string& path, std::map<std::string, DeviceExpectation>& out) {
    std::vector<Key> keys;
    for (const std::string_view role : kRoles)
      keys.push_back({role, [this, role, &out](const YamlNode& v, const std::string& p) {
                        read_mapping(v, p, expectation_keys(out[std::string(role)]));
                      }});
    read_mapping(node, path, keys);
  }

  void read_host(const YamlNode& node, const std::string& path, HostExpectation& out) {
    read_mapping(node, path,
                 {{"memlock",
                   [&](const YamlNode& v, const std::string& p) {
                     read_value(
                         v, p, "unlimited, or a size such as 64GiB",
                         [](std::string_view text) -> std::optional<std::optional<double>> {
                           if (text == "unlimited") return std::numeric_limits<double>::infinity();
                           const auto size = parse_size(text);
                           if (!size) return std::nullopt;
                           return static_cast<double>(*size);
                         },
                         out.memlock);
                   }},
                  {"hugepages", [&](const YamlNode& v, const std::string& p) {
                     read_list(v, p, "sizes of huge pages", [&](const YamlNode& item, const std::string& at) {
                       read_hugepages(item, at, out.hugepages);
                     });
                   }}});
  }

  void read_hugepages(const YamlNode& node, const std::string& path, std::vector<DeclaredHugepages>& out) {
    DeclaredHugepages declared;
    std::optional<std::uint64_t> pages;
    const std::size_t before = problems_.size();
    read_mapping(
        node, path,
        {{"size",
          [&](const YamlNode& v, const std::string& p) {
            read_value(v, p, "a size of huge pages such as 2MiB or 1GiB", parse_size, declared.size);
          }},
         {"pages", [&](const YamlNode& v,
                       const std::string& p) { read_number(v, p, std::uint64_t{0}, std::uint64_t{1} << 40U, pages); }},
         {"node", [&](const YamlNode& v, const std::string& p) { read_number(v, p, 0U, 4095U, declared.node); }}});
    if (problems_.size() != before) return;
    if (declared.size == 0 || !pages) return add(node.line, path, {"an entry without both", "size and pages", {}});
    declared.pages = *pages;
    out.push_back(declared);
  }

  void read_nvme(const YamlNode& node, const std::string& path, NvmeExpectation& out) {
    read_mapping(
        node, path,
        {{"io_queues", [&](const YamlNode& v, const std::string& p) { read_number(v, p, 1U, 65535U, out.io_queues); }},
         {"queue_depth",
          [&](const YamlNode& v, const std::string& p) { read_number(v, p, 1U, 65536U, out.queue_depth); }},
         {"keep_alive", [&](const YamlNode& v, const std::string& p) { read_seconds(v, p, out.keep_alive); }},
         {"loss_timeout", [&](const YamlNode& v, const std::string& p) { read_seconds(v, p, out.loss_timeout); }},
         {"reconnect_delay",
          [&](const YamlNode& v, const std::string& p) { read_seconds(v, p, out.reconnect_delay); }}});
  }

  void read_waiver(const YamlNode& node, const std::string& path, std::vector<Waiver>& out) {
    Waiver waiver;
    const std::size_t before = problems_.size();
    read_mapping(
        node, path,
        {{"check",
          [&](const YamlNode& v, const std::string& p) {
            const auto ids = check_ids();
            if (v.kind == Kind::kScalar && std::find(ids.begin(), ids.end(), v.text) != ids.end()) {
              waiver.check = v.text;
              return;
            }
            add(v.line, p,
                {shown(v), "the id of a check as packaging/docs/checks.md lists them",
                 v.kind == Kind::kScalar ? config::nearest(v.text, ids) : std::string()});
          }},
         {"object",
          [&](const YamlNode& v, const std::string& p) {
            read_text(v, p, "an object as findings name it, such as mlx5_0/1", waiver.object);
          }},
         {"reason", [&](const YamlNode& v, const std::string& p) { read_text(v, p, "why, in words", waiver.reason); }},
         {"until", [&](const YamlNode& v, const std::string& p) {
            read_value(
                v, p, kDateForm,
                [](std::string_view text) -> std::optional<std::string> {
                  if (!parse_day(text)) return std::nullopt;
                  return std::string(text);
                },
                waiver.until);
          }}});
    if (problems_.size() != before) return;
    for (const auto& [name, value] :
         {std::pair("check", &waiver.check), std::pair("reason", &waiver.reason), std::pair("until", &waiver.until)})
      if (value->empty())
        return add(node.line, path,
                   {fmt::format("a waiver without `{}`", name), "check, reason and until in each", {}});
    out.push_back(std::move(waiver));
  }

  void read_class(const YamlNode& node, const std::string& path, std::vector<HostClass>& out) {
    HostClass found;
    auto keys = overlay_keys(found.overlay, false);
    keys.insert(keys.begin(),
                {{"name", [&](const YamlNode& v, const std::string& p) { read_text(v, p, "a name", found.name); }},
                 {"hosts", [&](const YamlNode& v, const std::string& p) {
                    if (v.kind == Kind::kScalar && !v.text.empty()) {
                      const RE2 expression(re2::StringPiece(v.text.data(), v.text.size()), RE2::Quiet);
                      if (expression.ok()) {
                        found.hosts = v.text;
                        return;
                      }
                    }
                    add(v.line, p, {shown(v), "a regular expression in RE2 syntax for the whole host name", {}});
                  }}});
    const std::size_t before = problems_.size();
    read_mapping(node, path, keys);
    if (problems_.size() != before) return;
    if (found.name.empty() || found.hosts.empty())
      return add(node.line, path, {"a class without both", "name and hosts in each class", {}});
    check_devices(found.overlay, path);
    out.push_back(std::move(found));
  }

  std::vector<Key> overlay_keys(Profile& out, bool top) {
    std::vector<Key> keys;
    if (top)
      keys.push_back({"profile", [this](const YamlNode& v, const std::string& p) {
                        std::optional<unsigned> version;
                        read_number(v, p, 1U, 1U, version);
                      }});
    keys.push_back({"devices", [this, &out](const YamlNode& v, const std::string& p) {
                      read_list(v, p, "devices", [&](const YamlNode& item, const std::string& at) {
                        read_device(item, at, out.devices);
                      });
                    }});
    keys.push_back({"roles", [this, &out](const YamlNode& v, const std::string& p) { read_roles(v, p, out.roles); }});
    keys.push_back({"host", [this, &out](const YamlNode& v, const std::string& p) { read_host(v, p, out.host); }});
    keys.push_back({"nvme", [this, &out](const YamlNode& v, const std::string& p) { read_nvme(v, p, out.nvme); }});
    keys.push_back({"waivers", [this, &out](const YamlNode& v, const std::string& p) {
                      read_list(v, p, "waivers", [&](const YamlNode& item, const std::string& at) {
                        read_waiver(item, at, out.waivers);
                      });
                    }});
    if (top)
      keys.push_back({"classes", [this, &out](const YamlNode& v, const std::string& p) {
                        read_list(v, p, "host classes", [&](const YamlNode& item, const std::string& at) {
                          read_class(item, at, out.classes);
                        });
                      }});
    return keys;
  }

  // Two entries for one device contradict each other or are a slip of the hand.
  void check_devices(const Profile& profile, const std::string& inside) {
    std::map<std::string, std::size_t> seen;
    for (std::size_t i = 0; i < profile.devices.size(); ++i) {
      const std::string path = fmt::format("{}devices[{}]", inside.empty() ? "" : inside + ".", i);
      for (const std::string& name : {profile.devices[i].pci_address, profile.devices[i].name})
        if (!name.empty() && !seen.emplace(name, i).second)
          add(lines_[path], path,
              {fmt::format("{} again (first in line {})", ticked(name),
                           lines_[fmt::format("{}devices[{}]", inside.empty() ? "" : inside + ".", seen[name])]),
               "each device once",
               {}});
    }
  }

  std::vector<Found> problems_;
  std::map<std::string, int> lines_;  // of devices, by path
  std::vector<std::string> paths_;
};

void lay_over(DeviceExpectation& base, const DeviceExpectation& top) {
  if (!top.role.empty()) base.role = top.role;
  if (top.ports) base.ports = top.ports;
  if (top.rate_gbps) base.rate_gbps = top.rate_gbps;
  if (top.mtu) base.mtu = top.mtu;
  if (top.path_mtu) base.path_mtu = top.path_mtu;
  if (top.pcie_lanes) base.pcie_lanes = top.pcie_lanes;
  if (top.pcie_gts) base.pcie_gts = top.pcie_gts;
  if (top.max_read_request) base.max_read_request = top.max_read_request;
  if (top.pfc_priorities) base.pfc_priorities = top.pfc_priorities;
  if (!top.dscp.empty()) base.dscp = top.dscp;
  if (top.ecn) base.ecn = top.ecn;
  if (top.firmware) base.firmware = top.firmware;
}

void lay_over(Profile& base, const Profile& top) {
  for (const auto& [role, expected] : top.roles) lay_over(base.roles[role], expected);
  for (const DeclaredDevice& device : top.devices) {
    const auto same = [&](const DeclaredDevice& other) {
      return (!device.pci_address.empty() && device.pci_address == other.pci_address) ||
             (!device.name.empty() && device.name == other.name);
    };
    const auto at = std::find_if(base.devices.begin(), base.devices.end(), same);
    if (at == base.devices.end())
      base.devices.push_back(device);
    else
      lay_over(at->expected, device.expected);
  }
  if (top.host.memlock) base.host.memlock = top.host.memlock;
  if (!top.host.hugepages.empty()) base.host.hugepages = top.host.hugepages;
  if (top.nvme.io_queues) base.nvme.io_queues = top.nvme.io_queues;
  if (top.nvme.queue_depth) base.nvme.queue_depth = top.nvme.queue_depth;
  if (top.nvme.keep_alive) base.nvme.keep_alive = top.nvme.keep_alive;
  if (top.nvme.loss_timeout) base.nvme.loss_timeout = top.nvme.loss_timeout;
  if (top.nvme.reconnect_delay) base.nvme.reconnect_delay = top.nvme.reconnect_delay;
  base.waivers.insert(base.waivers.end(), top.waivers.begin(), top.waivers.end());
}

tl::expected<Profile, std::string> read_tree(std::string_view text) {
  const auto root = config::parse_yaml(text);
  if (!root) return tl::unexpected(fmt::format("{}: {}", root.error().line, root.error().text));
  if (root->kind != Kind::kMapping || root->members.empty())
    return tl::unexpected(fmt::format("{}: found {}, allowed a mapping with {}", root->line,
                                      root->kind == Kind::kMapping ? "nothing" : shown(*root), config::either(kTop)));
  Profile profile;
  Reader reader;
  reader.read(*root, profile);
  if (!reader.good()) return tl::unexpected(reader.report());
  return profile;
}

}  // namespace

tl::expected<Profile, std::string> parse_profile(std::string_view text, const std::string& file) {
  const std::string name = one_line(file, 4096);
  try {
    auto profile = read_tree(text);
    if (!profile) return tl::unexpected(fmt::format("{}:{}", name, profile.error()));
    return profile;
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: {}", name, one_line(error.what(), 200)));
  }
}

tl::expected<Profile, std::string> read_profile(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return tl::unexpected(fmt::format("{}: found {}, allowed a YAML file", one_line(file, 4096),
                                      S_ISDIR(info.st_mode) ? "a directory" : "no regular file"));
  const auto text = read_file(file, kMaxFile);
  if (!text && text.error().kind == ErrorKind::kMalformed)
    return tl::unexpected(fmt::format("{}: found more than 1 MiB, allowed at most that", one_line(file, 4096)));
  if (!text) {
    Error why = text.error();
    why.object = one_line(file, 4096);
    return tl::unexpected(fmt::format("{}; found no way to read it, allowed a YAML file", why.message()));
  }
  return parse_profile(*text, file);
}

bool looks_like_profile(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    for (const std::string_view key : kTop)
      if (line.starts_with(key) && line.substr(key.size()).starts_with(":")) return true;
  }
  return false;
}

bool is_profile_file(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const auto text = read_file(file, kMaxFile);
  return text && looks_like_profile(*text);
}

Profile for_host(const Profile& profile, const std::string& host_name) {
  Profile out = profile;
  out.classes.clear();
  for (const HostClass& found : profile.classes)
    if (RE2::FullMatch(host_name, found.hosts)) lay_over(out, found.overlay);
  return out;
}

std::optional<DeviceExpectation> expectation_of(const Profile& profile, std::string_view name,
                                                std::string_view pci_address) {
  const auto is_it = [&](const DeclaredDevice& device) {
    return device.pci_address.empty() ? device.name == name : device.pci_address == pci_address;
  };
  const auto at = std::find_if(profile.devices.begin(), profile.devices.end(), is_it);
  if (at == profile.devices.end()) return std::nullopt;
  DeviceExpectation out;
  if (const auto role = profile.roles.find(at->expected.role); role != profile.roles.end()) out = role->second;
  lay_over(out, at->expected);
  return out;
}

std::int64_t waiver_end(const Waiver& waiver) {
  const auto day = parse_day(waiver.until);
  if (!day) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             (std::chrono::sys_days(*day) + std::chrono::days(1)).time_since_epoch())
      .count();
}

bool waiver_holds(const Waiver& waiver, std::int64_t unix_time) { return unix_time < waiver_end(waiver); }

}  // namespace roce

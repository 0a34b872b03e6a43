// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/entry.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "exporter/config/text.h"
#include "exporter/config/values.h"
#include "probes/peers/json_depth.h"

namespace roce::probe {
namespace {

using config::one_line;
using config::ticked;
using Json = nlohmann::json;

tl::unexpected<std::string> bad(std::string text) { return tl::unexpected<std::string>(std::move(text)); }

}  // namespace

std::string Target::url() const {
  return host.find(':') == std::string::npos ? fmt::format("https://{}:{}", host, port)
                                             : fmt::format("https://[{}]:{}", host, port);
}

std::optional<Target> parse_target(std::string_view text, std::uint16_t default_port) {
  Target target;
  target.port = default_port;
  std::string_view port;
  bool has_port = false;
  unsigned char address[sizeof(in6_addr)];
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    target.host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    if (inet_pton(AF_INET6, target.host.c_str(), address) != 1) return std::nullopt;
    if (!rest.empty() && rest[0] != ':') return std::nullopt;
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else {
    const std::size_t colon = text.rfind(':');
    has_port = colon != std::string_view::npos;
    target.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
    if (inet_pton(AF_INET, target.host.c_str(), address) != 1 && !config::is_host_name(target.host))
      return std::nullopt;
  }
  if (has_port) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), target.port);
    if (error != std::errc() || end != port.data() + port.size() || target.port == 0) return std::nullopt;
  }
  return target;
}

tl::expected<std::vector<PeerEntry>, std::string> parse_file_sd(std::string_view text, std::uint16_t default_port) {
  if (too_deep(text)) return bad("found more levels of nesting than a list of target groups has");
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return bad("found text that is no JSON, allowed a list of target groups");
  if (!document.is_array()) return bad("found no list, allowed a list of target groups");
  std::vector<PeerEntry> entries;
  for (const Json& group : document) {
    if (!group.is_object() || !group.contains("targets") || !group["targets"].is_array())
      return bad("found a group without a list `targets`, allowed {\"targets\": [...], \"labels\": {...}}");
    PeerEntry common;
    if (group.contains("labels")) {
      if (!group["labels"].is_object()) return bad("found `labels` that are no mapping, allowed names and texts");
      for (const auto& [name, value] : group["labels"].items()) {
        if (!value.is_string())
          return bad(fmt::format("found the label {} without a text, allowed texts", ticked(name)));
        const auto& label = value.get_ref<const std::string&>();
        if (label.size() > 256) return bad(fmt::format("found the label {} too long, allowed 256 bytes", ticked(name)));
        if (name == "node") common.node = label;
        if (name == "device") common.device = label;
        if (name == "rail") common.rail = label;
        if (name != "addresses") continue;
        std::string_view rest = label;
        while (!rest.empty()) {
          const std::size_t comma = rest.find(',');
          common.addresses.emplace_back(rest.substr(0, comma));
          rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
        }
      }
    }
    if (!common.node.empty() && group["targets"].size() > 1)
      return bad(fmt::format("found {} targets of the node {}, allowed one target a group with the label node",
                             group["targets"].size(), ticked(common.node)));
    for (const Json& item : group["targets"]) {
      if (!item.is_string()) return bad("found a target that is no text, allowed \"HOST:PORT\"");
      const auto& shown = item.get_ref<const std::string&>();
      const auto target = parse_target(shown, default_port);
      if (!target) return bad(fmt::format("found the target {}, allowed HOST or HOST:PORT", ticked(shown)));
      if (entries.size() >= kMostEntries) return bad(fmt::format("found more targets, allowed {}", kMostEntries));
      PeerEntry entry = common;
      if (entry.node.empty()) entry.node = target->host;
      entry.url = target->url();
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace roce::probe

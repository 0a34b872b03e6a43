// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/bonding.h"

#include <algorithm>
#include <array>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;

// What /proc says, and the name of the mode everywhere else.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kModes{{
    {"load balancing (round-robin)", "balance-rr"},
    {"fault-tolerance (active-backup)", "active-backup"},
    {"load balancing (xor)", "balance-xor"},
    {"fault-tolerance (broadcast)", "broadcast"},
    {"IEEE 802.3ad Dynamic link aggregation", "802.3ad"},
    {"transmit load balancing", "balance-tlb"},
    {"adaptive load balancing", "balance-alb"},
}};

std::string_view mode_name(std::string_view text) {
  for (const auto& [long_name, name] : kModes)
    if (text.starts_with(long_name)) return name;
  return text;
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find_first_of(" \t")); }

std::string named(std::string_view name) { return name == "None" ? std::string() : std::string(name); }

void read_master_line(std::string_view key, std::string_view value, Bond& bond) {
  if (key == "Bonding Mode") bond.mode = mode_name(value);
  if (key == "Transmit Hash Policy") bond.transmit_hash = first_word(value);
  if (key == "Currently Active Slave") bond.in_use = named(first_word(value));
  if (key == "MII Status") bond.up = value == "up";
  if (key == "Aggregator ID") bond.active_aggregator = parse_u64(value);
}

// "N/A": the member is in no aggregator.
std::optional<std::uint64_t> aggregator(std::string_view text) {
  return text == "N/A" ? std::optional<std::uint64_t>(0) : parse_u64(text);
}

// SPEED_UNKNOWN, -1, as kernels printed it without a sign, of 32 and of 16 bits.
std::optional<std::uint64_t> known_speed(std::optional<std::uint64_t> megabits) {
  return megabits && (*megabits == 0xffffffffU || *megabits == 0xffffU) ? std::nullopt : megabits;
}

void read_member_line(std::string_view key, std::string_view value, BondMember& member) {
  if (key == "MII Status") member.up = value == "up";
  if (key == "Speed") member.speed = known_speed(parse_u64(first_word(value)));
  if (key == "Link Failure Count") member.link_failures = parse_u64(value);
  if (key == "Aggregator ID") member.aggregator = aggregator(value);
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::string_view word = first_word(text);
    words.emplace_back(word);
    text.remove_prefix(word.size());
  }
  return words;
}

// The names of the members without the file that some kernels write under RTNL.
std::vector<std::string> member_names(const Host& host, const std::string& dir) {
  std::vector<std::string> names;
  if (const auto entries = list_directory(dir))
    for (const std::string& entry : *entries)
      if (entry.starts_with("lower_")) names.push_back(entry.substr(6));
  if (names.empty() && !host.live) names = split_words(read_attribute(dir + "/bonding/slaves").value_or(""));
  return names;
}

template <class T>
std::optional<T> value_of(const Result<T>& result) {
  return result ? std::optional<T>(*result) : std::nullopt;
}

BondMember read_member(const Host& host, const std::string& name) {
  BondMember member;
  member.name = name;
  const std::string dir = host.net_class() + "/" + name;
  if (const auto state = read_attribute(dir + "/bonding_slave/mii_status")) member.up = *state == "up";
  member.link_failures = value_of(read_u64(dir + "/bonding_slave/link_failure_count"));
  if (const auto text = read_attribute(dir + "/bonding_slave/ad_aggregator_id")) member.aggregator = aggregator(*text);
  if (host.live) return member;  // the rest would wait for RTNL
  if (!member.up)
    if (const auto state = read_attribute(dir + "/operstate")) member.up = *state == "up";
  member.speed = known_speed(value_of(read_u64(dir + "/speed")));
  return member;
}

Result<Bond> read_sysfs_bond(const Host& host, const std::string& name) {
  const std::string dir = host.net_class() + "/" + name;
  Bond bond;
  bond.name = name;
  ROCE_TRY(const std::string mode, read_attribute(dir + "/bonding/mode"));
  bond.mode = first_word(mode);
  bond.transmit_hash = first_word(read_attribute(dir + "/bonding/xmit_hash_policy").value_or(""));
  bond.in_use = read_attribute(dir + "/bonding/active_slave").value_or("");
  if (const auto state = read_attribute(dir + "/bonding/mii_status")) bond.up = *state == "up";
  for (const std::string& member : member_names(host, dir)) bond.members.push_back(read_member(host, member));
  return bond;
}

Result<Bond> read_bond(const Host& host, const std::string& name, bool in_proc) {
  if (!in_proc) return read_sysfs_bond(host, name);
  const std::string path = host.procfs + "/net/bonding/" + name;
  ROCE_TRY(const std::string text, read_file(path, kMaxFileSize));
  auto bond = parse_proc_bonding(name, text);
  if (!bond) bond.error().object = path;
  return bond;
}

}  // namespace

std::optional<bool> Bond::active(const BondMember& member) const {
  if (!member.up) return std::nullopt;
  // A member outside of the aggregator in use takes no part, though its link is up: the peer is set up differently.
  const bool elsewhere =
      active_aggregator && member.aggregator && (*active_aggregator == 0 || *active_aggregator != *member.aggregator);
  return *member.up && !elsewhere;
}

Result<Bond> parse_proc_bonding(std::string_view name, std::string_view text) {
  Bond bond;
  bond.name = name;
  BondMember* member = nullptr;
  bool details = false;
  while (!text.empty()) {
    const auto size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    if (line.ends_with("has no active aggregator")) bond.active_aggregator = 0;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "Slave Interface") {
      if (value.empty()) return fail(ErrorKind::kMalformed, "bonding: member without a name");
      member = &bond.members.emplace_back();
      member->name = value;
      details = false;
    } else if (member == nullptr) {
      read_master_line(key, value, bond);
    } else {
      // What follows is told of both ends of the link, under names that come again.
      if (key.starts_with("details ")) details = true;
      if (!details) read_member_line(key, value, *member);
    }
  }
  if (bond.mode.empty()) return fail(ErrorKind::kMalformed, "bonding: " + std::string(name));
  return bond;
}

Bonds read_bonds(const Host& host) {
  Bonds bonds;
  const auto failed = [&bonds](const Error& error) {
    if (!bonds.error && error.kind != ErrorKind::kAbsent) bonds.error = error;
  };
  std::vector<std::pair<std::string, bool>> names;  // and whether /proc has it
  if (const auto listed = list_directory(host.procfs + "/net/bonding")) {
    for (const std::string& name : *listed) names.emplace_back(name, true);
  } else {
    failed(listed.error());
    if (const auto netdevs = list_directory(host.net_class()))
      for (const std::string& name : *netdevs)
        if (exists(host.net_class() + "/" + name + "/bonding")) names.emplace_back(name, false);
  }
  for (const auto& [name, in_proc] : names) {
    auto bond = read_bond(host, name, in_proc);
    if (!bond) {
      failed(bond.error());
      continue;
    }
    // /proc tells it to those with CAP_NET_ADMIN alone.
    if (bond->mode == "802.3ad" && !bond->active_aggregator)
      bond->active_aggregator = value_of(read_u64(host.net_class() + "/" + name + "/bonding/ad_aggregator"));
    bonds.all.push_back(std::move(*bond));
  }
  return bonds;
}

}  // namespace roce

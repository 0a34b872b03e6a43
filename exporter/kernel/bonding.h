// SPDX-License-Identifier: Apache-2.0
//
// Bonds of the kernel's bonding driver. /proc/net/bonding has all of them without waiting for a lock; sysfs adds what
// it lacks, and stands in for it. Functions are thread-safe and keep no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/host.h"

namespace roce {

struct BondMember {
  std::string name;
  std::optional<bool> up;                      // "going down" and "going back" are not up
  std::optional<std::uint64_t> speed;          // Mbit/s
  std::optional<std::uint64_t> link_failures;  // since it joined
  std::optional<std::uint64_t> aggregator;     // 802.3ad; 0: none
};

struct Bond {
  std::string name;
  std::string mode;           // as in sysfs: active-backup, 802.3ad ...
  std::string transmit_hash;  // empty for modes without one
  std::string in_use;         // the member that active-backup sends on; empty: none
  std::optional<bool> up;
  std::optional<std::uint64_t> active_aggregator;  // 802.3ad; 0: none
  std::vector<BondMember> members;

  // Can carry traffic. Nothing when the member's state is not known.
  std::optional<bool> active(const BondMember& member) const;
};

// One file of /proc/net/bonding; takes any bytes. kMalformed without a mode.
Result<Bond> parse_proc_bonding(std::string_view name, std::string_view text);

// All bonds, by name. What could not be read of one bond is left out, and told in `error` (the first one).
struct Bonds {
  std::vector<Bond> all;
  std::optional<Error> error;
};
Bonds read_bonds(const Host& host);

}  // namespace roce

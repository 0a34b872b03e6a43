// SPDX-License-Identifier: Apache-2.0
//
// Texts and messages of ethtool as structs: the statistics text of the tool, and the attributes of the generic netlink
// family "ethtool". Pure functions over bytes: thread-safe, they never read outside their input, never throw for any
// input, and accept unknown attributes and any order. A length that does not add up is kMalformed.
// Numbers are the kernel's ABI (include/uapi/linux/ethtool_netlink.h); they stand here since distribution headers lag.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/ethtool.h"
#include "exporter/kernel/netlink_attribute.h"

namespace roce {

namespace ethtool_abi {

constexpr std::string_view kFamily = "ethtool";

enum Command : std::uint8_t { kLinkstateGet = 6, kPauseGet = 21, kFecGet = 29, kStatsGet = 32 };

// Of every request, in a nest that is attribute 1; of kStatsGet 2.
enum Header : std::uint16_t { kHeader = 1, kStatsHeader = 2, kHeaderDevName = 2, kHeaderFlags = 3 };
constexpr std::uint32_t kFlagStats = 4;

enum Linkstate : std::uint16_t {
  kLink = 2,         // u8
  kSqi = 3,          // u32
  kSqiMax = 4,       // u32
  kExtState = 5,     // u8
  kExtSubstate = 6,  // u8
  kExtDownCnt = 7,   // u32
};

enum Pause : std::uint16_t {
  kPauseAutoneg = 2,  // u8
  kPauseRx = 3,       // u8
  kPauseTx = 4,       // u8
  kPauseStats = 5,    // nest
  kPauseStatTx = 2,   // u64
  kPauseStatRx = 3,   // u64
};

enum Fec : std::uint16_t {
  kFecModes = 2,   // bitset
  kFecAuto = 3,    // u8
  kFecActive = 4,  // u32, number of a link mode
  kFecStats = 5,   // nest; each an array of u64: the total, then the lanes
  kFecStatCorrected = 2,
  kFecStatUncorrectable = 3,
  kFecStatCorrectedBits = 4,
};
// Link modes that stand for FEC modes.
constexpr std::uint32_t kModeFecNone = 49;
constexpr std::uint32_t kModeFecRs = 50;
constexpr std::uint32_t kModeFecBaser = 51;
constexpr std::uint32_t kModeFecLlrs = 74;

enum Bitset : std::uint16_t {
  kBitsetNoMask = 1,  // flag
  kBitsetSize = 2,    // u32
  kBitsetBits = 3,    // nest of kBit
  kBitsetValue = 4,   // array of u32
  kBit = 1,           // nest
  kBitIndex = 1,      // u32
  kBitName = 2,       // text
  kBitValue = 3,      // flag; without it the bit is listed only for the mask
};

enum Stats : std::uint16_t {
  kStatsGroups = 3,  // bitset
  kStatsGroup = 4,   // nest
  kGroupId = 2,      // u32
  kGroupStat = 4,    // nest of one u64 whose type is the statistic
};
enum Group : std::uint32_t { kEthPhy = 0, kEthMac = 1, kEthCtrl = 2, kRmon = 3 };

}  // namespace ethtool_abi

// `attributes` is what follows the generic netlink header of an answer.
Result<EthtoolLink> parse_ethtool_link(Bytes attributes);
Result<EthtoolPause> parse_ethtool_pause(Bytes attributes);
Result<EthtoolFec> parse_ethtool_fec(Bytes attributes);
Result<std::vector<NamedValue>> parse_ethtool_standard_statistics(Bytes attributes);

// The text of `ethtool -S`. A line is cut at its last colon, since names may hold colons; lines without a number there
// (the heading) are passed over. No statistic at all is kUnsupported.
Result<std::vector<NamedValue>> parse_ethtool_statistics_text(std::string_view text);

// The tool's JSON of one network device (`ethtool -I --json NAME`, --show-pause, --show-fec, -S --all-groups).
Result<EthtoolLink> parse_ethtool_link_json(std::string_view text);
Result<EthtoolPause> parse_ethtool_pause_json(std::string_view text);
Result<EthtoolFec> parse_ethtool_fec_json(std::string_view text);
Result<std::vector<NamedValue>> parse_ethtool_standard_statistics_json(std::string_view text);

}  // namespace roce

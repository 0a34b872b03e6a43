// SPDX-License-Identifier: Apache-2.0
//
// The answer to DCB_CMD_IEEE_GET as a struct. A pure function over bytes: thread-safe, reads nothing outside the span,
// never throws for any input. Attributes may come in any order, unknown ones are passed over, longer structs of later
// kernels are accepted; one that is too short is kMalformed.
// Numbers are the kernel's ABI (include/uapi/linux/dcbnl.h); they stand here since distribution headers lag.
#pragma once

#include <cstdint>

#include "exporter/base/result.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/netlink_attribute.h"

namespace roce {

namespace dcb_abi {

inline constexpr std::uint16_t kGet = 78;            // RTM_GETDCB
inline constexpr std::uint8_t kCommandIeeeGet = 21;  // DCB_CMD_IEEE_GET
inline constexpr std::size_t kHeaderSize = 4;        // struct dcbmsg: family, command, padding

enum Attribute : std::uint16_t {
  kIfName = 1,  // string
  kIeee = 13,   // nest
  kDcbx = 14,   // u8
};

enum IeeeAttribute : std::uint16_t {
  kEts = 1,        // struct ieee_ets
  kPfc = 2,        // struct ieee_pfc
  kAppTable = 3,   // nest
  kPeerPfc = 5,    // struct ieee_pfc
  kMaxRate = 7,    // struct ieee_maxrate
  kBuffer = 10,    // struct dcbnl_buffer
  kAppTrust = 11,  // nest
};

enum AppAttribute : std::uint16_t {
  kIeeeApp = 1,  // struct dcb_app; in the trust table u8
  kDcbApp = 2,   // the same for selectors outside of the standard
};

}  // namespace dcb_abi

// `payload` is what follows the nlmsghdr.
Result<DcbState> parse_dcb_state(Bytes payload);

}  // namespace roce

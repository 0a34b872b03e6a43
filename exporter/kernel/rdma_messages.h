// SPDX-License-Identifier: Apache-2.0
//
// The payloads of RDMA netlink (NETLINK_RDMA, client NLDEV) as structs. Pure functions over bytes: thread-safe, they
// never read outside the span, never throw for any input, and accept what kernels from 4.14 on send: attributes in any
// order, unknown ones, nests with and without the nested flag, padding attributes of type 0. A required attribute that
// is missing, a length that does not add up or a number that is too wide is kMalformed.
// Numbers are the kernel's ABI (include/uapi/rdma/rdma_netlink.h); they stand here since distribution headers lag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/netlink_attribute.h"
#include "exporter/kernel/rdma.h"

namespace roce {

namespace rdma_abi {

constexpr int kNetlinkRdma = 20;
constexpr std::uint32_t kClientNldev = 5;

enum class Command : std::uint32_t {
  kGet = 1,
  kPortGet = 5,
  kSysGet = 6,
  kResGet = 9,
  kResQpGet = 10,
  kResCmIdGet = 11,
  kResCqGet = 12,
  kResMrGet = 13,
  kStatGet = 17,
  kResCtxGet = 22,
  kStatGetStatus = 24,
};

constexpr std::uint16_t message_type(Command command) {
  return static_cast<std::uint16_t>((kClientNldev << 10) | static_cast<std::uint32_t>(command));
}

enum Attribute : std::uint16_t {
  kDevIndex = 1,               // u32
  kDevName = 2,                // string
  kPortIndex = 3,              // u32
  kFwVersion = 5,              // string
  kNodeGuid = 6,               // u64
  kSysImageGuid = 7,           // u64
  kPortState = 12,             // u8
  kPortPhysState = 13,         // u8
  kResSummary = 15,            // nest
  kResSummaryEntry = 16,       // nest
  kResSummaryEntryName = 17,   // string
  kResSummaryEntryCurr = 18,   // u64
  kResQp = 19,                 // nest
  kResQpEntry = 20,            // nest
  kResLqpn = 21,               // u32
  kResType = 26,               // u8
  kResState = 27,              // u8
  kResPid = 28,                // u32
  kResKernName = 29,           // string
  kResCmId = 30,               // nest
  kResCmIdEntry = 31,          // nest
  kResSrcAddr = 33,            // sockaddr_storage
  kResDstAddr = 34,            // sockaddr_storage
  kResCq = 35,                 // nest
  kResCqEntry = 36,            // nest
  kResMr = 40,                 // nest
  kResMrEntry = 41,            // nest
  kResMrLen = 45,              // u64
  kNdevIndex = 50,             // u32
  kNdevName = 51,              // string
  kResCqn = 61,                // u32
  kResMrn = 62,                // u32
  kResCmIdn = 63,              // u32
  kResCtxn = 64,               // u32
  kSysNetnsMode = 66,          // u8
  kDevProtocol = 67,           // string
  kStatRes = 75,               // u32
  kStatCounter = 77,           // nest
  kStatCounterEntry = 78,      // nest
  kStatCounterId = 79,         // u32
  kStatHwcounters = 80,        // nest
  kStatHwcounterEntry = 81,    // nest
  kStatHwcounterName = 82,     // string
  kStatHwcounterValue = 83,    // u64
  kResCtx = 86,                // nest
  kResCtxEntry = 87,           // nest
  kStatHwcounterIndex = 94,    // u32
  kStatHwcounterDynamic = 95,  // u8
  kResSummaryEntryMax = 118,   // u64
};

}  // namespace rdma_abi

// `payload` is what follows the nlmsghdr (client NLDEV has no header of its own).
Result<RdmaDevice> parse_rdma_device(Bytes payload);
Result<RdmaPort> parse_rdma_port(Bytes payload);
// Of a name that occurs twice the first value stands. Order is the kernel's.
Result<std::vector<NamedValue>> parse_rdma_counters(Bytes payload);
Result<std::vector<CounterStatus>> parse_rdma_counter_status(Bytes payload);
// A limit of 0 is how the kernel says that there is none.
Result<std::vector<ResourceCount>> parse_rdma_resources(Bytes payload);
Result<std::vector<QpCounterSet>> parse_rdma_qp_counter_sets(Bytes payload);
Result<NetnsMode> parse_rdma_netns_mode(Bytes payload);
// One message of a listing. A message without the table holds nothing. Numbers that older kernels leave out (of all
// objects but QPs) are 0.
Result<std::vector<RdmaQp>> parse_rdma_qps(Bytes payload);
Result<std::vector<RdmaCmId>> parse_rdma_cm_ids(Bytes payload);
Result<std::vector<RdmaCq>> parse_rdma_cqs(Bytes payload);
Result<std::vector<RdmaMr>> parse_rdma_mrs(Bytes payload);
Result<std::vector<RdmaVerbsContext>> parse_rdma_contexts(Bytes payload);
Result<std::vector<RdmaMrStatistic>> parse_rdma_mr_statistics(Bytes payload);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma.h"

#include <array>
#include <utility>

namespace roce {
namespace {

constexpr std::array<std::string_view, 11> kQpTypes = {
    "SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "UNKNOWN", "RAW_PACKET", "XRC_INI", "XRC_TGT"};
constexpr std::uint32_t kDriverQp = 0xff;
constexpr std::array<std::string_view, 7> kQpStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<std::string_view, 11> kCmStates = {
    "IDLE",       "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY",    "ROUTE_RESOLVED", "CONNECT",
    "DISCONNECT", "ADDR_BOUND", "LISTEN",        "DEVICE_REMOVAL", "DESTROYING"};

template <std::size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, std::uint32_t number) {
  return number < N ? names[number] : "UNKNOWN";
}

template <class T>
Result<RdmaListing<T>> no_listing(const RdmaDevice& device, const char* kind) {
  return fail(ErrorKind::kUnsupported, device.name + ": " + kind);
}

}  // namespace

std::string_view rdma_qp_type_name(std::uint32_t type) {
  return type == kDriverQp ? "DRIVER" : name_in(kQpTypes, type);
}
std::string_view rdma_qp_state_name(std::uint32_t state) { return name_in(kQpStates, state); }
std::string_view rdma_cm_state_name(std::uint32_t state) { return name_in(kCmStates, state); }

Result<RdmaListing<RdmaQp>> RdmaSource::qps(const RdmaDevice& device) { return no_listing<RdmaQp>(device, "qp"); }
Result<RdmaListing<RdmaCmId>> RdmaSource::cm_ids(const RdmaDevice& device) {
  return no_listing<RdmaCmId>(device, "cm_id");
}
Result<RdmaListing<RdmaCq>> RdmaSource::cqs(const RdmaDevice& device) { return no_listing<RdmaCq>(device, "cq"); }
Result<RdmaListing<RdmaMr>> RdmaSource::mrs(const RdmaDevice& device) { return no_listing<RdmaMr>(device, "mr"); }
Result<RdmaListing<RdmaVerbsContext>> RdmaSource::contexts(const RdmaDevice& device) {
  return no_listing<RdmaVerbsContext>(device, "ctx");
}
Result<RdmaListing<RdmaMrStatistic>> RdmaSource::mr_statistics(const RdmaDevice& device) {
  return no_listing<RdmaMrStatistic>(device, "mr statistic");
}

Result<RdmaPort> RdmaSource::port(const RdmaDevice& device, std::uint32_t number) {
  ROCE_TRY(auto all, ports(device));
  for (RdmaPort& one : all)
    if (one.port == number) return std::move(one);
  return fail(ErrorKind::kAbsent, device.name + "/" + std::to_string(number));
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/rdma.h"

#include <utility>

namespace roce {

Result<RdmaPort> RdmaSource::port(const RdmaDevice& device, std::uint32_t number) {
  ROCE_TRY(auto all, ports(device));
  for (RdmaPort& one : all)
    if (one.port == number) return std::move(one);
  return fail(ErrorKind::kAbsent, device.name + "/" + std::to_string(number));
}

}  // namespace roce

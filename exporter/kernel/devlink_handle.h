// SPDX-License-Identifier: Apache-2.0
//
// Which devlink device an RDMA device belongs to.
#pragma once

#include <string>
#include <string_view>

#include "exporter/kernel/devlink.h"

namespace roce {

// `parent`: canonical path of what it sits on. A sub-function of mlx5 has a devlink of its own.
inline DevlinkHandle devlink_handle(std::string_view parent, std::string_view pci_address) {
  const std::string_view last = parent.substr(parent.rfind('/') + 1);
  if (last.starts_with("mlx5_core.sf.")) return {"auxiliary", std::string(last)};
  return {"pci", std::string(pci_address)};
}

}  // namespace roce

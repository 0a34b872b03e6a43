// SPDX-License-Identifier: Apache-2.0
//
// The host as collectors see it: where its trees are and what else the kernel answers. Built once, then read-only.
#pragma once

#include <memory>
#include <string>

#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/rdma.h"

namespace roce {

struct Host {
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
  // The running kernel's own trees. A made tree or a recording has no netlink beside it, and reading it cannot make a
  // driver log or wait.
  bool live = true;
  std::shared_ptr<RdmaSource> rdma;  // null: made tree, all comes from sysfs
  std::shared_ptr<CallTracker> calls = std::make_shared<CallTracker>();

  std::string rdma_class() const { return sysfs + "/class/infiniband"; }
  std::string net_class() const { return sysfs + "/class/net"; }
};

}  // namespace roce

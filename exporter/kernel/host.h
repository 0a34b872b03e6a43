// SPDX-License-Identifier: Apache-2.0
//
// The host as collectors see it: where its trees are and what else the kernel answers. Built once, then read-only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exporter/kernel/call_tracker.h"
#include "exporter/kernel/dcb.h"
#include "exporter/kernel/devlink.h"
#include "exporter/kernel/ethtool.h"
#include "exporter/kernel/nvme_events.h"
#include "exporter/kernel/pci.h"
#include "exporter/kernel/rdma.h"
#include "exporter/kernel/route.h"

namespace roce {

struct Host {
  std::string sysfs = "/sys";
  std::string procfs = "/proc";
  // Empty: where the kernel mounts them, below sysfs. Nothing is created in them.
  std::string configfs_mount;
  std::string debugfs_mount;
  std::string rootfs = "/";
  // The running kernel's own trees. A made tree or a recording has no netlink beside it, and reading it cannot make a
  // driver log or wait.
  bool live = true;
  std::shared_ptr<RdmaSource> rdma;        // null: made tree, all comes from sysfs
  std::shared_ptr<EthtoolSource> ethtool;  // null: made tree
  std::shared_ptr<RouteSource> routes;     // null: the tables in procfs
  std::shared_ptr<DcbSource> dcb;          // null: made tree
  std::shared_ptr<NvmeEvents> nvme_events = std::make_shared<NvmeEvents>();
  std::shared_ptr<CallTracker> calls = std::make_shared<CallTracker>();

  std::shared_ptr<DevlinkSource> devlink;            // null: made tree
  std::shared_ptr<const PciConfigFiles> pci_config;  // null: opened by path
  std::string kernel_log;  // device node of the kernel's log; empty: none that tells of this host

  // The network devices that a recording names beyond its sysfs; "" is one whose name was not recorded.
  std::vector<std::string> recorded_netdevs;

  // Not a made tree either: what is not there was not recorded.
  bool recording() const { return !live && rdma != nullptr; }

  std::string configfs() const { return configfs_mount.empty() ? sysfs + "/kernel/config" : configfs_mount; }
  std::string debugfs() const { return debugfs_mount.empty() ? sysfs + "/kernel/debug" : debugfs_mount; }
  std::string rdma_class() const { return sysfs + "/class/infiniband"; }
  std::string net_class() const { return sysfs + "/class/net"; }
};

}  // namespace roce

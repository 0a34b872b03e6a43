// SPDX-License-Identifier: Apache-2.0
//
// Which RDMA devices this host has, and what each of them sits on. Devices are found through their class directory,
// driver and PCI parent, never by the form of their names.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/kernel/host.h"

namespace roce {

struct InventoryPort {
  unsigned number = 1;
  std::string text;    // the number as label
  std::string netdev;  // empty: none found
};

struct InventoryDevice {
  std::string name;
  std::string path;  // its directory below the class directory; empty when only netlink or a recording knows it
  std::string kernel_driver;     // as sysfs names it: mlx5_core, bnxt_en; empty when not said
  std::string driver;            // key of the counter tables: mlx5, bnxt_re, irdma, rxe ...; empty when unknown
  std::string pci_address;       // 0000:3b:00.0, empty for virtual devices
  std::string card;              // functions of one physical card share it
  std::string numa_node;         // decimal; empty when the platform gives none
  bool rtnl_port_query = false;  // the driver's port query takes the kernel's RTNL lock
  std::optional<RdmaDevice> netlink;
  std::vector<InventoryPort> ports;
  std::optional<Error> ports_error;  // the device is there, its ports could not be listed

  // Changes when the device was registered anew, so that histories of its counters start again.
  std::uint64_t generation = 0;
};

using DeviceList = std::vector<std::shared_ptr<const InventoryDevice>>;

class Inventory {
 public:
  using Clock = std::chrono::steady_clock;
  using NameFilter = std::function<bool(std::string_view)>;
  // The filters say by name whether an RDMA device or a netdev may be touched at all; they are asked before anything
  // of it is opened.
  Inventory(std::shared_ptr<const Host> host, NameFilter wanted, NameFilter netdev_wanted);

  // Lists the devices. Names are listed each time; what a device sits on is looked up when it is new, after
  // invalidate(), and once a minute. Not thread-safe. An absent class directory is an empty list.
  Result<DeviceList> refresh();

  // Something about devices changed (hotplug, rename): look everything up again next time. Thread-safe.
  void invalidate();

 private:
  struct Known {
    std::shared_ptr<const InventoryDevice> device;
    Clock::time_point looked_up;
  };

  std::shared_ptr<const InventoryDevice> look_up(const std::string& name,
                                                 const std::optional<RdmaDevice>& netlink) const;

  std::shared_ptr<const Host> host_;
  NameFilter wanted_;
  NameFilter netdev_wanted_;
  std::map<std::string, Known> known_;
  std::string class_identity_;  // of the class directory: a replaced tree is looked up anew
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_;
  std::uint64_t seen_epoch_ = 0;
};

// Key of the counter tables for a kernel driver name; empty when it is none of them.
std::string_view counter_driver(std::string_view kernel_driver);

// The PCI address ("0000:3b:00.0") in the deepest component of a device path that is one; empty when none is.
std::string_view pci_address_in(std::string_view path);

}  // namespace roce

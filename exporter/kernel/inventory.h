// SPDX-License-Identifier: Apache-2.0
//
// Which RDMA devices this host has, and what each of them sits on. Devices are found through their class directory,
// driver and PCI parent, never by the form of their names.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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

struct InventoryNetdev {
  std::string name;    // empty: a recording did not tell it
  std::string device;  // labels: the RDMA device and port that it carries; empty where there is none
  std::string port;
  std::string path;         // its directory below the class directory
  std::string driver;       // as sysfs names it; empty when not said
  std::string pci_address;  // empty for virtual ones
  bool lag_member = false;  // one leg of the bond that the RDMA device stands on
};

enum class ObjectKind : std::uint8_t {
  kRdma,    // an RDMA device
  kNetdev,  // a physical network device that belongs to no RDMA device; `netdevs` holds it alone
  kHost,    // the host; its name is empty
};

struct InventoryDevice;
using DeviceList = std::vector<std::shared_ptr<const InventoryDevice>>;

struct InventoryDevice {
  ObjectKind kind = ObjectKind::kRdma;
  std::string name;
  std::string path;  // its directory below the class directory; empty when only netlink or a recording knows it
  std::string kernel_driver;     // as sysfs names it: mlx5_core, bnxt_en; empty when not said
  std::string driver;            // key of the counter tables: mlx5, bnxt_re, irdma, rxe ...; empty when unknown
  std::string parent;            // canonical path of the device it sits on; empty for virtual ones
  std::string pci_address;       // 0000:3b:00.0, empty for virtual devices
  std::string card;              // functions of one physical card share it
  std::string numa_node;         // decimal; empty when the platform gives none
  bool rtnl_port_query = false;  // the driver's port query takes the kernel's RTNL lock
  std::optional<RdmaDevice> netlink;
  std::vector<InventoryPort> ports;
  std::vector<InventoryNetdev> netdevs;
  DeviceList devices;                   // of the host: all RDMA devices, then all other network devices
  std::optional<Error> ports_error;     // the device is there, its ports could not be listed, or none is there
  bool ports_listed_elsewhere = false;  // by a recording of netlink

  // Changes when the device was registered anew, so that histories of its counters start again.
  std::uint64_t generation = 0;
};

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

  // What the last successful refresh() found beside the RDMA devices: physical network devices without an RDMA device
  // (on a made tree or a recording all of them but the loopback), then the host. Siblings of a port's network device
  // on the same function are left out: in switchdev mode they are representors of functions that speak for themselves.
  const DeviceList& others() const { return others_; }

  // Something about devices changed (hotplug, rename): look everything up again next time. Thread-safe.
  void invalidate();

 private:
  struct Known {
    std::shared_ptr<const InventoryDevice> device;
    Clock::time_point looked_up;
  };

  struct KnownNetdev {
    std::string driver;
    std::string parent;  // canonical path of the device it sits on; empty for virtual ones
    std::string pci_address;
    std::string card;
    std::vector<std::string> legs;  // of a bond
    bool carries_rdma = false;      // an RDMA device sits on the same function
    Clock::time_point looked_up;
  };

  std::shared_ptr<const InventoryDevice> look_up(const std::string& name,
                                                 const std::optional<RdmaDevice>& netlink) const;
  void refresh_netdevs(bool all_again, Clock::time_point now);
  KnownNetdev look_up_netdev(const std::string& name) const;
  std::vector<InventoryNetdev> netdevs_of(const InventoryDevice& device) const;
  void attach_netdevs(DeviceList& list);
  std::string bond_of(const std::string& netdev) const;
  InventoryNetdev netdev(const std::string& name) const;

  std::shared_ptr<const Host> host_;
  NameFilter wanted_;
  NameFilter netdev_wanted_;
  std::map<std::string, Known> known_;
  std::map<std::string, KnownNetdev> known_netdevs_;
  DeviceList others_;
  std::shared_ptr<const InventoryDevice> host_object_;
  std::string class_identity_;  // of the class directory: a replaced tree is looked up anew
  std::shared_ptr<std::atomic<std::uint64_t>> epoch_;
  std::uint64_t seen_epoch_ = 0;
};

// Key of the counter tables for a kernel driver name; empty when it is none of them.
std::string_view counter_driver(std::string_view kernel_driver);

// The PCI address ("0000:3b:00.0") in the deepest component of a device path that is one; empty when none is.
std::string_view pci_address_in(std::string_view path);

}  // namespace roce

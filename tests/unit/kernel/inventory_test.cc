// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/inventory.h"

#include <gtest/gtest.h>

#include "exporter/kernel/rdma_recorded.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

bool all(std::string_view) { return true; }

// Names one device, unless the dump fails.
class FakeRdma : public RdmaSource {
 public:
  Result<std::vector<RdmaDevice>> devices() override {
    if (failing) return fail(ErrorKind::kBusy, "rdma_get");
    RdmaDevice device;
    device.index = 7;
    device.name = "mlx5_0";
    return std::vector<RdmaDevice>{device};
  }
  Result<std::vector<RdmaPort>> ports(const RdmaDevice&) override { return std::vector<RdmaPort>{}; }
  Result<std::vector<NamedValue>> port_counters(const RdmaDevice&, std::uint32_t) override { return absent(); }
  Result<std::vector<CounterStatus>> counter_status(const RdmaDevice&, std::uint32_t) override { return absent(); }
  Result<std::vector<ResourceCount>> resources(const RdmaDevice&) override { return absent(); }
  Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice&) override { return absent(); }
  Result<NetnsMode> netns_mode() override { return absent(); }

  bool failing = false;

 private:
  static tl::unexpected<Error> absent() { return fail(ErrorKind::kAbsent, "not of this test"); }
};

TEST(InventoryTest, FindsPciParentsInPaths) {
  EXPECT_EQ(pci_address_in("/sys/devices/pci0000:00/0000:00:01.0/0000:3b:00.1/infiniband/mlx5_1"), "0000:3b:00.1");
  EXPECT_EQ(pci_address_in("/sys/devices/pci0000:00/0000:3b:00.0/mlx5_core.sf.4"), "0000:3b:00.0");
  EXPECT_EQ(pci_address_in("/sys/devices/virtual/infiniband/rxe0"), "");
  EXPECT_EQ(pci_address_in("10000:01:00.0"), "10000:01:00.0");
  EXPECT_EQ(pci_address_in("0000:3b:00.8"), "");
}

TEST(InventoryTest, AnAbsentClassDirectoryIsNoDevice) {
  const TempTree tree;
  Inventory inventory(tree.host(), all, all);
  EXPECT_TRUE(inventory.refresh().value().empty());
}

TEST(InventoryTest, DescribesADeviceByDriverAndParent) {
  const TempTree tree;
  tree.add_port("weird-name", 1);
  tree.add_port("weird-name", 2, "1: DOWN");
  tree.write("sys/devices/pci0000:00/0000:3b:00.1/numa_node", "1\n");
  tree.write("sys/devices/pci0000:00/0000:3b:00.1/net/eth7/dev_port", "0\n");
  tree.write("sys/devices/pci0000:00/0000:3b:00.1/net/eth8/dev_port", "1\n");
  tree.link("sys/devices/pci0000:00/0000:3b:00.1/driver", "../../../bus/pci/drivers/bnxt_en");
  tree.link("sys/class/infiniband/weird-name/device", "../../../devices/pci0000:00/0000:3b:00.1");
  Inventory inventory(tree.host(), all, all);
  const auto devices = inventory.refresh().value();
  ASSERT_EQ(devices.size(), 1U);
  const InventoryDevice& device = *devices[0];
  EXPECT_EQ(device.driver, "bnxt_re");
  EXPECT_EQ(device.kernel_driver, "bnxt_en");
  EXPECT_EQ(device.pci_address, "0000:3b:00.1");
  EXPECT_EQ(device.card, "0000:3b:00");
  EXPECT_EQ(device.numa_node, "1");
  EXPECT_TRUE(device.rtnl_port_query);
  ASSERT_EQ(device.ports.size(), 2U);
  EXPECT_EQ(device.ports[0].netdev, "eth7");
  EXPECT_EQ(device.ports[1].netdev, "eth8");
}

TEST(InventoryTest, NetdevsBelongToTheirDevicesOrStandAlone) {
  const TempTree tree;
  tree.add_port("mlx5_bond_0");
  tree.write("sys/class/infiniband/mlx5_bond_0/parent", "bond0\n");
  tree.write("sys/class/net/bond0/bonding/slaves", "eth0 eth1\n");
  for (const char* pf : {"0000:3b:00.0", "0000:3b:00.1", "0000:5e:00.0"}) {
    tree.write(std::string("sys/devices/pci0000:00/") + pf + "/vendor", "0x15b3\n");
    tree.link(std::string("sys/devices/pci0000:00/") + pf + "/driver", "../../../bus/pci/drivers/mlx5_core");
  }
  tree.link("sys/class/net/eth0/device", "../../../devices/pci0000:00/0000:3b:00.0");
  tree.link("sys/class/net/eth1/device", "../../../devices/pci0000:00/0000:3b:00.1");
  tree.link("sys/class/net/eth9/device", "../../../devices/pci0000:00/0000:5e:00.0");
  tree.link("sys/class/net/rep0/device", "../../../devices/pci0000:00/0000:3b:00.0");
  tree.link("sys/class/infiniband/mlx5_bond_0/device", "../../../devices/pci0000:00/0000:3b:00.0");
  Inventory inventory(tree.host(), all, all);
  const auto devices = inventory.refresh().value();
  ASSERT_EQ(devices.size(), 1U);
  ASSERT_EQ(devices[0]->netdevs.size(), 3U);
  EXPECT_EQ(devices[0]->netdevs[0].name, "bond0");
  EXPECT_FALSE(devices[0]->netdevs[0].lag_member);
  EXPECT_EQ(devices[0]->netdevs[1].name, "eth0");
  EXPECT_EQ(devices[0]->netdevs[2].name, "eth1");
  EXPECT_EQ(devices[0]->netdevs[2].device, "mlx5_bond_0");
  EXPECT_EQ(devices[0]->netdevs[2].port, "1");
  EXPECT_EQ(devices[0]->netdevs[2].pci_address, "0000:3b:00.1");
  EXPECT_TRUE(devices[0]->netdevs[2].lag_member);
  // rep0 sits on the function of a known device and is nobody's port: a representor.
  ASSERT_EQ(inventory.others().size(), 2U);
  EXPECT_EQ(inventory.others()[0]->kind, ObjectKind::kNetdev);
  EXPECT_EQ(inventory.others()[0]->name, "eth9");
  EXPECT_EQ(inventory.others()[0]->netdevs.at(0).device, "");
  EXPECT_EQ(inventory.others()[0]->netdevs.at(0).driver, "mlx5_core");
  EXPECT_EQ(inventory.others()[1]->kind, ObjectKind::kHost);
  EXPECT_EQ(inventory.others()[1]->devices.size(), 2U);
  const auto host = inventory.others()[1];
  ASSERT_TRUE(inventory.refresh());
  EXPECT_EQ(inventory.others()[1], host);  // nothing changed: the same object
}

TEST(InventoryTest, TheOnlyRecordedNetdevIsTheOnlyPorts) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  auto host = std::make_shared<Host>(*tree.host());
  host->recorded_netdevs = {""};
  Inventory inventory(host, all, all);
  const auto devices = inventory.refresh().value();
  ASSERT_EQ(devices.at(0)->netdevs.size(), 1U);
  EXPECT_EQ(devices[0]->netdevs[0].name, "");
  EXPECT_EQ(devices[0]->netdevs[0].device, "mlx5_0");
  tree.remove("sys/class/infiniband/mlx5_0");
  EXPECT_TRUE(inventory.refresh()->empty());
  ASSERT_EQ(inventory.others().size(), 2U);
  EXPECT_EQ(inventory.others()[0]->netdevs.at(0).device, "");
}

TEST(InventoryTest, AFunctionOfACardSharesItsCard) {
  const TempTree tree;
  tree.add_port("vf");
  tree.write("sys/devices/pci0000:00/0000:3b:02.3/vendor", "0x15b3\n");
  tree.link("sys/devices/pci0000:00/0000:3b:02.3/physfn", "../0000:3b:00.0");
  tree.link("sys/class/infiniband/vf/device", "../../../devices/pci0000:00/0000:3b:02.3");
  Inventory inventory(tree.host(), all, all);
  EXPECT_EQ(inventory.refresh().value().at(0)->card, "0000:3b:00");
}

TEST(InventoryTest, FiltersBeforeOpeningAnything) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  tree.add_port("mlx5_1");
  std::vector<std::string> asked;
  Inventory inventory(
      tree.host(),
      [&](std::string_view name) {
        asked.emplace_back(name);
        return name != "mlx5_0";
      },
      all);
  const auto devices = inventory.refresh().value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]->name, "mlx5_1");
  EXPECT_EQ(asked.size(), 2U);
}

TEST(InventoryTest, ForgetsWhatIsGoneAndKeepsWhatStays) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  tree.add_port("mlx5_3");
  Inventory inventory(tree.host(), all, all);
  const auto before = inventory.refresh().value();
  ASSERT_EQ(before.size(), 2U);
  tree.remove("sys/class/infiniband/mlx5_3");
  const auto after = inventory.refresh().value();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0], before[0]);  // not looked up again
  inventory.invalidate();
  EXPECT_NE(inventory.refresh().value().at(0), before[0]);
}

TEST(InventoryTest, APortHasItsOwnNetdevAndNoOther) {
  const TempTree tree;
  tree.add_port("mlx4_0", 1);
  tree.add_port("mlx4_0", 2);
  const std::string net = "sys/class/infiniband/mlx4_0/device/net/";
  tree.write(net + "eth0/dev_port", "0\n");
  tree.write(net + "eth1/dev_port", "1\n");
  Inventory both(tree.host(), all, all);
  EXPECT_EQ(both.refresh().value().at(0)->ports.at(0).netdev, "eth0");
  EXPECT_EQ(both.refresh().value().at(0)->ports.at(1).netdev, "eth1");
  Inventory second(tree.host(), all, [](std::string_view name) { return name != "eth0"; });
  EXPECT_EQ(second.refresh().value().at(0)->ports.at(0).netdev, "");
  EXPECT_EQ(second.refresh().value().at(0)->ports.at(1).netdev, "eth1");
}

TEST(InventoryTest, TheUplinkOfASwitchdevCardIsThePortsNetdev) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  for (const char* name : {"ens1f0_0", "ens1f0_1", "ens1f0np0"})
    tree.write(std::string("sys/class/infiniband/mlx5_0/device/net/") + name + "/dev_port", "0\n");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "ens1f0np0\n");
  Inventory inventory(tree.host(), all, all);
  EXPECT_EQ(inventory.refresh().value().at(0)->ports.at(0).netdev, "ens1f0np0");
}

TEST(InventoryTest, WithoutAGidTheNameOfThePortTellsTheUplink) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  const std::string net = "sys/class/infiniband/mlx5_0/device/net/";
  const std::initializer_list<std::pair<const char*, const char*>> ports{
      {"eth4", "pf0vf0"}, {"eth5", "c1pf0sf2"}, {"eth6", "pf0"}, {"zz0", "p0s1"}};
  for (const auto& [name, port] : ports) {
    tree.write(net + name + "/dev_port", "0\n");
    tree.write(net + name + "/phys_port_name", std::string(port) + "\n");
  }
  const auto found = [&] { return Inventory(tree.host(), all, all).refresh().value().at(0)->ports.at(0).netdev; };
  EXPECT_EQ(found(), "zz0");
  tree.write(net + "zz0/phys_port_name", "p0\n");
  EXPECT_EQ(found(), "zz0");
  tree.remove(net + "zz0/phys_port_name");  // drivers without it have no representors beside it either
  EXPECT_EQ(found(), "zz0");
  tree.write(net + "zz0/phys_port_name", "pf1\n");
  EXPECT_EQ(found(), "");
}

TEST(InventoryTest, ADamagedListOfARecordingLeavesWhatElseItHolds) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  tree.write("rdma/dev.json", "{");
  tree.write("rdma/statistic.txt", "link mlx5_0/1 x 7\n");
  const auto host = std::make_shared<Host>(*tree.host());
  host->rdma = open_rdma_recording(tree.path("")).value();
  const auto device = Inventory(host, all, all).refresh().value().at(0);
  ASSERT_TRUE(device->netlink);
  EXPECT_EQ(host->rdma->port_counters(*device->netlink, 1)->front().value, 7U);
}

// A recording of a live host holds its virtual network devices too. Made trees need not say where a device has its
// place.
TEST(InventoryTest, NetdevsThatAreKnownToBeVirtualDoNotStandAlone) {
  const TempTree tree;
  tree.write("sys/devices/virtual/net/ifb0/mtu", "1500\n");
  tree.link("sys/class/net/ifb0", "../../devices/virtual/net/ifb0");
  tree.write("sys/class/net/eth0/mtu", "1500\n");
  Inventory inventory(tree.host(), all, all);
  ASSERT_TRUE(inventory.refresh());
  ASSERT_EQ(inventory.others().size(), 2U);
  EXPECT_EQ(inventory.others()[0]->name, "eth0");
  EXPECT_EQ(inventory.others()[1]->kind, ObjectKind::kHost);
  // Nor is the only one taken for the port's.
  tree.add_port("mlx5_0");
  tree.remove("sys/class/net/eth0");
  EXPECT_TRUE(Inventory(tree.host(), all, all).refresh().value().at(0)->netdevs.empty());
}

TEST(InventoryTest, AFailingDumpMakesNoDeviceANewOne) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  const auto rdma = std::make_shared<FakeRdma>();
  const auto host = std::make_shared<Host>(*tree.host());
  host->rdma = rdma;
  Inventory inventory(host, all, all);
  const auto before = inventory.refresh().value();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0]->generation, 7U);
  rdma->failing = true;
  EXPECT_EQ(inventory.refresh().value().at(0), before[0]);
  inventory.invalidate();
  EXPECT_EQ(inventory.refresh().value().at(0)->generation, 7U);
}

TEST(InventoryTest, KnowsDriversByTheirKernelName) {
  EXPECT_EQ(counter_driver("mlx5_core"), "mlx5");
  EXPECT_EQ(counter_driver("ice"), "irdma");
  EXPECT_EQ(counter_driver("e1000e"), "");
}

}  // namespace
}  // namespace roce

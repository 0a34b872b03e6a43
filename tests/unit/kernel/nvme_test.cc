// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nvme.h"

#include <gtest/gtest.h>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

TEST(NvmeAddress, PartsAreSplitAtCommasAndBlanks) {
  const NvmeAddress address =
      parse_nvme_address("traddr=192.0.2.20,trsvcid=4420 host_traddr=198.51.100.3,src_addr=198.51.100.4\n");
  EXPECT_EQ(address.traddr, "192.0.2.20");
  EXPECT_EQ(address.trsvcid, "4420");
  EXPECT_EQ(address.host_traddr, "198.51.100.3");
  EXPECT_EQ(address.src_addr, "198.51.100.4");
  EXPECT_EQ(address.host_iface, "");
  EXPECT_EQ(address.pci_address, "");
}

TEST(NvmeAddress, Ipv6AndAnInterface) {
  const NvmeAddress address = parse_nvme_address("traddr=2001:db8::c,trsvcid=4420,host_iface=ens3f1np1");
  EXPECT_EQ(address.traddr, "2001:db8::c");
  EXPECT_EQ(address.host_iface, "ens3f1np1");
}

TEST(NvmeAddress, ALocalControllerHasAPciAddress) {
  EXPECT_EQ(parse_nvme_address("0000:5e:00.0\n").pci_address, "0000:5e:00.0");
  EXPECT_EQ(parse_nvme_address("10000:01:00.0").pci_address, "10000:01:00.0");
  EXPECT_EQ(parse_nvme_address("not-an-address").pci_address, "");
}

TEST(NvmeAddress, UnknownKeysAndOddTextsAreSkipped) {
  const NvmeAddress address = parse_nvme_address(",, tls=1 traddr=192.0.2.1,new_key=a=b,traddr=192.0.2.9,=x,trsvcid=");
  EXPECT_EQ(address.traddr, "192.0.2.1");  // the first stands
  EXPECT_EQ(address.trsvcid, "");
  EXPECT_EQ(parse_nvme_address(""), NvmeAddress());
}

TEST(NvmeState, WordsOfTheKernel) {
  for (NvmeState state : kNvmeStates) EXPECT_EQ(parse_nvme_state(std::string(to_string(state)) + "\n"), state);
  EXPECT_EQ(parse_nvme_state("deleting (no IO)"), NvmeState::kDeleting);
  EXPECT_EQ(parse_nvme_state(" live "), NvmeState::kLive);
}

TEST(NvmeState, AnyOtherWordIsUnknown) {
  for (const char* text : {"quiescing-v2", "liver", "LIVE", "", "unknown state", "(no IO)", "not live"})
    EXPECT_EQ(parse_nvme_state(text), NvmeState::kUnknown) << text;
}

TEST(NvmeAna, ClosedSet) {
  EXPECT_EQ(parse_ana_state("non-optimized\n"), "non-optimized");
  EXPECT_EQ(parse_ana_state("persistent-loss"), "persistent-loss");
  EXPECT_EQ(parse_ana_state("better"), "unknown");
}

TEST(NvmeNames, DisksPathsAndControllers) {
  const auto path = parse_nvme_disk_name("nvme1c12n3");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->first, "1");
  EXPECT_EQ(path->controller, "12");
  EXPECT_EQ(path->instance, "3");
  EXPECT_EQ(parse_nvme_disk_name("nvme0n1")->controller, "");
  for (const char* name : {"nvme0n1p2", "nvme0", "nvme", "nvmen1", "nvme0c1", "nvme0cn1", "sda", "nvme0n",
                           "nvme-subsys0", "nvme0n99999999999"})
    EXPECT_FALSE(parse_nvme_disk_name(name).has_value()) << name;
  EXPECT_TRUE(is_nvme_controller_name("nvme10"));
  for (const char* name : {"nvme", "nvme0n1", "nvme-fabrics", "xnvme0", "nvme0 "})
    EXPECT_FALSE(is_nvme_controller_name(name)) << name;
}

TEST(BlockStatistics, SectorsAreAlways512Bytes) {
  const auto statistics =
      parse_block_statistics("  100   1   800   250    40    2   320   90    7   300  340    0 0 0 0 5 6\n");
  ASSERT_TRUE(statistics.has_value());
  EXPECT_EQ(statistics->read.operations, 100U);
  EXPECT_EQ(statistics->read.bytes, 409600U);
  EXPECT_EQ(statistics->read.milliseconds, 250U);
  EXPECT_EQ(statistics->write.operations, 40U);
  EXPECT_EQ(statistics->write.bytes, 163840U);
  EXPECT_EQ(statistics->write.milliseconds, 90U);
  EXPECT_EQ(statistics->in_flight, 7U);
}

TEST(BlockStatistics, AShortOrOddLineIsNone) {
  EXPECT_TRUE(parse_block_statistics("1 2 3 4 5 6 7 8 9 10 11").has_value());
  EXPECT_FALSE(parse_block_statistics("1 2 3 4 5 6 7 8 9 10").has_value());
  EXPECT_FALSE(parse_block_statistics("1 2 3 x 5 6 7 8 9 10 11").has_value());
  EXPECT_FALSE(parse_block_statistics("").has_value());
}

TEST(NvmeTime, OffIsNever) {
  EXPECT_TRUE(parse_nvme_time("off\n")->never);
  EXPECT_TRUE(parse_nvme_time("-1")->never);
  EXPECT_FALSE(parse_nvme_time("600")->never);
  EXPECT_EQ(parse_nvme_time("600")->seconds, 600U);
  EXPECT_FALSE(parse_nvme_time("soon").has_value());
  EXPECT_FALSE(parse_nvme_time("").has_value());
}

class NvmeTreeTest : public testing::Test {
 protected:
  NvmeTree list() { return list_nvme(*tree_.host()).value(); }
  TempTree tree_;
};

TEST_F(NvmeTreeTest, AHostWithoutNvmeIsEmpty) {
  const NvmeTree tree = list();
  EXPECT_TRUE(tree.controllers.empty());
  EXPECT_TRUE(tree.subsystems.empty());
}

TEST_F(NvmeTreeTest, AControllerIsOneWhereverItIsListed) {
  tree_.write("sys/devices/virtual/nvme-fabrics/ctl/nvme3/state", "live\n");
  tree_.write("sys/devices/virtual/nvme-fabrics/ctl/nvme3/nvme1c3n2/stat", "\n");
  tree_.link("sys/class/nvme/nvme3", "../../devices/virtual/nvme-fabrics/ctl/nvme3");
  tree_.link("sys/class/nvme-fabrics/ctl", "../../devices/virtual/nvme-fabrics/ctl");
  tree_.link("sys/class/nvme-subsystem/nvme-subsys1/nvme3", "../../../devices/virtual/nvme-fabrics/ctl/nvme3");
  tree_.write("sys/class/nvme-subsystem/nvme-subsys1/nvme1n2/size", "1\n");
  tree_.link("sys/block/nvme1c3n2", "../devices/virtual/nvme-fabrics/ctl/nvme3/nvme1c3n2");
  tree_.link("sys/block/nvme1n2", "../class/nvme-subsystem/nvme-subsys1/nvme1n2");
  const NvmeTree tree = list();
  ASSERT_EQ(tree.controllers.size(), 1U);
  EXPECT_EQ(tree.controllers[0].name, "nvme3");
  EXPECT_EQ(tree.controllers[0].subsystem, "nvme-subsys1");
  ASSERT_EQ(tree.controllers[0].paths.size(), 1U);
  EXPECT_EQ(tree.controllers[0].paths[0].disk, "nvme1c3n2");
  EXPECT_EQ(tree.controllers[0].paths[0].name_space, "nvme1n2");
  ASSERT_EQ(tree.subsystems.size(), 1U);
  ASSERT_EQ(tree.subsystems[0].namespaces.size(), 1U);
  EXPECT_EQ(tree.subsystems[0].namespaces[0].name, "nvme1n2");
}

TEST_F(NvmeTreeTest, PathsAreFoundBelowTheSubsystemOrAmongTheDisksToo) {
  tree_.write("sys/class/nvme-subsystem/nvme-subsys0/nvme4/state", "live\n");
  tree_.write("sys/class/nvme-subsystem/nvme-subsys0/nvme0c4n1/ana_state", "optimized\n");
  tree_.write("sys/block/nvme0c4n2/ana_state", "change\n");
  tree_.write("sys/block/nvme0c5n2/ana_state", "change\n");  // of a controller that is not there
  const NvmeTree tree = list();
  ASSERT_EQ(tree.controllers.size(), 1U);
  ASSERT_EQ(tree.controllers[0].paths.size(), 2U);
  EXPECT_EQ(tree.controllers[0].paths[0].disk, "nvme0c4n1");
  EXPECT_EQ(tree.controllers[0].paths[1].disk, "nvme0c4n2");
}

TEST_F(NvmeTreeTest, WithoutNativeMultipathADiskIsItsOwnPath) {
  tree_.write("sys/class/nvme/nvme2/state", "live\n");
  tree_.write("sys/class/nvme/nvme2/nvme2n1/stat", "\n");
  const NvmeTree tree = list();
  ASSERT_EQ(tree.controllers.size(), 1U);
  ASSERT_EQ(tree.controllers[0].paths.size(), 1U);
  EXPECT_EQ(tree.controllers[0].paths[0].name_space, "nvme2n1");
}

}  // namespace
}  // namespace roce

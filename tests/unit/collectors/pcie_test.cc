// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/devlink.h"
#include "tests/unit/collectors/collector_fixture.h"

namespace roce {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRoot = "sys/devices/pci0000:3a/0000:3a:00.0/";
constexpr const char* kNic = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/";

// Configuration space with the PCI Express capability at 0x60 and one entry before it.
std::string config_space(unsigned device_control, std::size_t size = 256, unsigned type = 0, unsigned width = 16) {
  std::string bytes(256, '\0');
  bytes[0] = '\x15';
  bytes[6] = '\x10';
  bytes[0x34] = '\x40';
  bytes[0x40] = '\x01';
  bytes[0x41] = '\x60';
  bytes[0x60] = '\x10';
  bytes[0x62] = static_cast<char>(type << 4U | 2U);
  bytes[0x68] = static_cast<char>(device_control & 0xffU);
  bytes[0x69] = static_cast<char>(device_control >> 8U);
  bytes[0x6c] = static_cast<char>((width << 4U & 0xf0U) | 4U);
  bytes[0x6d] = static_cast<char>(width >> 4U);
  return bytes.substr(0, size);
}

class PcieTest : public CollectorFixture {
 protected:
  PcieTest() { tree_.add_port("mlx5_0"); }

  void add_link(const std::string& dir, const char* width, const char* max_width, const char* speed,
                const char* max_speed) const {
    tree_.write(dir + "current_link_width", width);
    tree_.write(dir + "max_link_width", max_width);
    tree_.write(dir + "current_link_speed", speed);
    tree_.write(dir + "max_link_speed", max_speed);
  }
  // A NIC in the slot of a root port.
  void add_nic() const {
    add_link(kNic, "16\n", "16\n", "16.0 GT/s PCIe\n", "32.0 GT/s PCIe\n");
    add_link(kRoot, "16\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n");
    tree_.link("sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0");
  }
};

constexpr const char* kLink = "{device=\"mlx5_0\",pci_address=\"0000:3b:00.0\",upstream_address=\"0000:3a:00.0\"} ";

TEST_F(PcieTest, ALinkThatTrainedAsBothEndsAllowIsAsExpected) {
  add_nic();
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_lanes") + kLink + "16\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_expected_lanes") + kLink + "16\n"));
  // The device could do more than its slot.
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_transfers_per_second") + kLink + "16000000000\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_expected_transfers_per_second") + kLink + "16000000000\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_max_transfers_per_second{device=\"mlx5_0\",pci_address=\"0000:3b:00.0\"} "
                              "32000000000\n"));
  // 16 lanes of 16 GT/s with 128b/130b.
  EXPECT_THAT(text, HasSubstr("roce_pcie_path_bandwidth_bytes_per_second{device=\"mlx5_0\"} 31507692307.69"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_limiting_link_info") + kLink + "1\n"));
}

TEST_F(PcieTest, AChangeOfTheLinkShowsAtTheNextRead) {
  add_nic();
  const auto collector = create("pcie", "mlx5_0");
  page(*collector);
  tree_.write(std::string(kNic) + "current_link_width", "8\n");
  tree_.write(std::string(kNic) + "current_link_speed", "8 GT/s\n");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_lanes") + kLink + "8\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_expected_lanes") + kLink + "16\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_transfers_per_second") + kLink + "8000000000\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_path_expected_bandwidth_bytes_per_second{device=\"mlx5_0\"} 31507692307.69"));
}

TEST_F(PcieTest, TheLinkAboveASwitchCanBeTheNarrowOne) {
  const std::string top = "sys/devices/pci0000:10/0000:10:01.0/";
  add_link(top, "4\n", "16\n", "8.0 GT/s PCIe\n", "16.0 GT/s PCIe\n");
  add_link(top + "0000:11:00.0/", "4\n", "8\n", "8.0 GT/s PCIe\n", "16.0 GT/s PCIe\n");
  add_link(top + "0000:11:00.0/0000:12:02.0/", "8\n", "8\n", "8.0 GT/s PCIe\n", "8.0 GT/s PCIe\n");
  add_link(top + "0000:11:00.0/0000:12:02.0/0000:13:00.0/", "8\n", "8\n", "8.0 GT/s PCIe\n", "8.0 GT/s PCIe\n");
  tree_.link("sys/class/infiniband/mlx5_0/device",
             "../../../devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:02.0/0000:13:00.0");
  const std::string text = page("pcie", "mlx5_0");
  const std::string upper = "{device=\"mlx5_0\",pci_address=\"0000:11:00.0\",upstream_address=\"0000:10:01.0\"} ";
  EXPECT_THAT(text, HasSubstr("roce_pcie_link_lanes" + upper + "4\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_link_expected_lanes" + upper + "8\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_link_lanes{device=\"mlx5_0\",pci_address=\"0000:13:00.0\","
                              "upstream_address=\"0000:12:02.0\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_limiting_link_info" + upper + "1\n"));
  // What lies inside the switch is no link.
  EXPECT_THAT(text, Not(HasSubstr("pci_address=\"0000:12:02.0\",upstream_address")));
}

TEST_F(PcieTest, WhatTheKernelDoesNotKnowIsAbsent) {
  add_nic();
  add_link(kNic, "0\n", "255\n", "Unknown\n", "Unknown\n");
  tree_.remove(std::string(kRoot) + "current_link_width");
  tree_.write(std::string(kRoot) + "current_link_speed", "garbage\n");
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_link_lanes{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_link_transfers_per_second{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_path_bandwidth_bytes_per_second{")));
  EXPECT_THAT(text, Not(HasSubstr("255")));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_expected_lanes") + kLink + "16\n"));
}

TEST_F(PcieTest, TransferSettingsComeFromTheCapability) {
  add_nic();
  // MaxReadReq 4096, MaxPayload 512, relaxed ordering on; then 512, 256, off.
  tree_.write(std::string(kNic) + "config", config_space(0x5957));
  tree_.write(std::string(kRoot) + "config", config_space(0x0020, 256, 4));
  const auto collector = create("pcie", "mlx5_0");
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_pcie_max_read_request_bytes{device=\"mlx5_0\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_max_payload_bytes{device=\"mlx5_0\",pci_address=\"0000:3b:00.0\"} 512\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_max_payload_bytes{device=\"mlx5_0\",pci_address=\"0000:3a:00.0\"} 256\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_relaxed_ordering_enabled{device=\"mlx5_0\"} 1\n"));
  tree_.write(std::string(kNic) + "config", config_space(0x2926));
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_pcie_max_read_request_bytes{device=\"mlx5_0\"} 512\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_relaxed_ordering_enabled{device=\"mlx5_0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_device_lost{device=\"mlx5_0\"} 0\n"));
}

TEST_F(PcieTest, SixtyFourBytesAreDeniedNotZero) {
  add_nic();
  tree_.write(std::string(kNic) + "config", config_space(0x5957, 64));
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_max_read_request_bytes{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_relaxed_ordering_enabled{")));
  EXPECT_THAT(text, HasSubstr("counter=\"pci_config\",state=\"denied\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(std::string("roce_pcie_link_lanes") + kLink + "16\n"));
}

TEST_F(PcieTest, AllOnesAreALostDeviceAndNoValues) {
  add_nic();
  tree_.write(std::string(kNic) + "config", std::string(256, '\xff'));
  add_link(kNic, "63\n", "255\n", "Unknown\n", "Unknown\n");
  tree_.write(std::string(kNic) + "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 18446744073709551615\n");
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_THAT(error_, HasSubstr("off its bus"));
  EXPECT_EQ(kind_, "lost");
  EXPECT_THAT(text, HasSubstr("roce_pcie_device_lost{device=\"mlx5_0\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_max_read_request_bytes{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_link")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_aer")));
}

TEST_F(PcieTest, TheWidthAloneTellsALostDevice) {
  add_nic();
  tree_.write(std::string(kNic) + "current_link_width", "63\n");
  EXPECT_THAT(page("pcie", "mlx5_0"), HasSubstr("roce_pcie_device_lost{device=\"mlx5_0\"} 1\n"));
}

TEST_F(PcieTest, ErrorTotalsOfTheDeviceAndOfThePortAbove) {
  add_nic();
  tree_.write(std::string(kNic) + "aer_dev_correctable", "RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7\n");
  tree_.write(std::string(kNic) + "aer_dev_nonfatal", "Undefined 0\nTLP 0\n TOTAL_ERR_NONFATAL 0\n");
  tree_.write(std::string(kNic) + "aer_dev_fatal", "not a line\n");
  tree_.write(std::string(kRoot) + "aer_dev_correctable",
              "RxErr 18446744073709551614\nTOTAL_ERR_COR "
              "18446744073709551614\n");
  const auto collector = create("pcie", "mlx5_0");
  std::string text = page(*collector);
  const std::string nic = "roce_pcie_aer_errors_total{device=\"mlx5_0\",pci_address=\"0000:3b:00.0\",severity=";
  EXPECT_THAT(text, HasSubstr(nic + "\"correctable\"} 7\n"));
  EXPECT_THAT(text, HasSubstr(nic + "\"nonfatal\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr(nic + "\"fatal\"}")));
  EXPECT_THAT(text, HasSubstr("pci_address=\"0000:3a:00.0\",severity=\"correctable\"} 18446744073709551614\n"));
  tree_.write(std::string(kNic) + "aer_dev_correctable", "RxErr 3\nBadTLP 9\nTOTAL_ERR_COR 12\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr(nic + "\"correctable\"} 12\n"));
}

TEST_F(PcieTest, TheIommuIsNamedByTheGroupAndAbsentWhereNothingTellsIt) {
  add_nic();
  EXPECT_THAT(page("pcie", "mlx5_0"), Not(HasSubstr("roce_pcie_iommu_info{")));
  tree_.write("sys/kernel/iommu_groups/12/type", "identity\n");
  tree_.link(std::string(kNic) + "iommu_group", "../../../../kernel/iommu_groups/12");
  EXPECT_THAT(page("pcie", "mlx5_0"), HasSubstr("roce_pcie_iommu_info{device=\"mlx5_0\",type=\"identity\"} 1\n"));
  tree_.remove(std::string(kNic) + "iommu_group");
  std::filesystem::create_directories(tree_.path("sys/class/iommu"));
  EXPECT_THAT(page("pcie", "mlx5_0"), HasSubstr("type=\"none\"} 1\n"));
}

TEST_F(PcieTest, AVirtualFunctionLeavesTheLinkToItsPhysicalFunction) {
  add_nic();
  tree_.link(std::string(kNic) + "physfn", "../0000:3b:00.1");
  std::filesystem::create_directories(tree_.path(std::string(kRoot) + "0000:3b:00.1"));
  tree_.write(std::string(kNic) + "config", config_space(0x5957));
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_link")));
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_max")));
}

TEST_F(PcieTest, AVirtualFunctionThatDoesNotLookLikeOneHasNoSettingsOfItsOwn) {
  add_nic();
  add_link(kNic, "0\n", "255\n", "Unknown\n", "Unknown\n");
  tree_.write(std::string(kNic) + "config", config_space(0x0000, 256, 0, 0));
  const std::string text = page("pcie", "mlx5_0");
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, Not(HasSubstr("roce_pcie_max_read_request_bytes{")));
  EXPECT_THAT(text, HasSubstr("roce_pcie_device_lost{device=\"mlx5_0\"} 0\n"));
}

TEST_F(PcieTest, ATreeThatHoldsTheFilesWithoutThePathIsReadToo) {
  add_link("sys/class/infiniband/mlx5_0/device/", "8\n", "16\n", "16.0 GT/s PCIe\n", "16.0 GT/s PCIe\n");
  const std::string text = page("pcie", "mlx5_0");
  const std::string link = "{device=\"mlx5_0\",pci_address=\"\",upstream_address=\"\"} ";
  EXPECT_THAT(text, HasSubstr("roce_pcie_link_lanes" + link + "8\n"));
  EXPECT_THAT(text, HasSubstr("roce_pcie_link_expected_lanes" + link + "16\n"));
}

TEST_F(PcieTest, AVirtualDeviceHasNoPcieSeries) {
  EXPECT_EQ(page("pcie", "mlx5_0"), "");
  EXPECT_EQ(error_, "");
}

// ---- hwmon ----

TEST_F(PcieTest, TemperaturesAreDegreesCelsius) {
  add_nic();
  const std::string dir = std::string(kNic) + "hwmon/hwmon7/";
  tree_.write(dir + "name", "mlx5\n");
  tree_.write(dir + "temp1_input", "61125\n");
  tree_.write(dir + "temp1_label", "asic\n");
  tree_.write(dir + "temp1_crit", "105000\n");
  tree_.write(dir + "temp1_highest", "70000\n");
  tree_.write(dir + "temp2_input", "-5000\n");
  tree_.write(dir + "temp2_label", "Module 0\n");
  tree_.write(dir + "temp3_input", "99\n");
  tree_.write(dir + "temp3_fault", "1\n");
  const auto collector = create("hwmon", "mlx5_0");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  const std::string asic = "{device=\"mlx5_0\",sensor=\"temp1\",label=\"asic\"";
  EXPECT_THAT(text, HasSubstr("roce_temperature_celsius" + asic + "} 61.125\n"));
  EXPECT_THAT(text, HasSubstr("roce_temperature_limit_celsius" + asic + ",limit=\"crit\"} 105\n"));
  EXPECT_THAT(text, HasSubstr("roce_temperature_highest_celsius" + asic + "} 70\n"));
  EXPECT_THAT(text, HasSubstr("roce_temperature_celsius{device=\"mlx5_0\",sensor=\"temp2\",label=\"Module 0\"} -5\n"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("temp3")), Not(HasSubstr("limit=\"max\""))));
  tree_.write(dir + "temp1_input", "90000\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_temperature_celsius" + asic + "} 90\n"));
}

TEST_F(PcieTest, AnOddTemperatureFailsAloneAndIsNoValue) {
  add_nic();
  const std::string dir = std::string(kNic) + "hwmon/hwmon7/";
  tree_.write(dir + "temp1_input", "hot\n");
  tree_.write(dir + "temp2_input", "40000\n");
  tree_.write(dir + "temp3_input", "9223372036854775807\n");
  const std::string text = page("hwmon", "mlx5_0");
  EXPECT_EQ(kind_, "malformed");
  EXPECT_THAT(text, HasSubstr("sensor=\"temp2\",label=\"\"} 40\n"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("temp1")), Not(HasSubstr("temp3"))));
}

TEST_F(PcieTest, TheClassOfSensorsIsSearchedWhereTheFunctionHasNone) {
  add_nic();
  tree_.write("sys/class/hwmon/hwmon3/temp1_input", "51000\n");
  tree_.link("sys/class/hwmon/hwmon3/device", "../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0");
  tree_.write("sys/class/hwmon/hwmon4/temp1_input", "33000\n");
  tree_.link("sys/class/hwmon/hwmon4/device", "../../../devices/pci0000:3a/0000:3a:00.0");
  const std::string text = page("hwmon", "mlx5_0");
  EXPECT_THAT(text, HasSubstr("} 51\n"));
  EXPECT_THAT(text, Not(HasSubstr("} 33\n")));
}

// ---- devlink ----

class FakeDevlink : public DevlinkSource {
 public:
  Result<std::vector<HealthReporter>> health_reporters(const DevlinkHandle& device) override {
    asked = device;
    return answer;
  }
  Result<std::vector<HealthReporter>> answer;
  DevlinkHandle asked;
};

TEST_F(PcieTest, HealthReportersOfOneNameAreAddedUp) {
  add_nic();
  const auto devlink = std::make_shared<FakeDevlink>();
  devlink->answer = std::vector<HealthReporter>{
      {{}, "fw", std::nullopt, false, 3, 2}, {{}, "tx", 1, true, 5, 4}, {{}, "tx", 2, false, 6, 6}};
  host_->devlink = devlink;
  const auto collector = create("devlink", "mlx5_0");
  std::string text = page(*collector);
  EXPECT_EQ(devlink->asked, (DevlinkHandle{"pci", "0000:3b:00.0"}));
  EXPECT_THAT(text, HasSubstr("roce_devlink_health_state{device=\"mlx5_0\",reporter=\"fw\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_devlink_health_state{device=\"mlx5_0\",reporter=\"tx\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_devlink_health_errors_total{device=\"mlx5_0\",reporter=\"tx\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("roce_devlink_health_recoveries_total{device=\"mlx5_0\",reporter=\"tx\"} 10\n"));
  devlink->answer = std::vector<HealthReporter>{{{}, "fw", std::nullopt, true, 4, 2}};
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_devlink_health_errors_total{device=\"mlx5_0\",reporter=\"fw\"} 4\n"));
  EXPECT_THAT(text, Not(HasSubstr("\"tx\"")));
}

TEST_F(PcieTest, WithoutDevlinkThereIsNothingAndInARecordingItSaysSo) {
  add_nic();
  const auto devlink = std::make_shared<FakeDevlink>();
  host_->devlink = devlink;
  devlink->answer = fail(ErrorKind::kAbsent, "family");
  EXPECT_EQ(page("devlink", "mlx5_0"), "");
  EXPECT_EQ(error_, "");
  devlink->answer = fail(ErrorKind::kNotRecorded, "recording");
  EXPECT_THAT(page("devlink", "mlx5_0"), HasSubstr("counter=\"devlink_health\",state=\"not_recorded\"} 1\n"));
  EXPECT_EQ(error_, "");
  devlink->answer = fail(ErrorKind::kTimeout, "kernel");
  EXPECT_EQ(page("devlink", "mlx5_0"), "");
  EXPECT_EQ(kind_, "timeout");
}

}  // namespace
}  // namespace roce

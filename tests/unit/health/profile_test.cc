// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace roce {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kWhole = R"(profile: 1
roles:
  storage: {mtu: 9000, pfc_priorities: [3], dscp: {26: 3, 48: 6}, ecn: true}
devices:
  - pci_address: "0000:17:00.0"
    role: storage
    ports: [1, 3]
    rate: 200
    path_mtu: 4096
    pcie: {lanes: 16, speed: 32}
    max_read_request: 4096
    firmware: "28.39.1002"
  - device: mlx5_9
    role: management
    mtu: 1500
host:
  memlock: 64GiB
  hugepages:
    - {size: 1GiB, pages: 16, node: 1}
    - {size: 2MiB, pages: 0}
nvme: {io_queues: 8, queue_depth: 128, keep_alive: 5, loss_timeout: off, reconnect_delay: 10}
waivers:
  - {check: rate, object: mlx5_9/1, reason: spare link, until: 2026-12-31}
classes:
  - name: gpu
    hosts: 'gpu-\d+'
    roles: {storage: {mtu: 4200}}
    devices:
      - {pci_address: "0000:17:00.0", rate: 400, ports: []}
      - {device: mlx5_2, role: compute}
    nvme: {io_queues: 16}
)";

TEST(ProfileTest, ReadsEveryKey) {
  const auto profile = parse_profile(kWhole, "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  const auto device = expectation_of(*profile, "mlx5_0", "0000:17:00.0");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->role, "storage");
  EXPECT_THAT(*device->ports, ElementsAre(1U, 3U));
  EXPECT_EQ(device->rate_gbps, 200);
  EXPECT_EQ(device->mtu, 9000U);
  EXPECT_EQ(device->path_mtu, 4096U);
  EXPECT_EQ(device->pcie_lanes, 16U);
  EXPECT_EQ(device->pcie_gts, 32);
  EXPECT_EQ(device->max_read_request, 4096U);
  EXPECT_THAT(*device->pfc_priorities, ElementsAre(3U));
  EXPECT_EQ(device->dscp.at(48), 6U);
  EXPECT_EQ(device->ecn, true);
  EXPECT_EQ(device->firmware, "28.39.1002");
  EXPECT_EQ(profile->host.memlock, std::ldexp(64, 30));
  ASSERT_EQ(profile->host.hugepages.size(), 2U);
  EXPECT_EQ(profile->host.hugepages[0].node, 1U);
  EXPECT_EQ(profile->host.hugepages[1].pages, 0U);
  EXPECT_TRUE(std::isinf(*profile->nvme.loss_timeout));
  EXPECT_EQ(profile->waivers[0].until, "2026-12-31");
}

TEST(ProfileTest, TheDevicesOwnValuesLieOverThoseOfItsRole) {
  const auto profile = parse_profile(
      "roles: {storage: {mtu: 9000, rate: 100}}\ndevices: [{device: a, role: storage, mtu: 4200}]\n", "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  const auto device = expectation_of(*profile, "a", "");
  EXPECT_EQ(device->mtu, 4200U);
  EXPECT_EQ(device->rate_gbps, 100);
  EXPECT_FALSE(expectation_of(*profile, "b", ""));
}

TEST(ProfileTest, ClassesLieOverTheRestForTheirHostsAlone) {
  const auto profile = parse_profile(kWhole, "p.yml");
  ASSERT_TRUE(profile.has_value()) << profile.error();
  const Profile gpu = for_host(*profile, "gpu-17");
  const auto device = expectation_of(gpu, "mlx5_0", "0000:17:00.0");
  EXPECT_EQ(device->rate_gbps, 400);
  EXPECT_EQ(device->mtu, 4200U);
  EXPECT_THAT(*device->ports, testing::IsEmpty());
  EXPECT_EQ(device->path_mtu, 4096U);
  EXPECT_EQ(gpu.nvme.io_queues, 16U);
  EXPECT_EQ(gpu.nvme.queue_depth, 128U);
  EXPECT_TRUE(expectation_of(gpu, "mlx5_2", ""));
  const Profile other = for_host(*profile, "gpu-17.example");
  EXPECT_EQ(expectation_of(other, "mlx5_0", "0000:17:00.0")->rate_gbps, 200);
  EXPECT_FALSE(expectation_of(other, "mlx5_2", ""));
}

TEST(ProfileTest, AWaiverHoldsToTheEndOfItsDay) {
  const Waiver waiver{"rate", "", "x", "2026-02-28"};
  EXPECT_EQ(waiver_end(waiver), 1772323200);  // 2026-03-01T00:00:00Z
  EXPECT_TRUE(waiver_holds(waiver, 1772323199));
  EXPECT_FALSE(waiver_holds(waiver, 1772323200));
  EXPECT_TRUE(waiver.covers("rate", "mlx5_0/1"));
  EXPECT_FALSE(waiver.covers("mtu", "mlx5_0/1"));
}

TEST(ProfileTest, IsToldFromAConfigurationFile) {
  EXPECT_TRUE(looks_like_profile("# x\ndevices: [\n"));
  EXPECT_TRUE(looks_like_profile("nvme: {}\n"));
  EXPECT_FALSE(looks_like_profile("web: {}\nlog:\n  devices: 1\n"));
  EXPECT_FALSE(looks_like_profile(""));
}

struct Mistake {
  std::string name;
  std::string text;
  std::string message;  // after "p.yml:"
};

class ProfileMistakeTest : public testing::TestWithParam<Mistake> {};

// File, line, key, what was found, what is allowed: in one line.
TEST_P(ProfileMistakeTest, IsOneLineThatNamesTheLineAndTheKey) {
  const auto profile = parse_profile(GetParam().text, "p.yml");
  ASSERT_FALSE(profile.has_value());
  EXPECT_THAT(profile.error(), testing::StartsWith("p.yml:" + GetParam().message));
  EXPECT_EQ(profile.error().find('\n'), std::string::npos);
  EXPECT_THAT(profile.error(), HasSubstr(": found "));
  EXPECT_THAT(profile.error(), HasSubstr(", allowed "));
}

const std::string kDevice = "devices:\n  - device: a\n    ";

INSTANTIATE_TEST_SUITE_P(
    All, ProfileMistakeTest,
    testing::Values(
        Mistake{"Empty", "# nothing\n", "1: found nothing, allowed a mapping with profile, devices,"},
        Mistake{"NoMapping", "- a\n", "1: found a list, allowed a mapping with"},
        Mistake{"Syntax", "devices: [\n", "2: found a syntax error"},
        Mistake{"UnknownKey", "devices: []\nno_such: 1\n",
                "2: key `no_such`: found an unknown key, allowed profile, devices, roles"},
        Mistake{"Misspelt", kDevice + "rat: 200\n",
                "3: key `devices[0].rat`: found an unknown key, allowed pci_address"},
        Mistake{"Duplicate", kDevice + "mtu: 1500\n    mtu: 9000\n",
                "4: key `devices[0].mtu`: found it again (first in line 3), allowed each key once"},
        Mistake{"Version", "profile: 2\n", "1: key `profile`: found `2`, allowed a whole number from 1 to 1"},
        Mistake{"DevicesNoList", "devices: {a: 1}\n", "1: key `devices`: found a mapping, allowed a list of devices"},
        Mistake{"DeviceWithoutName", "devices:\n  - role: storage\n",
                "2: key `devices[0]`: found a device without a name, allowed pci_address or device in each entry"},
        Mistake{"DeviceTwice", "devices:\n  - device: a\n  - device: a\n",
                "3: key `devices[1]`: found `a` again (first in line 2), allowed each device once"},
        Mistake{"PciAddress", "devices:\n  - pci_address: 17:00.0\n",
                "2: key `devices[0].pci_address`: found `17:00.0`, allowed a PCI address"},
        Mistake{"Role", kDevice + "role: storge\n",
                "3: key `devices[0].role`: found `storge`, allowed storage, compute or management; did you mean "
                "`storage`?"},
        Mistake{"RoleSection", "roles: {backup: {mtu: 1500}}\n",
                "1: key `roles.backup`: found an unknown key, allowed storage, compute or management"},
        Mistake{"Rate", kDevice + "rate: 200Gb\n",
                "3: key `devices[0].rate`: found `200Gb`, allowed a number from 0.1 to 10000"},
        Mistake{"RateNaN", kDevice + "rate: nan\n", "3: key `devices[0].rate`: found `nan`, allowed a number"},
        Mistake{"Mtu", kDevice + "mtu: 67\n",
                "3: key `devices[0].mtu`: found `67`, allowed a whole number from 68 to 65535"},
        Mistake{"PathMtu", kDevice + "path_mtu: 4000\n",
                "3: key `devices[0].path_mtu`: found `4000`, allowed 256, 512, 1024, 2048 or 4096"},
        Mistake{"Lanes", kDevice + "pcie: {lanes: 12}\n",
                "3: key `devices[0].pcie.lanes`: found `12`, allowed 1, 2, 4, 8, 16 or 32"},
        Mistake{"Speed", kDevice + "pcie: {speed: Gen4}\n",
                "3: key `devices[0].pcie.speed`: found `Gen4`, allowed 2.5, 5, 8, 16, 32 or 64"},
        Mistake{"ReadRequest", kDevice + "max_read_request: 5957\n",
                "3: key `devices[0].max_read_request`: found `5957`, allowed 128,"},
        Mistake{"PriorityRange", kDevice + "pfc_priorities: [3, 8]\n",
                "3: key `devices[0].pfc_priorities[1]`: found `8`, allowed a whole number from 0 to 7"},
        Mistake{"PriorityTwice", kDevice + "pfc_priorities: [3, 3]\n",
                "3: key `devices[0].pfc_priorities[1]`: found `3` twice, allowed each priority once"},
        Mistake{"PriorityNoList", kDevice + "pfc_priorities: 3\n",
                "3: key `devices[0].pfc_priorities`: found `3`, allowed a list of priorities"},
        Mistake{"PortRange", kDevice + "ports: [0]\n",
                "3: key `devices[0].ports[0]`: found `0`, allowed a whole number from 1 to 255"},
        Mistake{"PortTwice", kDevice + "ports:\n      - 1\n      - 1\n",
                "5: key `devices[0].ports[1]`: found `1` twice, allowed each port once"},
        Mistake{"PortsNoList", kDevice + "ports: all\n",
                "3: key `devices[0].ports`: found `all`, allowed a list of ports such as [1, 2], or [] for none"},
        Mistake{"DscpRange", kDevice + "dscp: {64: 3}\n",
                "3: key `devices[0].dscp`: found `64` as a key, allowed a mapping of DSCP (0 to 63)"},
        Mistake{"DscpPriority", kDevice + "dscp: {26: 9}\n",
                "3: key `devices[0].dscp.26`: found `9`, allowed a whole number from 0 to 7"},
        Mistake{"Ecn", kDevice + "ecn: \"on\"\n", "3: key `devices[0].ecn`: found `on`, allowed true or false"},
        Mistake{"Memlock", "host: {memlock: lots}\n",
                "1: key `host.memlock`: found `lots`, allowed unlimited, or a size such as 64GiB"},
        Mistake{"HugepageSize", "host: {hugepages: [{size: 0MiB, pages: 1}]}\n",
                "1: key `host.hugepages[0].size`: found `0MiB`, allowed a size of huge pages"},
        Mistake{"HugepageHalf", "host:\n  hugepages:\n    - {size: 2MiB}\n",
                "3: key `host.hugepages[0]`: found an entry without both, allowed size and pages"},
        Mistake{"Seconds", "nvme: {keep_alive: 5s}\n",
                "1: key `nvme.keep_alive`: found `5s`, allowed a whole number of seconds from 0 to 1000000, or off"},
        Mistake{"Queues", "nvme: {io_queues: 0}\n",
                "1: key `nvme.io_queues`: found `0`, allowed a whole number from 1 to 65535"},
        Mistake{"WaiverCheck", "waivers: [{check: rat, reason: x, until: 2026-12-31}]\n",
                "1: key `waivers[0].check`: found `rat`, allowed the id of a check"},
        Mistake{"WaiverDate", "waivers: [{check: rate, reason: x, until: 2026-02-30}]\n",
                "1: key `waivers[0].until`: found `2026-02-30`, allowed a day as YYYY-MM-DD"},
        Mistake{"WaiverReason", "waivers: [{check: rate, until: 2026-12-31}]\n",
                "1: key `waivers[0]`: found a waiver without `reason`, allowed check, reason and until in each"},
        Mistake{"ClassHosts", "classes: [{name: a, hosts: '('}]\n",
                "1: key `classes[0].hosts`: found `(`, allowed a regular expression in RE2 syntax"},
        Mistake{"ClassHalf", "classes: [{name: a}]\n",
                "1: key `classes[0]`: found a class without both, allowed name and hosts in each class"},
        Mistake{"Alias", "devices: &a []\nroles: *a\n", "1: found the anchor"},
        Mistake{"Encoding", "devices: \xff\n", "1: found the byte 0xff, allowed UTF-8"}),
    [](const auto& row) { return row.param.name; });

TEST(ProfileTest, NamesEveryFurtherMistake) {
  const auto profile = parse_profile("devices:\n  - device: a\n    mtu: 1\nno: 1\n", "p.yml");
  ASSERT_FALSE(profile.has_value());
  EXPECT_THAT(profile.error(), HasSubstr("; and 1 more: line 4: key `no`: found an unknown key"));
}

TEST(ProfileTest, AFileThatIsNoneIsOneLine) {
  for (const std::string file : {"/no/such/file", "/tmp", "/dev/zero"}) {
    const auto profile = read_profile(file);
    ASSERT_FALSE(profile.has_value()) << file;
    EXPECT_THAT(profile.error(), HasSubstr(file));
    EXPECT_EQ(profile.error().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace roce

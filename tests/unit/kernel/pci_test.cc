// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/pci.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "exporter/kernel/privileges.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

Result<PciConfig> parse(const std::vector<std::uint8_t>& bytes) {
  return parse_pci_config(
      [&](std::size_t offset, std::span<std::uint8_t> out) -> Result<std::size_t> {
        if (offset >= bytes.size()) return std::size_t{0};
        const std::size_t n = std::min(out.size(), bytes.size() - offset);
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), n, out.begin());
        return n;
      },
      "config");
}

std::vector<std::uint8_t> with_capability_list() {
  std::vector<std::uint8_t> bytes(256);
  bytes[0] = 0xb3;
  bytes[6] = 0x10;
  bytes[0x34] = 0x40;
  return bytes;
}

TEST(PciConfig, AnEmptyOrShortHeader) {
  EXPECT_EQ(parse({}).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(parse(std::vector<std::uint8_t>(10)).error().kind, ErrorKind::kMalformed);
}

TEST(PciConfig, WithoutCapabilityListOrWithoutPcieThereAreNoSettings) {
  auto bytes = with_capability_list();
  bytes[6] = 0;
  EXPECT_EQ(parse(bytes)->settings.error().kind, ErrorKind::kUnsupported);
  bytes = with_capability_list();
  bytes[0x40] = 0x05;  // MSI, the only one
  EXPECT_EQ(parse(bytes)->settings.error().kind, ErrorKind::kUnsupported);
}

TEST(PciConfig, AChainThatGoesRoundEnds) {
  auto bytes = with_capability_list();
  bytes[0x40] = 0x05;
  bytes[0x41] = 0x50;
  bytes[0x50] = 0x09;
  bytes[0x51] = 0x40;
  EXPECT_EQ(parse(bytes)->settings.error().kind, ErrorKind::kMalformed);
}

TEST(PciConfig, APointerIntoTheHeaderIsNoCapability) {
  auto bytes = with_capability_list();
  bytes[0x34] = 0x10;
  EXPECT_EQ(parse(bytes)->settings.error().kind, ErrorKind::kUnsupported);
}

TEST(PciConfig, ACapabilityCutOffIsMalformed) {
  auto bytes = with_capability_list();
  bytes[0x34] = 0xfc;
  bytes[0xfc] = 0x10;
  EXPECT_EQ(parse(bytes)->settings.error().kind, ErrorKind::kMalformed);
}

TEST(PciConfig, ReservedSizesAreAbsent) {
  auto bytes = with_capability_list();
  bytes[0x40] = 0x10;
  bytes[0x42] = 0x02;
  bytes[0x48] = 0xe0;  // payload code 7
  bytes[0x49] = 0x50;  // read request code 5
  bytes[0x4c] = 0x10;
  bytes[0x4d] = 0x01;
  const auto config = parse(bytes);
  ASSERT_TRUE(config && config->settings);
  EXPECT_FALSE(config->settings->max_payload);
  EXPECT_EQ(config->settings->max_read_request, 4096U);
}

TEST(PciConfig, AllOnesAreALostDevice) {
  EXPECT_TRUE(parse(std::vector<std::uint8_t>(64, 0xff))->lost);
  auto bytes = std::vector<std::uint8_t>(64, 0xff);
  bytes[10] = 0;
  EXPECT_FALSE(parse(bytes)->lost);
}

TEST(PciConfigExcerpt, HoldsWhatIsReadAndNoAddressOfMemory) {
  const TempTree tree;
  std::vector<std::uint8_t> bytes = with_capability_list();
  std::fill(bytes.begin() + 0x10, bytes.begin() + 0x2c, 0xee);  // where the device's memory is
  bytes[0x30] = 0xee;
  bytes[0x40] = 0x03;  // another capability, with what it holds: it is not read
  bytes[0x41] = 0x60;
  bytes[0x44] = 0xee;
  bytes[0x60] = 0x10;
  bytes[0x69] = 0x20;  // 512 bytes
  bytes[0x6c] = 0x10;
  bytes[0x90] = 0xee;
  tree.write("a/config", std::string(bytes.begin(), bytes.end()));
  const auto excerpt = pci_config_excerpt(tree.path("a"));
  ASSERT_TRUE(excerpt);
  EXPECT_EQ(excerpt->size(), 0x70U);
  EXPECT_EQ(excerpt->find('\xee'), std::string::npos);
  tree.write("b/config", *excerpt);
  EXPECT_EQ(read_pci_config(tree.path("b"), nullptr)->settings->max_read_request, 512U);

  // Denied beyond the header, and lost: so it stays.
  tree.write("c/config", std::string(bytes.begin(), bytes.begin() + 64));
  tree.write("d/config", *pci_config_excerpt(tree.path("c")));
  EXPECT_EQ(read_pci_config(tree.path("d"), nullptr)->settings.error().kind, ErrorKind::kDenied);
  tree.write("e/config", std::string(256, '\xff'));
  tree.write("f/config", *pci_config_excerpt(tree.path("e")));
  EXPECT_TRUE(read_pci_config(tree.path("f"), nullptr)->lost);
  EXPECT_EQ(pci_config_excerpt(tree.path("none")).error().kind, ErrorKind::kAbsent);
}

// What was opened stays readable when its path no longer is; another function is opened by its path.
TEST(PciConfigFiles, AnOpenedFileIsReadThroughWhatWasOpened) {
  const TempTree tree;
  tree.write("a/config", std::string(64, '\xff'));
  PciConfigFiles files;
  files.add({"0000:01:00.0", tree.path("a")});
  files.add({"0000:02:00.0", tree.path("missing")});
  EXPECT_EQ(files.size(), 1U);
  tree.remove("a/config");
  EXPECT_EQ(read_pci_config(tree.path("a"), nullptr).error().kind, ErrorKind::kAbsent);
  EXPECT_TRUE(read_pci_config(tree.path("a"), &files)->lost);
  tree.write("b/config", std::string(64, '\xff'));
  EXPECT_TRUE(read_pci_config(tree.path("b"), &files)->lost);
  EXPECT_EQ(read_pci_config(tree.path("missing"), &files).error().kind, ErrorKind::kAbsent);
}

TEST(Capability, IsThereUntilItIsDropped) {
  EXPECT_FALSE(has_capability(64));
  EXPECT_FALSE(drop_capability(64));
  const pid_t child = fork();
  if (child == 0) {
    const bool dropped = static_cast<bool>(drop_capability(CAP_SYS_ADMIN));
    _exit(dropped && !has_capability(CAP_SYS_ADMIN) ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LinkSpeed, KnowsOldAndNewSpellings) {
  EXPECT_EQ(parse_link_speed("2.5 GT/s PCIe\n"), 2'500'000'000U);
  EXPECT_EQ(parse_link_speed("8 GT/s"), 8'000'000'000U);
  EXPECT_EQ(parse_link_speed("64.0 GT/s PCIe"), 64'000'000'000U);
  EXPECT_EQ(parse_link_speed("128.0 GT/s PCIe"), 128'000'000'000U);
  for (const char* text : {"Unknown", "", "GT/s", "0 GT/s", "-5 GT/s", "nan GT/s", "1e99 GT/s", "16.0", "16 MHz"})
    EXPECT_FALSE(parse_link_speed(text)) << text;
}

TEST(LinkSpeed, BytesOfALaneAfterTheLineCode) {
  EXPECT_DOUBLE_EQ(lane_bytes_per_second(2'500'000'000), 250e6);
  EXPECT_DOUBLE_EQ(lane_bytes_per_second(5'000'000'000), 500e6);
  EXPECT_NEAR(lane_bytes_per_second(8'000'000'000), 984.615e6, 1e3);
  EXPECT_NEAR(lane_bytes_per_second(32'000'000'000), 3938.46e6, 1e4);
  EXPECT_DOUBLE_EQ(lane_bytes_per_second(64'000'000'000), 8e9);
}

}  // namespace
}  // namespace roce

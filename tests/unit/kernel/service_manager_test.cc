// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/service_manager.h"

#include <gtest/gtest.h>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

TEST(SystemdLimit, SuffixesPairsAndInfinity) {
  EXPECT_EQ(parse_systemd_limit("8M")->soft, Limit(8388608U));
  EXPECT_EQ(parse_systemd_limit("65536")->hard, Limit(65536U));
  EXPECT_EQ(parse_systemd_limit("1GB")->soft, Limit(1073741824U));
  const auto pair = parse_systemd_limit(" 64K:infinity ");
  ASSERT_TRUE(pair);
  EXPECT_EQ(pair->soft, Limit(65536U));
  EXPECT_EQ(pair->hard, Limit());
  EXPECT_EQ(parse_systemd_limit("infinity")->soft, Limit());
  for (const char* bad : {"", "M", "B", "8Q", "infinity:8M", "16M:8M", "8M:", "-1", "16E"})
    EXPECT_FALSE(parse_systemd_limit(bad)) << bad;
}

TEST(SystemdSetting, LastInItsSectionCounts) {
  const auto setting = parse_systemd_setting(
      "DefaultLimitMEMLOCK=1\n[Manager]\n#DefaultLimitMEMLOCK=2\n DefaultLimitMEMLOCK = 3 \nDefaultLimitMEMLOCK=4\n"
      "[Other]\nDefaultLimitMEMLOCK=5\n",
      "DefaultLimitMEMLOCK");
  EXPECT_TRUE(setting.assigned);
  EXPECT_EQ(setting.value, "4");
  EXPECT_FALSE(parse_systemd_setting("[Manager]\nDefaultLimitMEMLOCKX=1\n", "DefaultLimitMEMLOCK").assigned);
}

TEST(DefaultMemlock, DropInsComeInOrderOfNameAndTheWeightiestOfOneNameCounts) {
  const TempTree tree;
  EXPECT_FALSE(read_default_memlock(tree.path("")));
  tree.write("etc/systemd/system.conf", "[Manager]\nDefaultLimitMEMLOCK=1M\n");
  tree.write("usr/lib/systemd/system.conf", "[Manager]\nDefaultLimitMEMLOCK=9M\n");
  EXPECT_EQ(read_default_memlock(tree.path(""))->soft, Limit(1048576U));
  tree.write("usr/lib/systemd/system.conf.d/50-x.conf", "[Manager]\nDefaultLimitMEMLOCK=2M\n");
  tree.write("etc/systemd/system.conf.d/10-y.conf", "[Manager]\nDefaultLimitMEMLOCK=3M\n");
  EXPECT_EQ(read_default_memlock(tree.path(""))->soft, Limit(2097152U));
  tree.write("etc/systemd/system.conf.d/50-x.conf", "[Manager]\nDefaultLimitMEMLOCK=nonsense\n");
  EXPECT_EQ(read_default_memlock(tree.path(""))->soft, Limit(3145728U));
  tree.write("run/systemd/system.conf.d/90-z.conf", "[Manager]\nDefaultLimitMEMLOCK=\n");
  EXPECT_FALSE(read_default_memlock(tree.path("")));
}

}  // namespace
}  // namespace roce

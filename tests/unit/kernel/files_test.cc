// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

TEST(FilesTest, ReadsANumber) {
  const TempTree tree;
  tree.write("n", "18446744073709551615\n");
  EXPECT_EQ(read_u64(tree.path("n")).value(), 18446744073709551615ULL);
}

TEST(FilesTest, SaysWhyThereIsNoNumber) {
  const TempTree tree;
  tree.write("empty", "");
  tree.write("blank", " \n");
  tree.write("placeholder", "N/A (no PMA)\n");
  tree.write("garbage", "12 34\n");
  std::filesystem::create_directories(tree.path("directory"));
  EXPECT_EQ(read_u64(tree.path("empty")).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_u64(tree.path("blank")).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_u64(tree.path("placeholder")).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_u64(tree.path("garbage")).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(read_u64(tree.path("missing")).error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(read_u64(tree.path("directory")).error().kind, ErrorKind::kIo);
}

TEST(FilesTest, NulsThatFillAFieldAreNoPartOfIt) {
  const TempTree tree;
  tree.write("text", std::string("one\0two \0\n\0", 12));
  tree.write("number", std::string("7\0\0", 3));
  tree.write("nothing", std::string("\0\0", 2));
  EXPECT_EQ(read_attribute(tree.path("text")).value(), std::string("one\0two", 7));
  EXPECT_EQ(read_u64(tree.path("number")).value(), 7U);
  EXPECT_EQ(read_attribute(tree.path("nothing")).error().kind, ErrorKind::kUnsupported);
}

TEST(FilesTest, RefusesAFileOverTheLimit) {
  const TempTree tree;
  tree.write("big", std::string(100, 'x'));
  EXPECT_EQ(read_file(tree.path("big"), 99).error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(read_file(tree.path("big"), 100).value().size(), 100U);
}

TEST(FilesTest, ListsInTheOrderPeopleCountIn) {
  const TempTree tree;
  for (const char* name : {"eth10", "eth2", "a,b c", "eth1"}) tree.write(std::string("d/") + name, "");
  EXPECT_EQ(list_directory(tree.path("d")).value(), (std::vector<std::string>{"a,b c", "eth1", "eth2", "eth10"}));
  EXPECT_EQ(list_directory(tree.path("none")).error().kind, ErrorKind::kAbsent);
}

TEST(FilesTest, NaturalOrderIsStrict) {
  const std::vector<std::string> names{"a", "a0", "a00", "a01", "a1", "a2", "a10", "b"};
  for (const auto& x : names) {
    EXPECT_FALSE(natural_less(x, x)) << x;
    for (const auto& y : names) {
      if (x != y) {
        EXPECT_NE(natural_less(x, y), natural_less(y, x)) << x << " " << y;
      }
    }
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end(), natural_less));
}

TEST(FilesTest, FollowsLinks) {
  const TempTree tree;
  tree.write("drivers/mlx5_core/x", "");
  tree.link("driver", "../somewhere/drivers/mlx5_core");
  EXPECT_EQ(link_basename(tree.path("driver")).value(), "mlx5_core");
  EXPECT_EQ(link_basename(tree.path("drivers")).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace roce

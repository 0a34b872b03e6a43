// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/directory.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

TEST(DirectoryTest, ReadsItsFilesByName) {
  const TempTree tree;
  tree.write("port/state", "4: ACTIVE\n");
  tree.write("port/counters/port_rcv_data", "18446744073709551615\n");
  const auto directory = Directory::open(tree.path("port"));
  ASSERT_TRUE(directory);
  EXPECT_EQ(directory->read_attribute("state").value(), "4: ACTIVE");
  EXPECT_EQ(directory->read_u64("counters/port_rcv_data").value(), 18446744073709551615ULL);
  EXPECT_TRUE(directory->exists("counters"));
  EXPECT_FALSE(directory->exists("hw_counters"));
}

TEST(DirectoryTest, ErrorsNameTheWholePath) {
  const TempTree tree;
  tree.write("port/garbage", "12 34\n");
  tree.write("file", "1\n");
  const auto directory = Directory::open(tree.path("port"));
  ASSERT_TRUE(directory);
  const auto none = directory->read_u64("none");
  EXPECT_EQ(none.error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(none.error().object, tree.path("port/none"));
  const auto garbage = directory->read_u64("garbage");
  EXPECT_EQ(garbage.error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(garbage.error().object, tree.path("port/garbage"));
  EXPECT_EQ(Directory::open(tree.path("nowhere")).error().kind, ErrorKind::kAbsent);
  EXPECT_FALSE(Directory::open(tree.path("file")));
}

TEST(DirectoryTest, MovesWhereItIsKept) {
  const TempTree tree;
  tree.write("d/n", "7\n");
  auto first = Directory::open(tree.path("d"));
  ASSERT_TRUE(first);
  const Directory second = std::move(*first);
  EXPECT_EQ(second.read_u64("n").value(), 7U);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/cgroup.h"

#include <gtest/gtest.h>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

TEST(RdmaController, ReadsALineADevice) {
  const auto all =
      parse_rdma_controller("mlx5_0 hca_handle=2 hca_object=max\n\nmlx5_1 hca_handle=x hca_object=7\nmlx5_2\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].object, "mlx5_0");
  EXPECT_EQ(all[0].resource, "hca_handle");
  EXPECT_EQ(all[0].value, Limit(2U));
  EXPECT_EQ(all[1].value, Limit());
  EXPECT_EQ(all[2].object, "mlx5_1");
  EXPECT_EQ(all[2].value, Limit(7U));
  EXPECT_TRUE(parse_rdma_controller("").empty());
}

TEST(CgroupLimit, BothVersionsOfNone) {
  EXPECT_EQ(parse_cgroup_limit("max\n"), std::optional<Limit>(Limit()));
  EXPECT_EQ(parse_cgroup_limit("9223372036854771712\n"), std::optional<Limit>(Limit()));
  EXPECT_EQ(parse_cgroup_limit("9223372034707292160"),
            std::optional<Limit>(Limit()));  // pages of 2 MiB on 64 KiB kernels
  EXPECT_EQ(parse_cgroup_limit("4194304\n"), std::optional<Limit>(Limit(4194304U)));
  EXPECT_FALSE(parse_cgroup_limit("-1"));
}

TEST(Cgroups, TheNearestManagedCgroupCounts) {
  const TempTree tree;
  tree.write("cg/a/b/c/cgroup.procs", "");
  tree.write("cg/a/b/rdma.current", "mlx5_0 hca_handle=1 hca_object=20\n");
  tree.write("cg/a/b/rdma.max", "mlx5_0 hca_handle=max hca_object=100\n");
  tree.write("cg/a/rdma.current", "mlx5_0 hca_handle=9 hca_object=90\n");
  tree.write("cg/a/hugetlb.2MB.current", "4194304\n");
  tree.write("cg/a/hugetlb.2MB.max", "8388608\n");
  tree.write("cg/a/hugetlb.2MB.rsvd.current", "1\n");
  tree.write("cg/a/hugetlb.2MB.events", "max 3\n");
  CgroupPaths paths;
  paths.unified = "/a/b/c";
  const auto rdma = read_rdma_cgroup(tree.path("cg"), paths);
  ASSERT_TRUE(rdma);
  EXPECT_EQ(rdma->path, "/a/b");
  ASSERT_EQ(rdma->used.size(), 2U);
  EXPECT_EQ(rdma->used[1].value, Limit(20U));
  EXPECT_EQ(rdma->limits[1].value, Limit(100U));
  const auto hugetlb = read_hugetlb_cgroup(tree.path("cg"), paths);
  ASSERT_TRUE(hugetlb);
  EXPECT_EQ(hugetlb->path, "/a");
  ASSERT_EQ(hugetlb->used.size(), 1U);
  EXPECT_EQ(hugetlb->used[0].object, "2MB");
  EXPECT_EQ(hugetlb->used[0].value, Limit(4194304U));
  EXPECT_EQ(hugetlb->limits[0].value, Limit(8388608U));
  EXPECT_EQ(hugetlb->failures[0].value, Limit(3U));
  paths.unified = "/other";
  EXPECT_FALSE(read_rdma_cgroup(tree.path("cg"), paths));
  EXPECT_FALSE(read_hugetlb_cgroup(tree.path("cg"), paths));
}

TEST(Cgroups, Version1HasHierarchiesOfItsOwn) {
  const TempTree tree;
  tree.write("cg/rdma/j/rdma.current", "rxe0 hca_handle=4 hca_object=5\n");
  tree.write("cg/hugetlb/j/hugetlb.1GB.usage_in_bytes", "1073741824\n");
  tree.write("cg/hugetlb/j/hugetlb.1GB.max_usage_in_bytes", "2147483648\n");
  tree.write("cg/hugetlb/j/hugetlb.1GB.limit_in_bytes", "9223372036854771712\n");
  tree.write("cg/hugetlb/j/hugetlb.1GB.failcnt", "2\n");
  CgroupPaths paths;
  paths.rdma = "/j";
  paths.hugetlb = "/j";
  EXPECT_EQ(read_rdma_cgroup(tree.path("cg"), paths)->used[0].value, Limit(4U));
  const auto hugetlb = read_hugetlb_cgroup(tree.path("cg"), paths);
  ASSERT_TRUE(hugetlb);
  ASSERT_EQ(hugetlb->used.size(), 1U);
  EXPECT_EQ(hugetlb->used[0].value, Limit(1073741824U));
  EXPECT_EQ(hugetlb->limits[0].value, Limit());
  EXPECT_EQ(hugetlb->failures[0].value, Limit(2U));
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nfs_mountstats.h"

#include <gtest/gtest.h>

namespace roce {
namespace {

constexpr const char* kMounts =
    "device proc mounted on /proc with fstype proc\n"
    "no device mounted on /odd with fstype nfs\n"
    "device [2001:db8::5]:/vol/a\\040b mounted on /mnt/with\\040blank with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2,proto=rdma6,port=20049,addr=2001:db8::5\n"
    "\tage:\t77\n"
    "\tcaps:\tcaps=0xffff\n"
    "\tbytes:\t1 2 3 4 5 6 7 8\n"
    "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
    "\txprt:\trdma 0 1 2 0 9\n"
    "\txprt:\trdma 0 1 3 0 11\n"
    "\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 0 0 0\n"
    "\t        READ: 7 9 1 100 200 3 40 50 2\n"
    "\n"
    "device srv:/x mounted on /x with fstype nfs statvers=1.1\n"
    "\topts:\tro,vers=3,proto=tcp\n"
    "\txprt:\ttcp 800 1 1 0 0 5 5 0 5 0 2 0 0\n"
    "\tper-op statistics\n"
    "\t     GETATTR: 3 3 0 1 1 0 1 1\n"
    "device tmpfs mounted on /run with fstype tmpfs\n"
    "\t     GETATTR: 9 9 0 1 1 0 1 1\n";

TEST(Mountstats, NfsMountsWithTransportsAndOperations) {
  const auto mounts = parse_mountstats(kMounts);
  ASSERT_EQ(mounts.size(), 2U);
  const NfsMount& a = mounts[0];
  EXPECT_EQ(a.mount_point, "/mnt/with blank");
  EXPECT_EQ(a.server(), "2001:db8::5");
  EXPECT_EQ(a.exported(), "/vol/a b");
  EXPECT_EQ(a.age, 77U);
  EXPECT_EQ(a.option("vers"), "4.2");
  EXPECT_EQ(a.option("addr"), "2001:db8::5");
  EXPECT_EQ(a.option("rw"), "");
  EXPECT_TRUE(a.over_rdma());
  ASSERT_EQ(a.transports.size(), 2U);
  EXPECT_EQ(a.transports[1].numbers, (std::vector<std::uint64_t>{0, 1, 3, 0, 11}));
  ASSERT_EQ(a.operations.size(), 2U);
  EXPECT_EQ(a.operations[1].requests, 7U);
  EXPECT_EQ(a.operations[1].transmissions, 9U);
  EXPECT_EQ(a.operations[1].timeouts, 1U);
  EXPECT_EQ(a.operations[1].bytes_sent, 100U);
  EXPECT_EQ(a.operations[1].bytes_received, 200U);
  EXPECT_EQ(a.operations[1].queue_ms, 3U);
  EXPECT_EQ(a.operations[1].round_trip_ms, 40U);
  EXPECT_EQ(a.operations[1].execute_ms, 50U);
  EXPECT_EQ(a.operations[1].errors, 2U);
  const NfsMount& b = mounts[1];
  EXPECT_FALSE(b.over_rdma());
  ASSERT_EQ(b.operations.size(), 1U);
  EXPECT_EQ(b.operations[0].requests, 3U);
}

TEST(Mountstats, EightNineOrMoreNumbers) {
  const auto operations = parse_nfs_operations(
      "  A: 1 2 3 4 5 6 7 8\nB: 1 2 3 4 5 6 7 8 9\n C: 1 2 3 4 5 6 7 8 9 10 11\nD: 1 2 3 4 5 6 7\nE F: 1 2 3 4 5 6 7 "
      "8\n"
      "G: 1 2 3 4 x 6 7 8\n: 1 2 3 4 5 6 7 8\nnothing\n");
  ASSERT_EQ(operations.size(), 3U);
  EXPECT_EQ(operations[0].name, "A");
  EXPECT_FALSE(operations[0].errors.has_value());
  EXPECT_EQ(operations[1].errors, 9U);
  EXPECT_EQ(operations[2].errors, 9U);
}

TEST(Mountstats, AnyText) {
  EXPECT_TRUE(parse_mountstats("").empty());
  EXPECT_TRUE(parse_mountstats("device \ndevice a mounted on \nxprt: rdma 1\n").empty());
  EXPECT_TRUE(parse_mountstats("device a with fstype nfs mounted on b\n").empty());
  const auto mounts = parse_mountstats("device a mounted on \\04 with fstype nfs\nxprt:\nxprt: rdma\nage: old\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].mount_point, "\\04");
  ASSERT_EQ(mounts[0].transports.size(), 1U);
  EXPECT_EQ(mounts[0].server(), "a");
  EXPECT_EQ(mounts[0].exported(), "");
}

}  // namespace
}  // namespace roce

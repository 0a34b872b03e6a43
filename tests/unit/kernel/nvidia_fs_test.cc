// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nvidia_fs.h"

#include <gtest/gtest.h>

namespace roce {
namespace {

std::optional<std::uint64_t> value_of(const NvidiaFsStatistics& statistics, std::string_view counter,
                                      std::string_view gpu = "") {
  for (const NvidiaFsValue& value : statistics.values)
    if (value.counter == counter && value.gpu == gpu) return value.value;
  return std::nullopt;
}

TEST(NvidiaFs, GroupsPairsAndGpus) {
  const auto s = parse_nvidia_fs_statistics(
      "GDS Version: 1.11.0.1 \nNVFS statistics(ver: 4.0)\nNVFS Driver(version: 2.22.3)\n"
      "Mellanox PeerDirect Supported: True\nIO stats: Enabled, peer IO stats: Disabled\nLogging level: info\n\n"
      "Active Shadow-Buffer (MiB): 128\nActive Process: 1\n"
      "Reads\t\t\t\t: n=11 ok=10 err=1 readMiB=40 io_state_err=2\n"
      "Reads\t\t\t\t: Bandwidth(MiB/s)=99 Avg-Latency(usec)=7\n"
      "Sparse Reads\t\t        : n=6 io=1 holes=2 pages=3 \n"
      "Bar1-map\t\t\t: n=183 ok=183 err=4 free=165 callbacks=18\n\t\tactive=5 delay-frees=0\n"
      "Error\t\t\t\t: cpu-gpu-pages=0 sg-ext=0 dma-map=8 dma-ref=0\nOps\t\t\t\t: Read=3 Write=0 BatchIO=0\n"
      "GPU 0000:be:00.0  uuid:87e5c586-88ed : Registered_MiB=64 Cache_MiB=2 max_pinned_MiB=70 cross_root_port(%)=25\n"
      "GPU 0000:e7:00.0  uuid:029faa3b-cb0d : Registered_MiB=1 Cache_MiB=0 max_pinned_MiB=1 \n");
  EXPECT_EQ(s.version, "2.22.3");
  EXPECT_EQ(s.io_statistics, true);
  EXPECT_EQ(s.peer_statistics, false);
  EXPECT_EQ(value_of(s, "Active_Shadow-Buffer"), 128U);
  EXPECT_EQ(value_of(s, "Reads/n"), 11U);
  EXPECT_EQ(value_of(s, "Reads/io_state_err"), 2U);
  EXPECT_EQ(value_of(s, "Reads/Bandwidth"), 99U);
  EXPECT_EQ(value_of(s, "Sparse_Reads/n"), 6U);
  EXPECT_EQ(value_of(s, "Bar1-map/err"), 4U);
  EXPECT_EQ(value_of(s, "Bar1-map/active"), 5U);  // on a line of its own
  EXPECT_EQ(value_of(s, "Error/dma-map"), 8U);
  EXPECT_EQ(value_of(s, "Ops/Read"), 3U);
  EXPECT_EQ(value_of(s, "GPU/Cache_MiB", "0000:be:00.0"), 2U);
  EXPECT_EQ(value_of(s, "GPU/cross_root_port", "0000:be:00.0"), 25U);
  EXPECT_EQ(value_of(s, "GPU/Registered_MiB", "0000:e7:00.0"), 1U);
  EXPECT_FALSE(value_of(s, "GPU/cross_root_port", "0000:e7:00.0").has_value());
}

TEST(NvidiaFs, WhatIsNotCountedIsNotThere) {
  const auto s = parse_nvidia_fs_statistics(
      "IO stats: Disabled, peer IO stats: Disabled\nReads : err=0 io_state_err=0\nWrites : err=1 pg-cache=2\n");
  EXPECT_EQ(s.io_statistics, false);
  EXPECT_FALSE(value_of(s, "Reads/n").has_value());
  EXPECT_EQ(value_of(s, "Writes/pg-cache"), 2U);
}

TEST(NvidiaFs, AnyText) {
  EXPECT_TRUE(parse_nvidia_fs_statistics("").values.empty());
  const auto s = parse_nvidia_fs_statistics("a=1\n  b=2\nX : c=-1 d=1x =3 e\nX : f=4 f=5\nX :\n\tg=6\nplain\n\th=7\n");
  ASSERT_EQ(s.values.size(), 2U);
  EXPECT_EQ(value_of(s, "X/f"), 4U);
  EXPECT_EQ(value_of(s, "X/g"), 6U);
  EXPECT_FALSE(s.io_statistics.has_value());
}

}  // namespace
}  // namespace roce

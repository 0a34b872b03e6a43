// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/cpu_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/kernel/kernel_log.h"

namespace roce {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CpuTable, ReadsCountsAndTheTextBehindThem) {
  const CpuTable table = parse_cpu_table(
      "     CPU0 CPU4\n 31:  1  2  PCI-MSI 3-edge  name-1\nERR:   7\n RES: 5 6 Rescheduling interrupts\n\njunk\n");
  EXPECT_THAT(table.cpus, ElementsAre(0, 4));
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].name, "31");
  EXPECT_THAT(table.rows[0].counts, ElementsAre(1, 2));
  EXPECT_EQ(table.rows[0].text, "PCI-MSI 3-edge  name-1");
  EXPECT_THAT(table.rows[1].counts, ElementsAre(7));
  EXPECT_EQ(table.rows[2].text, "Rescheduling interrupts");
}

TEST(CpuTable, ANumberTooLargeEndsTheCounts) {
  const CpuTable table = parse_cpu_table("CPU0 CPU1\n1: 99999999999999999999 2\n");
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0].counts, IsEmpty());
}

TEST(CpuTable, AnOddHeaderIsNoTable) {
  EXPECT_THAT(parse_cpu_table("CPUx\n1: 2\n").rows, IsEmpty());
  EXPECT_THAT(parse_cpu_table("CPU99999999\n1: 2\n").rows, IsEmpty());
  EXPECT_THAT(parse_cpu_table("").rows, IsEmpty());
}

TEST(CpuList, RangesAndSingles) {
  EXPECT_THAT(parse_cpu_list("0-2,8\n"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(parse_cpu_list("5,1,1"), ElementsAre(1, 5));
  for (const char* text : {"", "a", "3-1", "1-", "0-99999999", "-"}) EXPECT_THAT(parse_cpu_list(text), IsEmpty());
}

TEST(Softnet, ShortAndLongLines) {
  const auto rows = parse_softnet("0a 01 02\nxx 1 2\n1 2 3 0 0 0 0 0 0 0 0 0 0000000f 0 0\n1 2\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].processed, 10U);
  EXPECT_EQ(rows[0].cpu, 0U);
  EXPECT_EQ(rows[1].time_squeezes, 3U);
  EXPECT_EQ(rows[1].cpu, 15U);
}

TEST(CpuTimes, CountInterruptsOfEachCpu) {
  const auto times = parse_cpu_times("cpu 9 9 9 9 9 9 9 9\ncpu3 1 2 3 4 5 6 7 8 100 100\ncpu4 1 2\nctxt 5\n");
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].cpu, 3U);
  EXPECT_EQ(times[0].interrupt, 13U);
  EXPECT_EQ(times[0].all, 36U);
}

TEST(Pressure, TheLineSomeCounts) {
  EXPECT_EQ(parse_pressure_total("full avg10=0 total=1\nsome avg10=0.00 total=77\n"), 77U);
  EXPECT_FALSE(parse_pressure_total("some avg10=0.00\n"));
  EXPECT_FALSE(parse_pressure_total(""));
}

TEST(KernelRecord, HeadAndText) {
  KernelRecord record;
  ASSERT_TRUE(parse_kernel_record("30,339,5140900,-;text; with; more", record));
  EXPECT_EQ(record.priority, 6U);
  EXPECT_EQ(record.facility, 3U);
  EXPECT_EQ(record.text, "text; with; more");
  for (const char* line : {"", ";", "x,1,2,-;t", "1", "99999,1,1,-;t", "no head"})
    EXPECT_FALSE(parse_kernel_record(line, record)) << line;
}

}  // namespace
}  // namespace roce

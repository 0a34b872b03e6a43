// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/memory.h"

#include <gtest/gtest.h>

namespace roce {
namespace {

TEST(SelectedWord, IsTheOneInBrackets) {
  EXPECT_EQ(selected_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(selected_word("always defer defer+madvise [never]"), "never");
  for (const char* none : {"", "always", "[always", "]a[", "[]"}) EXPECT_EQ(selected_word(none), "") << none;
}

TEST(NumberOfLine, MatchesWholeNames) {
  constexpr std::string_view kText = "HugePages_TotalX: 9\nHugePages_Total:       2\nthp_fault 5\nthp_fault_alloc 7\n";
  EXPECT_EQ(number_of_line(kText, "HugePages_Total"), 2U);
  EXPECT_EQ(number_of_line(kText, "thp_fault"), 5U);
  EXPECT_FALSE(number_of_line(kText, "thp"));
  EXPECT_FALSE(number_of_line("a: x\n", "a"));
  EXPECT_FALSE(number_of_line("a", "a"));
}

TEST(HugePageSize, NameAndLabel) {
  EXPECT_EQ(huge_page_size("hugepages-2048kB"), 2097152U);
  EXPECT_EQ(huge_page_size("hugepages-16777216kB"), 17179869184U);
  for (const char* bad : {"hugepages-kB", "hugepages-0kB", "hugepages-2048", "x", "hugepages-99999999999999999999kB",
                          "hugepages-18446744073709551615kB"})
    EXPECT_FALSE(huge_page_size(bad)) << bad;
  EXPECT_EQ(huge_page_label(65536), "64KB");
  EXPECT_EQ(huge_page_label(2097152), "2MB");
  EXPECT_EQ(huge_page_label(536870912), "512MB");
  EXPECT_EQ(huge_page_label(17179869184), "16GB");
}

TEST(SharedMemoryTable, CountsLinesBelowTheNames) {
  const auto memory = parse_shared_memory(
      "       key      shmid perms                  size  cpid  lpid nattch   uid\n"
      "         0          0   600              2097152   900   901      2     0\n"
      "         0          1   600 18446744073709551615   900   901      0     0\n"
      "\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->segments, 2U);
  EXPECT_EQ(memory->orphaned, 1U);
  EXPECT_EQ(memory->bytes, 18446744073709551615U);  // the sum would not fit
  const auto none = parse_shared_memory("key shmid perms size cpid lpid nattch\n");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->segments, 0U);
}

TEST(SharedMemoryTable, WithoutNamesOnlySegmentsAreCounted) {
  const auto memory = parse_shared_memory("0 0 600 4096 1 1 1\n-559038737 1 600 4096 1 1 1");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->segments, 2U);
  EXPECT_FALSE(memory->bytes);
  EXPECT_FALSE(memory->orphaned);
}

TEST(SharedMemoryTable, AnotherTableIsRefused) {
  EXPECT_EQ(parse_shared_memory("").error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(parse_shared_memory("key semid perms nsems\n1 2 3 4\n").error().kind, ErrorKind::kMalformed);
}

}  // namespace
}  // namespace roce

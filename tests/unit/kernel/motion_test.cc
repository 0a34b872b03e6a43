// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/motion.h"

#include <gtest/gtest.h>

#include "exporter/kernel/files.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

class MotionTest : public testing::Test {
 protected:
  MotionTest() {
    tree_.write("sys/a", "100\n");
    tree_.write("sys/state", "live\n");
    tree_.write("netdev/eth0/ethtool_S.txt", "NIC statistics:\n     rx: 7\n     rx_prio3_pause: 5\n     tx: 9\n");
  }
  Result<Motion> open(const std::string& text) {
    tree_.write("motion.tsv", text);
    return Motion::open(tree_.path(""));
  }
  std::string read(const std::string& path) const { return read_file(tree_.path(path)).value_or("?"); }

  TempTree tree_;
};

TEST_F(MotionTest, CountersGoOnFromWhereTheyWere) {
  auto motion = open("# comment\n\nsys/a\t10\t0\t60\t0\nnetdev/eth0/ethtool_S.txt#rx_prio3_pause\t2\t0\t60\t0\n");
  ASSERT_TRUE(motion) << motion.error().message();
  EXPECT_EQ(motion->size(), 2U);
  for (const int seconds : {30, 60}) {
    ASSERT_TRUE(motion->show(std::chrono::seconds(seconds)));
    EXPECT_EQ(read("sys/a"), std::to_string(100 + 10 * seconds) + "\n");
    EXPECT_EQ(read("netdev/eth0/ethtool_S.txt"), "NIC statistics:\n     rx: 7\n     rx_prio3_pause: " +
                                                     std::to_string(5 + 2 * seconds) + "\n     tx: 9\n");
  }
  EXPECT_EQ(list_directory(tree_.path("sys")).value_or(std::vector<std::string>()).size(), 2U)
      << "nothing beside the files for others to take for a counter";
}

TEST_F(MotionTest, AWordOfATableIsACounter) {
  tree_.write("sys/stat", "  12   0 345 6\n");
  auto motion = open("sys/stat#1\t1\t0\t60\t0\nsys/stat#3\t100\t0\t60\t0\n");
  ASSERT_TRUE(motion) << motion.error().message();
  ASSERT_TRUE(motion->show(std::chrono::seconds(10)));
  EXPECT_EQ(read("sys/stat"), "  22   0 1345 6\n");
  for (const char* line : {"sys/stat#0\t1\t0\t60\t0\n", "sys/stat#5\t1\t0\t60\t0\n"}) EXPECT_FALSE(open(line)) << line;
}

TEST_F(MotionTest, StatesChangeForAWhile) {
  auto motion = open("sys/state\t=connecting\t100\t40\t60\n");
  ASSERT_TRUE(motion) << motion.error().message();
  for (const auto& [at, state] : {std::pair(0, "live\n"),
                                  {39, "live\n"},
                                  {40, "connecting\n"},
                                  {59, "connecting\n"},
                                  {60, "live\n"},
                                  {145, "connecting\n"}}) {
    ASSERT_TRUE(motion->show(std::chrono::seconds(at)));
    EXPECT_EQ(read("sys/state"), state) << at;
  }
}

TEST_F(MotionTest, SpeedSwingsButNeverStepsBack) {
  double last = 0;
  for (double t = 0; t < 300; t += 0.5) {
    const double now = moved_by(100, 1, 60, 17, t);
    EXPECT_GE(now, last - 1e-6) << t;
    last = now;
  }
  EXPECT_NEAR(moved_by(100, 0.5, 60, 17, 600), 60000, 1) << "over whole periods it is the mean";
}

TEST_F(MotionTest, LinesThatMeanNothingAreRefused) {
  for (const std::string bad :
       {"sys/a\t1\t0\t60", "sys/a\t1\t0\t60\t0\t0", "sys/a\tx\t0\t60\t0", "sys/a\t-1\t0\t60\t0", "sys/a\t1\t2\t60\t0",
        "sys/a\t1\t0\t0\t0", "sys/a\tnan\t0\t60\t0", "/etc/passwd\t1\t0\t60\t0", "../x\t1\t0\t60\t0",
        "sys/none\t1\t0\t60\t0", "sys/state\t1\t0\t60\t0", "netdev/eth0/ethtool_S.txt#none\t1\t0\t60\t0",
        "sys/state\t=x\t10\t5\t11"})
    EXPECT_FALSE(open(bad + "\n")) << bad;
  EXPECT_EQ(Motion::open(tree_.path("sys")).error().kind, ErrorKind::kAbsent);
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/executor.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <vector>

namespace roce {
namespace {

using std::chrono::milliseconds;

// A job that lasts until it is released.
struct Gate {
  std::promise<void> entered;
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  std::function<void()> job() {
    return [this] {
      entered.set_value();
      opened.wait();
    };
  }
};

TEST(ExecutorTest, RunsJobsOfOneCardInOrder) {
  Executor executor(4);
  std::mutex mutex;
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 50; ++i)
    executor.submit({"card", false, [&, i] {
                       const std::lock_guard lock(mutex);
                       order.push_back(i);
                       if (i == 49) done.set_value();
                     }});
  done.get_future().wait();
  std::vector<int> expected(50);
  for (int i = 0; i < 50; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(order, expected);
}

TEST(ExecutorTest, AStuckCardHoldsUpItsOwnJobsOnly) {
  Gate gate;
  std::promise<void> other;
  std::promise<void> same;
  {
    Executor executor(2);
    executor.submit({"stuck", false, gate.job()});
    gate.entered.get_future().wait();
    auto same_done = same.get_future();
    executor.submit({"stuck", false, [&] { same.set_value(); }});
    executor.submit({"well", false, [&] { other.set_value(); }});
    other.get_future().wait();
    EXPECT_EQ(same_done.wait_for(milliseconds(0)), std::future_status::timeout);
    EXPECT_EQ(executor.blocked("stuck", false, milliseconds(0)), Executor::Blocked::kCard);
    EXPECT_EQ(executor.blocked("idle", false, milliseconds(0)), Executor::Blocked::kNo);
    gate.open.set_value();
    same_done.wait();
  }
}

TEST(ExecutorTest, OnlyOneJobHoldsRtnl) {
  Gate gate;
  std::promise<void> second;
  {
    Executor executor(3);
    executor.submit({"a", true, gate.job()});
    gate.entered.get_future().wait();
    auto second_done = second.get_future();
    executor.submit({"b", true, [&] { second.set_value(); }});
    std::promise<void> free;
    executor.submit({"b2", false, [&] { free.set_value(); }});
    free.get_future().wait();
    EXPECT_EQ(second_done.wait_for(milliseconds(0)), std::future_status::timeout);
    EXPECT_EQ(executor.blocked("b", true, milliseconds(0)), Executor::Blocked::kRtnl);
    EXPECT_EQ(executor.blocked("a", true, milliseconds(0)), Executor::Blocked::kCard);
    gate.open.set_value();
    second_done.wait();
  }
}

TEST(ExecutorTest, AddsAWorkerWhenAllAreStuckAndLetsItGoAgain) {
  Gate first;
  Gate second;
  std::promise<void> third;
  Executor executor(2, 3);
  executor.submit({"a", false, first.job()});
  executor.submit({"b", false, second.job()});
  first.entered.get_future().wait();
  second.entered.get_future().wait();
  auto third_done = third.get_future();
  executor.submit({"c", false, [&] { third.set_value(); }});
  while (third_done.wait_for(milliseconds(5)) != std::future_status::ready) executor.relieve();
  EXPECT_LE(executor.workers(), 3U);
  first.open.set_value();
  second.open.set_value();
  while (executor.workers() > 2) std::this_thread::yield();
  EXPECT_EQ(executor.workers(), 2U);
}

TEST(ExecutorTest, AJobThatThrowsEndsAlone) {
  Executor executor(1);
  std::promise<void> after;
  executor.submit({"a", false, [] { throw std::runtime_error("boom"); }});
  executor.submit({"a", false, [&] { after.set_value(); }});
  after.get_future().wait();
}

}  // namespace
}  // namespace roce

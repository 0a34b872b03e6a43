// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <sstream>
#include <thread>

#include "exporter/catalog/catalog.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

// What the fake collectors do; one test at a time uses it.
struct Script {
  std::mutex mutex;
  std::condition_variable changed;
  // Devices; the host's name is empty, so none of them is by default.
  std::string hangs = "-";
  std::string throws = "-";
  std::string fails = "-";
  int series = 1;
  int least = 0;     // series of a part that is to lose first
  int evidence = 0;  // series behind the details
  std::atomic<int> reads{0};

  void set(std::string Script::* field, const std::string& device) {
    const std::lock_guard lock(mutex);
    this->*field = device;
    changed.notify_all();
  }
};
Script* script = nullptr;

class FakeCollector : public Collector {
 public:
  using Collector::Collector;
  Result<void> collect(Output& out) override {
    ++script->reads;
    std::unique_lock lock(script->mutex);
    const std::string& name = device().name;
    script->changed.wait(lock, [&] { return script->hangs != name; });
    if (script->throws == name) throw std::runtime_error("thrown by the test");
    if (script->least > 0) {
      auto part = std::make_shared<Part>();
      part->least = true;
      for (int i = 0; i < script->least; ++i)
        part->samples.add(metric::driver_counter, {name, "1", "least" + std::to_string(i)}, i);
      part->counters["1"][0] = 5;
      out.parts.push_back(std::move(part));
    }
    auto part = std::make_shared<Part>();
    for (int i = 0; i < script->series; ++i)
      part->samples.add(metric::driver_counter, {name, "1", "c" + std::to_string(i)}, i);
    for (int i = 0; i < script->evidence; ++i)
      part->samples.add(metric::port_gid_entries, {name, "1", "type" + std::to_string(i)}, i);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    if (script->fails == name) return fail_errno(EIO, name);
    return {};
  }
};

std::unique_ptr<Collector> make_fake(const CollectorContext& context) {
  return std::make_unique<FakeCollector>(context);
}

constexpr std::array<CollectorEntry, 1> kFakes{
    {{"fake", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "fake", make_fake}}};
constexpr std::array<CollectorEntry, 1> kSlowFakes{
    {{"fake", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "fake", make_fake}}};

class EngineTest : public testing::Test {
 protected:
  EngineTest() { script = &script_; }
  ~EngineTest() override {
    script_.set(&Script::hangs, "-");
    engine_.reset();
  }

  EngineConfig config() const {
    EngineConfig c;
    c.collectors = kFakes;
    c.enabled = [](const CollectorEntry&) { return true; };
    c.device_wanted = [](std::string_view) { return true; };
    c.netdev_wanted = [](std::string_view) { return true; };
    c.source_deadline = milliseconds(200);
    c.share_window = milliseconds(0);
    return c;
  }

  void start(EngineConfig c) { engine_ = std::make_unique<Engine>(tree_.host(), std::move(c)); }

  std::string page(const std::vector<std::string>& only = {}) {
    last_ = engine_->collect(milliseconds(5000), only);
    const auto batches = last_.batches();
    return render_text(batches);
  }

  Script script_;
  TempTree tree_;
  std::unique_ptr<Engine> engine_;
  Page last_;
};

TEST_F(EngineTest, AHostWithoutDevicesIsAPageWithoutErrors) {
  start(config());
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("roce_rdma_devices 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_collector_failure{")));
  EXPECT_TRUE(last_.complete);
}

TEST_F(EngineTest, ADeviceThatHangsHoldsUpNoOtherAndRecovers) {
  tree_.add_port("good");
  tree_.add_port("stuck");
  script_.hangs = "stuck";
  start(config());
  std::string text = page();
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"good\",port=\"1\",counter=\"c0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"good\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"stuck\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_failure{collector=\"fake\",device=\"stuck\",reason=\"timeout\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_driver_counter_total{device=\"stuck\"")));
  EXPECT_FALSE(last_.complete);

  // While it hangs it is not asked again, and the others go on at full pace.
  const unsigned threads = engine_->worker_threads();
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(page(), HasSubstr("roce_collector_success{collector=\"fake\",device=\"good\"} 1\n"));
  EXPECT_EQ(engine_->worker_threads(), threads);
  EXPECT_EQ(script_.reads, 1 + 21);

  script_.set(&Script::hangs, "-");
  do text = page();
  while (text.find("roce_collector_success{collector=\"fake\",device=\"stuck\"} 1\n") == std::string::npos);
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"stuck\",port=\"1\",counter=\"c0\"} 0\n"));
}

TEST_F(EngineTest, ScrapesThatComeTogetherShareOneRead) {
  tree_.add_port("d");
  script_.hangs = "d";
  EngineConfig c = config();
  c.share_window = milliseconds(60000);
  c.source_deadline = milliseconds(60000);
  start(std::move(c));
  std::vector<std::thread> scrapes;
  std::atomic<int> complete{0};
  for (int i = 0; i < 20; ++i)
    scrapes.emplace_back([&] { complete += engine_->collect(milliseconds(60000)).complete ? 1 : 0; });
  while (script_.reads == 0) std::this_thread::yield();
  script_.set(&Script::hangs, "-");
  for (auto& scrape : scrapes) scrape.join();
  EXPECT_EQ(complete, 20);
  EXPECT_EQ(script_.reads, 1);
  EXPECT_EQ(engine_->collections(), 1U);
}

TEST_F(EngineTest, AFailingOrThrowingDeviceIsToldAndTheOthersStay) {
  tree_.add_port("a");
  tree_.add_port("b");
  tree_.add_port("c");
  script_.fails = "a";
  script_.throws = "b";
  start(config());
  const std::string text = page();
  // What was read before the failure is on the page.
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"a\",port=\"1\",counter=\"c0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_failure{collector=\"fake\",device=\"a\",reason=\"io\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"b\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"c\"} 1\n"));
}

TEST_F(EngineTest, ARemovedDeviceLeavesNothingBehind) {
  tree_.add_port("mlx5_0");
  tree_.add_port("mlx5_3");
  start(config());
  EXPECT_THAT(page(), HasSubstr("device=\"mlx5_3\""));
  tree_.remove("sys/class/infiniband/mlx5_3");
  const std::string text = page();
  EXPECT_THAT(text, Not(HasSubstr("mlx5_3")));
  EXPECT_THAT(text, HasSubstr("device=\"mlx5_0\""));
}

TEST_F(EngineTest, SeriesOverThePortLimitAreDroppedAndCounted) {
  tree_.add_port("d");
  script_.series = 300;
  start(config());
  const std::string text = page();
  EXPECT_THAT(text,
              HasSubstr("roce_series_dropped_total{collector=\"fake\"} 58\n"));  // 250 less 8 for the engine's own
  EXPECT_THAT(text, HasSubstr("counter=\"c241\""));
  EXPECT_THAT(text, Not(HasSubstr("counter=\"c242\"")));
}

TEST_F(EngineTest, WhatMattersLeastIsTheFirstToBeDropped) {
  static constexpr CollectorEntry kEntries[] = {
      {"first", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "fake", make_fake},
      {"second", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "fake", make_fake}};
  tree_.add_port("d");
  script_.series = 100;
  script_.least = 30;
  EngineConfig c = config();
  c.collectors = kEntries;
  start(c);
  const std::string text = page();
  // 242 of 260 stay: all that matters, and of the rest what came first.
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"first\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"second\"} 18\n"));
  EXPECT_THAT(text, HasSubstr("counter=\"c99\""));
  EXPECT_THAT(text, HasSubstr("roce_counters{device=\"d\",port=\"1\",state=\"ok\"} 10\n"));
}

TEST_F(EngineTest, DetailsGoBeforeEvidence) {
  tree_.add_port("d");
  script_.series = 300;
  script_.evidence = 20;
  start(config());
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"fake\"} 78\n"));
  EXPECT_THAT(text, HasSubstr("type=\"type19\""));
  EXPECT_THAT(text, HasSubstr("counter=\"c221\""));
  EXPECT_THAT(text, Not(HasSubstr("counter=\"c222\"")));
}

TEST_F(EngineTest, HostAndNetdevCollectorsHaveObjectsOfTheirOwn) {
  static constexpr CollectorEntry kEntries[] = {
      {"of_netdev", true, Cadence::kScrape, Scope::kNetdev, LockClass::kRtnl, "fake", make_fake},
      {"of_host", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "fake", make_fake}};
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/parent", "eth0\n");
  tree_.write("sys/class/net/eth0/operstate", "up\n");
  tree_.write("sys/class/net/eth1/operstate", "up\n");
  tree_.write("sys/class/net/lo/operstate", "unknown\n");
  EngineConfig c = config();
  c.collectors = kEntries;
  start(c);
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"of_netdev\",device=\"mlx5_0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"of_netdev\",device=\"eth1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"of_host\",device=\"\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("device=\"lo\"")));
  EXPECT_THAT(text, Not(HasSubstr("device=\"eth0\"")));
  EXPECT_THAT(text, HasSubstr("roce_rdma_devices 1\n"));
  EXPECT_EQ(script_.reads, 3);
}

TEST_F(EngineTest, SeriesOverTheHostLimitAreDroppedAndCounted) {
  static constexpr CollectorEntry kEntries[] = {
      {"of_host", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "fake", make_fake}};
  script_.series = 700;
  EngineConfig c = config();
  c.collectors = kEntries;
  start(c);
  const std::string text = page();
  std::size_t lines = 0;
  for (const char ch : text) lines += ch == '\n' ? 1 : 0;
  EXPECT_LE(lines, 600U);
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"of_host\"} 154\n"));  // 600 - 50 - 4 stay
}

// Network devices without RDMA have no port: they share what the host's own series leave of its limit.
TEST_F(EngineTest, NetdevsWithoutRdmaShareTheLimitOfTheHost) {
  static constexpr CollectorEntry kEntries[] = {
      {"first", true, Cadence::kScrape, Scope::kNetdev, LockClass::kNone, "fake", make_fake},
      {"second", true, Cadence::kScrape, Scope::kNetdev, LockClass::kNone, "fake", make_fake},
      {"of_host", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "fake", make_fake}};
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/parent", "eth0\n");
  for (int i = 0; i < 40; ++i) tree_.write("sys/class/net/eth" + std::to_string(i) + "/operstate", "up\n");
  script_.series = 12;
  script_.fails = "eth7";
  EngineConfig c = config();
  c.collectors = kEntries;
  start(c);
  const std::string text = page();
  std::istringstream lines(text);
  std::size_t of_others = 0;
  for (std::string line; std::getline(lines, line);)
    of_others += !line.starts_with('#') && line.find("device=\"mlx5_0\"") == std::string::npos ? 1 : 0;
  EXPECT_LE(of_others, 600U);
  // 600 - 50 - 3 * 4 = 538 stay: 12 of the host, 39 * 12 of the first collector, 58 of the second.
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"of_host\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"first\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_series_dropped_total{collector=\"second\"} 410\n"));
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"c11\"}"));
  // They count as devices.
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"first\",device=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"first\",device=\"eth7\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_collector_success{collector=\"first\",device=\"eth8\"}")));
}

TEST_F(EngineTest, AboveThirtyTwoDevicesOnlyFailingOnesAreListed) {
  for (int i = 0; i < 33; ++i) tree_.add_port("vf" + std::to_string(i));
  script_.fails = "vf7";
  start(config());
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"vf7\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_collector_success{collector=\"fake\",device=\"vf8\"}")));
}

TEST_F(EngineTest, ASlowCollectorIsReadOnceAndShowsItsAge) {
  tree_.add_port("d");
  EngineConfig c = config();
  c.collectors = kSlowFakes;
  start(std::move(c));
  page();
  const std::string text = page();
  EXPECT_EQ(script_.reads, 1);
  EXPECT_THAT(text, HasSubstr("roce_source_age_seconds{collector=\"fake\",device=\"d\"}"));
}

TEST_F(EngineTest, ASlowValueIsAbsentAfterTwoPeriods) {
  tree_.add_port("d");
  EngineConfig c = config();
  c.collectors = kSlowFakes;
  c.slow_period = milliseconds(30);
  start(std::move(c));
  page();
  script_.set(&Script::hangs, "d");
  std::string text;
  do text = page();
  while (text.find("roce_driver_counter_total{") != std::string::npos);
  EXPECT_THAT(text, HasSubstr("roce_collector_success{collector=\"fake\",device=\"d\"} 0\n"));
}

TEST_F(EngineTest, AFilterRunsOnlyWhatItNames) {
  tree_.add_port("d");
  start(config());
  page({"other"});
  EXPECT_EQ(script_.reads, 0);
  EXPECT_THAT(page({"fake"}), HasSubstr("device=\"d\""));
}

TEST_F(EngineTest, ANewConfigurationTakesAwayDevicesAndCollectors) {
  tree_.add_port("a");
  tree_.add_port("b");
  start(config());
  EXPECT_THAT(page(), HasSubstr("device=\"b\""));
  EngineConfig c = config();
  c.device_wanted = [](std::string_view name) { return name == "a"; };
  engine_->configure(std::move(c));
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("device=\"a\""));
  EXPECT_THAT(text, Not(HasSubstr("device=\"b\"")));
}

TEST_F(EngineTest, AListingThatHangsIsToldAndWaitedForOnce) {
  tree_.add_port("d");
  EngineConfig c = config();
  c.device_wanted = [this](std::string_view) {
    std::unique_lock lock(script_.mutex);
    script_.changed.wait(lock, [this] { return script_.hangs != "listing"; });
    return true;
  };
  start(std::move(c));
  page();
  script_.set(&Script::hangs, "listing");
  page();
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = page();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(150));  // the deadline of a source is 200
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"d\",port=\"1\",counter=\"c0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_collector_failure{collector=\"inventory\",device=\"\",reason=\"timeout\"} 1\n"));
  script_.set(&Script::hangs, "-");
  while (page().find("collector=\"inventory\"") != std::string::npos) {
  }
}

TEST_F(EngineTest, AnOldListingThatEndsDoesNotStandForTheOneOfANewConfiguration) {
  tree_.add_port("d");
  EngineConfig old = config();
  old.device_wanted = [this](std::string_view) {
    std::unique_lock lock(script_.mutex);
    script_.changed.wait(lock, [this] { return script_.hangs != "listing"; });
    return true;
  };
  script_.hangs = "listing";
  start(std::move(old));
  page();
  EngineConfig fresh = config();
  fresh.source_deadline = milliseconds(4000);
  fresh.device_wanted = [](std::string_view) {
    std::this_thread::sleep_for(milliseconds(200));
    return true;
  };
  engine_->configure(std::move(fresh));
  std::thread release([this] {
    std::this_thread::sleep_for(milliseconds(50));
    script_.set(&Script::hangs, "-");
  });
  const std::string text = page();
  release.join();
  EXPECT_THAT(text, HasSubstr("roce_driver_counter_total{device=\"d\",port=\"1\",counter=\"c0\"} 0\n"));
}

}  // namespace
}  // namespace roce

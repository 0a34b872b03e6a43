// SPDX-License-Identifier: Apache-2.0
#include "exporter/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "exporter/catalog/catalog.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// What the fake collector answers.
std::atomic<std::uint64_t> cnps{0};
std::atomic<bool> broken{false};
std::atomic<int> reads{0};

class FakeHwCounters : public Collector {
 public:
  using Collector::Collector;
  Result<void> collect(Output& out) override {
    ++reads;
    if (broken) return fail_errno(EIO, "fake");
    auto part = std::make_shared<Part>();
    part->samples.add(metric::cnp_sent, {device().name, "1"}, cnps.load());
    part->samples.add(metric::slow_restarts, {device().name, "1"}, cnps.load());
    part->samples.add(metric::pfc_frames, {device().name, "1", "eth0", "3", "receive", "any"}, cnps.load());
    out.parts.push_back(std::move(part));
    return {};
  }
};

std::unique_ptr<Collector> make_fake(const CollectorContext& context) {
  return std::make_unique<FakeHwCounters>(context);
}

constexpr CollectorEntry kEntries[] = {
    {"hw_counters", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "fake", make_fake},
    {"other", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "fake", make_fake}};

class SamplerTest : public testing::Test {
 protected:
  SamplerTest() {
    cnps = 0;
    broken = false;
    reads = 0;
    auto device = std::make_shared<InventoryDevice>();
    device->name = "mlx5_0";
    device->card = "0000:3b:00";
    devices_ = {device};
  }

  static std::string page(const Sampler& sampler) {
    SampleBatch batch;
    sampler.append_to(batch);
    return render_text(std::vector<const SampleBatch*>{&batch});
  }

  // Until the sampler has read `n` more times.
  static void wait_for_reads(int n) {
    const int until = reads + n;
    while (reads < until) std::this_thread::sleep_for(milliseconds(2));
  }

  TempTree tree_;
  Executor executor_;
  DeviceList devices_;
};

TEST_F(SamplerTest, KeepsTheFastestGrowthOfSampledFamilies) {
  Sampler sampler(tree_.host(), executor_, milliseconds(100), Sampler::sources_of(kEntries), {});
  cnps = 5000000;  // from boot on: no burst
  sampler.set_devices(devices_);
  wait_for_reads(3);
  EXPECT_THAT(page(sampler), HasSubstr("roce_sampler_peak_per_second{device=\"mlx5_0\",port=\"1\",netdev=\"\","
                                       "family=\"roce_cnp_sent_total\"} 0\n"));
  cnps += 1000;
  wait_for_reads(3);
  const std::string burst = page(sampler);
  EXPECT_THAT(burst, Not(HasSubstr("family=\"roce_cnp_sent_total\"} 0\n")));
  EXPECT_THAT(burst, Not(HasSubstr("roce_slow_restarts_total")));
  EXPECT_THAT(burst, HasSubstr("port=\"1\",netdev=\"eth0\",family=\"roce_pfc_frames_total\"} "));
  EXPECT_THAT(burst, Not(HasSubstr("family=\"roce_pfc_frames_total\"} 0\n")));
  EXPECT_THAT(burst, HasSubstr("roce_sampler_state{device=\"mlx5_0\",source=\"hw_counters\",state=\""));
  wait_for_reads(3);  // quiet again: the peak stays for a minute
  EXPECT_THAT(page(sampler), Not(HasSubstr("family=\"roce_cnp_sent_total\"} 0\n")));
}

TEST_F(SamplerTest, AFailingReadIsTold) {
  broken = true;
  Sampler sampler(tree_.host(), executor_, milliseconds(100), Sampler::sources_of(kEntries), {});
  sampler.set_devices(devices_);
  wait_for_reads(2);
  EXPECT_THAT(page(sampler), HasSubstr("state=\"failing\"} 1\n"));
  EXPECT_THAT(page(sampler), Not(HasSubstr("roce_sampler_peak_per_second{")));
}

TEST_F(SamplerTest, ARemovedDeviceIsNotSampledOn) {
  Sampler sampler(tree_.host(), executor_, milliseconds(100), Sampler::sources_of(kEntries), {});
  sampler.set_devices(devices_);
  wait_for_reads(1);
  sampler.set_devices({});
  EXPECT_EQ(page(sampler), "");
}

TEST(SamplerPaceTest, HalvesItsRateWhileReadsAreDearAndStopsBelowHalfAHertz) {
  SamplerPace pace(milliseconds(500));
  pace.note(milliseconds(1));
  EXPECT_FALSE(pace.slowed());
  pace.note(milliseconds(3));
  EXPECT_EQ(pace.interval(), milliseconds(1000));
  EXPECT_TRUE(pace.slowed());
  pace.note(milliseconds(3));
  EXPECT_EQ(pace.interval(), milliseconds(2000));
  EXPECT_FALSE(pace.stopped());
  pace.note(milliseconds(3));
  EXPECT_TRUE(pace.stopped());
}

TEST(SamplerPaceTest, ReadingTakesHalfAPercentOfTheTimeAtMost) {
  SamplerPace pace(milliseconds(100));
  pace.note(std::chrono::microseconds(499));
  EXPECT_FALSE(pace.slowed());
  pace.note(std::chrono::microseconds(600));
  EXPECT_EQ(pace.interval(), milliseconds(200));
}

TEST(SamplerPaceTest, AMinuteOfCheapReadsRestoresTheRate) {
  SamplerPace pace(milliseconds(500));
  pace.note(milliseconds(3));
  for (int i = 0; i < 59; ++i) pace.note(milliseconds(1));
  EXPECT_TRUE(pace.slowed());
  pace.note(milliseconds(1));
  EXPECT_EQ(pace.interval(), milliseconds(500));
}

TEST(SamplerSourcesTest, WhatWaitsForRtnlIsReadOnceASecondAtMost) {
  static constexpr CollectorEntry kWithEthtool[] = {
      {"ethtool", true, Cadence::kScrape, Scope::kNetdev, LockClass::kRtnl, "fake", make_fake}, kEntries[0]};
  const auto sources = Sampler::sources_of(kWithEthtool);
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].least_interval, milliseconds(1000));
  EXPECT_EQ(sources[1].least_interval, milliseconds(100));
}

}  // namespace
}  // namespace roce

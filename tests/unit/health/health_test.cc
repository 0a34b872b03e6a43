// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "exporter/health/profile_init.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

class HealthTest : public testing::Test {
 protected:
  HealthTest() {
    tree_.add_port("mlx5_0");
    tree_.write("sys/class/infiniband/mlx5_0/fw_ver", "28.1\n");
    gid("fe80:0000:0000:0000:0e42:a1ff:fe03:0001");
  }

  void gid(const std::string& text) const {
    tree_.write("sys/class/infiniband/mlx5_0/ports/1/gids/0", text + "\n");
    tree_.write("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2\n");
  }

  Page page() const {
    EngineConfig config;
    config.enabled = [](const CollectorEntry& entry) { return entry.by_default; };
    config.device_wanted = config.netdev_wanted = [](std::string_view) { return true; };
    return Engine(tree_.host(), std::move(config)).collect(std::chrono::milliseconds(60000));
  }

  static std::shared_ptr<const Profile> profile(const std::string& text) {
    auto parsed = parse_profile(text, "p.yml");
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error());
    return std::make_shared<const Profile>(std::move(*parsed));
  }

  std::string state_file() const {
    std::ifstream file(tree_.path("state/findings.json"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  TempTree tree_;
};

TEST_F(HealthTest, SinceStaysOverARestart) {
  std::filesystem::create_directories(tree_.path("state"));
  tree_.write("state/findings.json",
              R"({"findings":[{"id":"gid-missing","object":"mlx5_0/1","since":"2026-01-02T03:04:05Z"},
                              {"id":"gid-missing","object":"mlx5_9/1","since":"2026-01-02T03:04:05Z"}]})");
  {
    SinceStore store(tree_.path("state"), SinceStore::Mode::kReadWrite);
    Verdict verdict = judge(page());
    ASSERT_EQ(verdict.findings.size(), 1U);
    store.stamp(verdict, 1800000000);
    EXPECT_EQ(verdict.findings[0].since, "2026-01-02T03:04:05Z");
    store.flush();
  }
  EXPECT_THAT(state_file(), HasSubstr("mlx5_0/1"));
  EXPECT_THAT(state_file(), Not(HasSubstr("mlx5_9/1")));
}

TEST_F(HealthTest, APortThatWasActiveIsMissedAfterARestartOfTheProgramButNotOfTheHost) {
  gid("0000:0000:0000:0000:0000:ffff:c000:0201");
  tree_.add_port("mlx5_0", 2, "1: DOWN");
  std::filesystem::create_directories(tree_.path("state"));
  Health(tree_.path("state"), SinceStore::Mode::kReadWrite).judge(page());
  tree_.add_port("mlx5_0", 1, "1: DOWN");
  const auto down = [&](SinceStore::Mode mode) {
    std::vector<std::string> objects;
    for (const Finding& f : Health(tree_.path("state"), mode).judge(page()).findings)
      if (f.id == "port-down") objects.push_back(f.object);
    return objects;
  };
  EXPECT_THAT(down(SinceStore::Mode::kReadOnly), testing::ElementsAre("mlx5_0/1"));
  EXPECT_THAT(down(SinceStore::Mode::kReadWrite), testing::ElementsAre("mlx5_0/1"));
  EXPECT_THAT(down(SinceStore::Mode::kReadOnly), testing::ElementsAre("mlx5_0/1"));
  std::string text = state_file();
  const std::size_t boot = text.find("\"boot\": \"");
  ASSERT_NE(boot, std::string::npos) << text;
  text[boot + 9] = text[boot + 9] == '0' ? '1' : '0';
  tree_.write("state/findings.json", text);
  EXPECT_THAT(down(SinceStore::Mode::kReadOnly), testing::IsEmpty());
}

TEST_F(HealthTest, AFindingThatComesBackBeginsAnew) {
  SinceStore store("", SinceStore::Mode::kReadWrite);
  Verdict ill = judge(page());
  store.stamp(ill, 1800000000);
  EXPECT_EQ(ill.findings[0].since, "2027-01-15T08:00:00Z");
  store.stamp(ill, 1800000100);
  EXPECT_EQ(ill.findings[0].since, "2027-01-15T08:00:00Z");
  Verdict well;
  store.stamp(well, 1800000200);
  store.stamp(ill, 1800000300);
  EXPECT_EQ(ill.findings[0].since, "2027-01-15T08:05:00Z");
}

TEST_F(HealthTest, ABrokenStateFileIsLeftAsideAndWrittenAnew) {
  for (const std::string text : {"", "{", "[]", "{\"findings\": 1}", "\xff\xfe", R"({"findings":[1,{"id":2}]})"}) {
    tree_.write("state/findings.json", text);
    {
      SinceStore store(tree_.path("state"), SinceStore::Mode::kReadWrite);
      Verdict verdict = judge(page());
      store.stamp(verdict, 1800000000);
      EXPECT_EQ(verdict.findings[0].since, "2027-01-15T08:00:00Z") << text;
      store.flush();
    }
    EXPECT_THAT(state_file(), HasSubstr("2027-01-15")) << text;
  }
}

TEST_F(HealthTest, ADirectoryThatTakesNoFileIsNoHarm) {
  // A directory in the place of the file that is written first: the same as a full or read-only disk.
  std::filesystem::create_directories(tree_.path("state/findings.json.new"));
  SinceStore store(tree_.path("state"), SinceStore::Mode::kReadWrite);
  Verdict verdict = judge(page());
  store.stamp(verdict, 1800000000);
  store.flush();
  EXPECT_EQ(verdict.findings[0].since, "2027-01-15T08:00:00Z");
  EXPECT_FALSE(std::filesystem::exists(tree_.path("state/findings.json")));
}

TEST_F(HealthTest, WhoOnlyReadsKnowsOldTimesAndWritesNone) {
  tree_.write("state/findings.json", R"({"findings":[]})");
  SinceStore store(tree_.path("state"), SinceStore::Mode::kReadOnly);
  Verdict verdict = judge(page());
  store.stamp(verdict, 1800000000);
  EXPECT_EQ(verdict.findings[0].since, "");
  EXPECT_EQ(state_file(), R"({"findings":[]})");
}

TEST_F(HealthTest, AWaiverTakesItsFindingOutAndShows) {
  Health health("", SinceStore::Mode::kReadWrite);
  health.set_profile(profile("waivers: [{check: gid-missing, object: mlx5_0/1, reason: lab, until: 2999-01-01}]\n"));
  const Verdict verdict = health.judge(page());
  EXPECT_EQ(verdict.status, Status::kOk);
  EXPECT_TRUE(verdict.findings.empty());
  ASSERT_EQ(verdict.waived.size(), 1U);
  EXPECT_EQ(verdict.waived[0].until, "2999-01-01");
  EXPECT_THAT(to_json(verdict, true), HasSubstr("2999-01-01"));
}

TEST_F(HealthTest, AWaiverThatHasEndedIsNamedInTheFinding) {
  Health health("", SinceStore::Mode::kReadWrite);
  health.set_profile(profile("waivers: [{check: gid-missing, reason: lab, until: 2001-01-01}]\n"));
  const Verdict verdict = health.judge(page());
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(verdict.findings[0].found, HasSubstr("a waiver ended on 2001-01-01: lab"));
}

TEST_F(HealthTest, MetricsTellFindingsRolesAndExpectations) {
  Health health("", SinceStore::Mode::kReadWrite);
  const auto text = [&] {
    SampleBatch batch;
    health.add_metrics(page(), batch);
    EXPECT_EQ(batch.malformed(), 0U);
    return render_text(std::vector<const SampleBatch*>{&batch});
  };
  EXPECT_THAT(text(), HasSubstr("roce_health_findings{class=\"fault\",severity=\"warning\"} 1\n"));
  EXPECT_THAT(text(), HasSubstr("roce_health_findings{class=\"fault\",severity=\"critical\"} 0\n"));
  EXPECT_THAT(text(), HasSubstr("roce_device_role_info{device=\"mlx5_0\",role=\"undeclared\"} 1\n"));
  EXPECT_THAT(text(), Not(HasSubstr("roce_expectation_met{")));
  health.set_profile(
      profile("devices:\n"
              "  - {device: mlx5_0, role: compute, rate: 200, firmware: \"28.1\"}\n"
              "  - {device: mlx5_1}\n"
              "waivers: [{check: device-missing, object: mlx5_1, reason: x, until: 2999-01-01}]\n"));
  const std::string page_text = text();
  EXPECT_THAT(page_text, HasSubstr("roce_device_role_info{device=\"mlx5_0\",role=\"compute\"} 1\n"));
  EXPECT_THAT(page_text, HasSubstr("roce_expectation_met{check=\"rate\",object=\"mlx5_0/1\"} 0\n"));
  EXPECT_THAT(page_text, HasSubstr("roce_expected_value{check=\"rate\",object=\"mlx5_0/1\"} 25000000000\n"));
  EXPECT_THAT(page_text, HasSubstr("roce_expectation_met{check=\"firmware\",object=\"mlx5_0\"} 1\n"));
  EXPECT_THAT(page_text, HasSubstr("roce_expectation_met{check=\"port-down\",object=\"mlx5_0/1\"} 1\n"));
  EXPECT_THAT(page_text, Not(HasSubstr("roce_expectation_met{check=\"device-missing\",object=\"mlx5_1\"}")));
  EXPECT_THAT(page_text,
              HasSubstr("roce_expectation_waived_until_timestamp_seconds{check=\"device-missing\",object=\"mlx5_1\"}"));
}

TEST_F(HealthTest, ExpectationsAreBoundedAndCounted) {
  Health health("", SinceStore::Mode::kReadWrite);
  std::string text = "devices:\n";
  for (int i = 0; i < 1000; ++i) text += "  - device: d" + std::to_string(i) + "\n";
  health.set_profile(profile(text));
  SampleBatch batch;
  health.add_metrics(page(), batch);
  EXPECT_LE(batch.samples().size(), 2 * Health::kMaxExpectations + 20);
  EXPECT_THAT(render_text(std::vector<const SampleBatch*>{&batch}),
              HasSubstr("roce_series_dropped_total{collector=\"profile\"} 744\n"));
}

TEST_F(HealthTest, ARecentVerdictIsRemembered) {
  Health health("", SinceStore::Mode::kReadWrite);
  const auto now = Health::Clock::now();
  EXPECT_FALSE(health.recent(std::chrono::seconds(5), now));
  health.judge(page(), false, now);
  EXPECT_TRUE(health.recent(std::chrono::seconds(5), now + std::chrono::seconds(5)));
  EXPECT_FALSE(health.recent(std::chrono::seconds(5), now + std::chrono::seconds(6)));
  health.set_profile(nullptr);
  EXPECT_FALSE(health.recent(std::chrono::seconds(5), now));
}

TEST_F(HealthTest, AProfileDoesNotTakeAnUnreadablePortForOneWithoutALink) {
  tree_.add_port("mlx5_1", 1, "nonsense");
  const Page now = page();
  const WrittenProfile written = write_profile(now, judge(now, nullptr, nullptr, true), "node1");
  EXPECT_THAT(written.text, HasSubstr("    # suspicious: the state of its ports could not be read"));
  EXPECT_THAT(written.text, Not(HasSubstr("none had a link yet")));
  EXPECT_GE(written.suspicious, 1U);
}

TEST_F(HealthTest, AWrittenProfileIsReadAndHoldsForThisHost) {
  gid("0000:0000:0000:0000:0000:ffff:c000:0201");
  // Ports that were never cabled.
  tree_.add_port("mlx5_0", 2, "1: DOWN");
  tree_.add_port("mlx5_1", 1, "1: DOWN");
  const Page now = page();
  const WrittenProfile written = write_profile(now, judge(now, nullptr, nullptr, true), "node1");
  EXPECT_THAT(written.text, HasSubstr("    ports: [1]\n"));
  EXPECT_THAT(written.text, HasSubstr("    # ports: none had a link yet"));
  EXPECT_THAT(written.text, HasSubstr("rate: 100"));
  EXPECT_THAT(written.text, HasSubstr("firmware: \"28.1\""));
  Health health("", SinceStore::Mode::kReadWrite);
  health.set_profile(profile(written.text));
  const Verdict verdict = health.judge(now);
  for (const Finding& f : verdict.findings) ADD_FAILURE() << f.id << " " << f.found;
}

}  // namespace
}  // namespace roce

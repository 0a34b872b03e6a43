// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/verdict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exporter/health/check.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

Page collect(const TempTree& tree) {
  EngineConfig config;
  config.enabled = [](const CollectorEntry& entry) { return entry.by_default; };
  config.device_wanted = config.netdev_wanted = [](std::string_view) { return true; };
  return Engine(tree.host(), std::move(config)).collect(std::chrono::milliseconds(60000));
}

void add_gid(const TempTree& tree, const std::string& gid) {
  tree.write("sys/class/infiniband/mlx5_0/ports/1/gids/0", gid + "\n");
  tree.write("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2\n");
}

TEST(VerdictTest, AWellHostIsOk) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  add_gid(tree, "0000:0000:0000:0000:0000:ffff:c000:0201");
  const Verdict verdict = judge(collect(tree));
  EXPECT_EQ(verdict.status, Status::kOk);
  EXPECT_TRUE(verdict.findings.empty());
}

TEST(VerdictTest, AHostWithoutRdmaIsOk) {
  const TempTree tree;
  EXPECT_EQ(judge(collect(tree)).status, Status::kOk);
}

TEST(VerdictTest, AnActivePortWithoutRoutableGidIsAFinding) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  add_gid(tree, "fe80:0000:0000:0000:0e42:a1ff:fe03:0001");
  const Verdict verdict = judge(collect(tree));
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].id, "gid-missing");
  EXPECT_EQ(verdict.findings[0].object, "mlx5_0/1");
  EXPECT_EQ(verdict.status, Status::kWarning);
}

TEST(VerdictTest, ADownPortNeedsNoGid) {
  const TempTree tree;
  tree.add_port("mlx5_0", 1, "1: DOWN");
  add_gid(tree, "fe80:0000:0000:0000:0e42:a1ff:fe03:0001");
  EXPECT_TRUE(judge(collect(tree)).findings.empty());
}

TEST(VerdictTest, NothingReadableIsUnknown) {
  Page page;
  page.sources.push_back({"rdma_port", "mlx5_0", false, "timeout", "no answer"});
  const Verdict verdict = judge(page);
  EXPECT_EQ(verdict.status, Status::kUnknown);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings[0].finding_class, "unknown");
}

TEST(VerdictTest, StrangersGetIdsWithoutNames) {
  const TempTree tree;
  tree.add_port("mlx5_0");
  add_gid(tree, "fe80:0000:0000:0000:0e42:a1ff:fe03:0001");
  const Verdict verdict = judge(collect(tree));
  EXPECT_NE(to_json(verdict, true).find("mlx5_0"), std::string::npos);
  const std::string text = to_json(verdict, false);
  EXPECT_EQ(text.find("mlx5_0"), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["status"], "warning");
  EXPECT_EQ(json["findings"][0]["id"], "gid-missing");
  for (const char* key :
       {"class", "severity", "object", "summary", "found", "expected", "since", "next_step", "runbook"})
    EXPECT_TRUE(json["findings"][0].contains(key)) << key;
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "exporter/catalog/catalog.h"
#include "exporter/catalog/node_infiniband.h"

namespace roce {
namespace {

using nlohmann::json;

std::set<std::string> keys(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

TEST(ReferenceJson, HasTheAgreedForm) {
  const json reference = json::parse(metrics_reference_json());
  EXPECT_EQ(keys(reference), (std::set<std::string>{"metrics", "omitted"}));
  for (const json& m : reference["metrics"]) {
    EXPECT_EQ(keys(m), (std::set<std::string>{"name", "type", "unit", "labels", "help", "collector", "default", "proof",
                                              "sources"}));
    EXPECT_TRUE(m["labels"].is_array());
    EXPECT_TRUE(m["default"].is_boolean());
    EXPECT_TRUE((std::set<std::string>{"real", "simulated", "made", "read"}.contains(m["proof"]))) << m["name"];
    EXPECT_TRUE(m["name"].get<std::string>().starts_with("roce_"));
    std::set<std::string> labels;
    for (const json& label : m["labels"]) labels.insert(label.get<std::string>());
    for (const json& s : m["sources"]) {
      EXPECT_EQ(keys(s), (std::set<std::string>{"driver", "counter", "interface", "labels", "scale"}));
      EXPECT_TRUE(s["scale"].is_number());
      for (const std::string& label : keys(s["labels"])) EXPECT_TRUE(labels.contains(label)) << m["name"] << label;
    }
  }
  for (const json& o : reference["omitted"]) {
    EXPECT_EQ(keys(o), (std::set<std::string>{"driver", "counter", "reason"}));
    EXPECT_FALSE(o["reason"].get<std::string>().empty());
  }
}

TEST(ReferenceJson, HoldsEveryMetricAndEveryCounterOnce) {
  const json reference = json::parse(metrics_reference_json());
  ASSERT_EQ(reference["metrics"].size(), all_metrics().size());
  std::size_t sources = 0;
  std::set<std::pair<std::string, std::string>> published;
  for (std::size_t i = 0; i < all_metrics().size(); ++i) {
    const json& m = reference["metrics"][i];
    EXPECT_EQ(m["name"], std::string(all_metrics()[i].name));
    sources += m["sources"].size();
    for (const json& s : m["sources"]) published.emplace(s["driver"], s["counter"]);
  }
  for (const json& o : reference["omitted"]) EXPECT_FALSE(published.contains({o["driver"], o["counter"]})) << o;
  EXPECT_EQ(sources + reference["omitted"].size(), all_counters().size());
}

TEST(ReferenceJson, TellsHowACounterIsPublished) {
  const json reference = json::parse(metrics_reference_json());
  const auto source = [&](const std::string& driver, const std::string& counter) {
    for (const json& m : reference["metrics"]) {
      for (const json& s : m["sources"]) {
        if (s["driver"] == driver && s["counter"] == counter) return json{{"metric", m["name"]}, {"source", s}};
      }
    }
    return json();
  };
  EXPECT_EQ(source("ib-port", "port_rcv_data"), json::parse(R"({"metric":"roce_port_receive_bytes_total","source":
    {"driver":"ib-port","counter":"port_rcv_data","interface":"port_counters","labels":{},"scale":4}})"));
  EXPECT_EQ(source("mlx5", "req_remote_access_errors"), json::parse(R"({"metric":"roce_operation_errors_total","source":
    {"driver":"mlx5","counter":"req_remote_access_errors","interface":"hw_counters",
     "labels":{"side":"requester","reason":"remote_access"},"scale":1}})"));
  EXPECT_EQ(source("irdma", "ord limit count"), json::parse(R"({"metric":"roce_driver_counter_total","source":
    {"driver":"irdma","counter":"ord limit count","interface":"hw_counters",
     "labels":{"counter":"ord limit count"},"scale":1}})"));
  EXPECT_EQ(source("ionic", "(names supplied by firmware)")["source"]["labels"], json::object());
}

TEST(ReferenceMarkdown, ShowsEveryMetricAndCounter) {
  const std::string page = metrics_reference_markdown();
  for (const MetricDesc& m : all_metrics()) {
    EXPECT_NE(page.find("### " + std::string(m.name) + "\n"), std::string::npos) << m.name;
  }
  for (const MetricDesc& m : process_metrics()) EXPECT_NE(page.find(std::string(m.name)), std::string::npos) << m.name;
  for (const MetricDesc& m : node_infiniband_metrics()) {
    EXPECT_NE(page.find(std::string(m.name)), std::string::npos) << m.name;
  }
  for (const CounterRow& row : all_counters()) {
    EXPECT_NE(page.find("`" + std::string(row.counter) + "`"), std::string::npos) << row.driver << " " << row.counter;
  }
}

TEST(ReferenceMarkdown, TablesHaveTheSameNumberOfCellsInEachRow) {
  const std::string page = metrics_reference_markdown();
  std::size_t cells_of_table = 0;
  std::size_t tables = 0;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = page.find('\n', begin);
    const std::string_view line = std::string_view(page).substr(begin, end - begin);
    std::size_t cells = 0;
    for (std::size_t i = 0; i < line.size(); ++i) cells += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    if (!line.starts_with('|')) {
      cells_of_table = 0;
    } else if (cells_of_table == 0) {
      cells_of_table = cells;
      ++tables;
    } else {
      EXPECT_EQ(cells, cells_of_table) << line;
    }
    begin = end + 1;
  }
  EXPECT_GT(tables, all_metrics().size());
}

}  // namespace
}  // namespace roce

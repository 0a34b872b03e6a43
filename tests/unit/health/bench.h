// SPDX-License-Identifier: Apache-2.0
//
// Pages for tests of checks, written as the text of a page: `roce_port_state{device="mlx5_0",port="1"} 4`.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/catalog/catalog.h"
#include "exporter/health/check.h"

namespace roce {

inline void add_line(SampleBatch& batch, std::string_view line) {
  const std::size_t brace = line.find('{');
  const std::size_t end = line.rfind('}');
  const std::size_t blank = line.rfind(' ');
  const std::string_view name = line.substr(0, std::min(brace, blank));
  const MetricDesc* metric = nullptr;
  for (const MetricDesc& m : all_metrics())
    if (m.name == name) metric = &m;
  ASSERT_NE(metric, nullptr) << line;
  std::map<std::string, std::string, std::less<>> given;
  if (brace != std::string_view::npos) {
    std::string_view rest = line.substr(brace + 1, end - brace - 1);
    while (!rest.empty()) {
      const std::size_t equals = rest.find("=\"");
      const std::size_t close = rest.find('"', equals + 2);
      ASSERT_NE(close, std::string_view::npos) << line;
      given[std::string(rest.substr(0, equals))] = rest.substr(equals + 2, close - equals - 2);
      rest.remove_prefix(std::min(rest.size(), close + 2));
    }
  }
  std::vector<std::string_view> labels;
  std::string_view names = metric->labels;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    const auto at = given.find(names.substr(0, comma));
    labels.push_back(at == given.end() ? std::string_view() : std::string_view(at->second));
    names.remove_prefix(std::min(names.size(), comma + 1));
  }
  for (const auto& [label, value] : given)
    ASSERT_TRUE(("," + std::string(metric->labels) + ",").find("," + label + ",") != std::string::npos) << line;
  const std::string value(line.substr(blank + 1));
  batch.add(*metric, labels,
            value == "+Inf" ? std::numeric_limits<double>::infinity() : std::strtod(value.c_str(), nullptr));
}

// Pages one after the other, with what the engine would say of its sources.
class Bench {
 public:
  void page(const std::vector<std::string>& lines, int seconds_later = 0) {
    batch_ = std::make_unique<SampleBatch>();
    for (const std::string& line : lines) add_line(*batch_, line);
    now_ += std::chrono::seconds(seconds_later);
    const SampleBatch* const batches[] = {batch_.get()};
    history_.record(PageView(batches), now_);
  }

  Verdict judge(const Profile* profile = nullptr, bool advice = false) const {
    const SampleBatch* const batches[] = {batch_.get()};
    return roce::judge(PageView(batches), sources, devices, &history_, profile, advice);
  }

  const SampleBatch& batch() const { return *batch_; }
  const History& history() const { return history_; }
  std::size_t devices = 1;  // RDMA devices of the host
  std::vector<SourceState> sources{{"rdma_port", "mlx5_0", true, "", ""}};

 private:
  std::unique_ptr<SampleBatch> batch_ = std::make_unique<SampleBatch>();
  History history_{watched_families()};
  History::Clock::time_point now_{std::chrono::hours(1)};
};

}  // namespace roce

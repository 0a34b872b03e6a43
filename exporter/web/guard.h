// SPDX-License-Identifier: Apache-2.0
//
// The web configuration in force: looked at again when its files change, kept as it was when what they hold is bad.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "exporter/web/users.h"
#include "exporter/web/web_config.h"

namespace roce::web {

class Guard {
 public:
  // What is in force at one time.
  struct Rules {
    WebConfig config;
    std::unique_ptr<Users> users;
  };

  // The error is one line: "FILE:LINE: key `x`: found ..., allowed ...". `counters` outlive the guard. Files are looked
  // at once in `interval`, when a connection or a request comes.
  static tl::expected<std::shared_ptr<Guard>, std::string> open(const std::string& file, GuardCounters& counters,
                                                                std::chrono::milliseconds interval);

  // Reads changed files anew. Never fails: what was in force before stays then, which is logged and counted.
  std::shared_ptr<const Rules> rules();

  GuardCounters& counters() const { return counters_; }

 private:
  Guard(std::string file, GuardCounters& counters, std::chrono::milliseconds interval);
  tl::expected<void, std::string> load();
  std::string look() const;

  const std::string file_;
  GuardCounters& counters_;
  const std::chrono::milliseconds interval_;

  std::mutex load_mutex_;  // for what follows
  std::vector<std::string> files_;
  std::string seen_;  // of the files, when they were last read
  std::chrono::steady_clock::time_point looked_;

  std::mutex rules_mutex_;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace roce::web

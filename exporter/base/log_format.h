// SPDX-License-Identifier: Apache-2.0
//
// The parts of the logger that are pure: how a record is written and when a call site has said enough. Split from log.h
// so that tests drive them with their own clock and bytes. format_record is thread-safe; RateLimit locks itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/base/log.h"

namespace roce::log {

// One record with its line end: "ts=... level=info msg=... key=value\n" or the same as a JSON object. Whatever bytes
// come in, a record stays one line of valid UTF-8: control bytes are escaped, broken UTF-8 becomes U+FFFD, and a value
// is cut at 4096 bytes. `suppressed` above 0 is told as a field of that name.
std::string format_record(Format format, Level level, std::chrono::system_clock::time_point time,
                          std::string_view message, std::span<const Field> fields, std::uint64_t suppressed);

// RFC 3339 in UTC with milliseconds: 2026-01-31T12:00:00.000Z.
std::string format_time(std::chrono::system_clock::time_point time);

// The syslog priority prefix of a level, as sd-daemon(3) defines it: "<3>" for error.
std::string_view priority_prefix(Level level);

// True when `journal_stream` (the value of JOURNAL_STREAM, "device:inode", may be null) names the file behind `fd`.
bool is_journal(int fd, const char* journal_stream);

// A bucket of lines per call site: full with `kBurst`, one more each `kInterval`.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kBurst = 10;
  static constexpr std::chrono::seconds kInterval{10};

  // How many lines of this site were left out since its last one, or nothing when this one is to be left out too.
  std::optional<std::uint64_t> admit(std::string_view file, std::uint_least32_t line, Clock::time_point now);

 private:
  struct Site {
    int tokens = kBurst;
    Clock::time_point filled;  // when the last token was added
    std::uint64_t left_out = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<std::string_view, std::uint_least32_t>, Site> sites_;
};

}  // namespace roce::log

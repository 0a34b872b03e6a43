// SPDX-License-Identifier: Apache-2.0
//
// What verdicts need of earlier runs, kept in a small file: since when a finding is there, and which ports were active
// since the host began.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "exporter/health/verdict.h"

namespace roce {

// Thread-safe. Writing happens on a thread of its own: a disk that hangs or is full holds up nobody, and is told once.
class SinceStore {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  static constexpr std::size_t kMaxFindings = 4096;
  static constexpr std::size_t kMaxPorts = 4096;

  // `directory` empty: kept in memory alone. A file that cannot be read or understood is told once and left aside.
  SinceStore(const std::string& directory, Mode mode);
  ~SinceStore();
  SinceStore(const SinceStore&) = delete;
  SinceStore& operator=(const SinceStore&) = delete;

  // Gives each finding its time, `unix_time` to those that are new, and forgets those that are gone. A store that only
  // reads leaves new ones without a time. `active_ports` is kept for the next run.
  void stamp(Verdict& verdict, std::int64_t unix_time, const std::set<std::string>& active_ports = {});
  // Those that the last run left, if the host has not begun anew since: a cable that was taken out before a reboot is
  // no outage after it.
  const std::set<std::string>& active_ports() const { return left_; }
  // Waits until what was stamped is written (or could not be).
  void flush();

 private:
  using Times = std::map<std::string, std::string>;  // id and object -> RFC 3339
  void load();
  void write_in_background();
  bool write(const std::string& text);

  std::string file_;
  Mode mode_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Times times_;
  std::set<std::string> left_;   // of the last run; changes no more
  std::set<std::string> ports_;  // as of the last stamp
  std::string boot_;
  std::string pending_;
  bool has_pending_ = false;
  bool writing_ = false;
  bool stop_ = false;
  bool told_ = false;
  std::thread writer_;
};

// "2026-11-29T22:10:00Z"
std::string rfc3339(std::int64_t unix_time);

}  // namespace roce

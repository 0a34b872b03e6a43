// SPDX-License-Identifier: Apache-2.0
//
// New records of the kernel's log as /dev/kmsg gives them: "priority,sequence,microseconds,flags;text". The device node
// is opened for reading only, from its end, and never waited for. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace roce {

struct KernelRecord {
  unsigned priority = 0;
  unsigned facility = 0;  // 0: the kernel; programs cannot write with it
  std::string_view text;
};

// The record in a line; nothing for continuation lines and texts that are none.
bool parse_kernel_record(std::string_view line, KernelRecord& out);

class KernelLog {
 public:
  explicit KernelLog(std::string path) : path_(std::move(path)) {}
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  // Gives every record since the last call to `take`; none at the first call, which opens the log. kDenied: not allowed
  // (CAP_SYSLOG), kAbsent: there is no such node. Opened again after a failure.
  Result<void> read(const std::function<void(const KernelRecord&)>& take);

  // How often records were overwritten before they were read.
  std::uint64_t overruns() const { return overruns_; }

 private:
  void take_lines(const std::function<void(const KernelRecord&)>& take);

  const std::string path_;
  int fd_ = -1;
  std::string pending_;  // a line whose end has not come
  std::uint64_t overruns_ = 0;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "exporter/base/parse.h"

namespace roce {
namespace {

constexpr std::size_t kRecordSize = 16384;  // above the kernel's limit for a record with all its properties
// More in one go would be a log that grows as fast as it is read.
constexpr int kMostReads = 100000;

}  // namespace

bool parse_kernel_record(std::string_view line, KernelRecord& out) {
  const auto semicolon = line.find(';');
  if (semicolon == std::string_view::npos) return false;
  const std::string_view head = line.substr(0, semicolon);
  const auto comma = head.find(',');
  if (comma == std::string_view::npos) return false;
  const auto priority = parse_u64(head.substr(0, comma));
  if (!priority || *priority > 1023) return false;
  out.priority = static_cast<unsigned>(*priority & 7U);
  out.facility = static_cast<unsigned>(*priority >> 3U);
  out.text = line.substr(semicolon + 1);
  return true;
}

KernelLog::~KernelLog() {
  if (fd_ >= 0) close(fd_);
}

Result<void> KernelLog::read(const std::function<void(const KernelRecord&)>& take) {
  if (fd_ < 0) {
    fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd_ < 0) return fail_errno(errno, path_);
    pending_.clear();
    if (lseek(fd_, 0, SEEK_END) < 0) {
      const int err = errno;
      close(std::exchange(fd_, -1));
      return fail_errno(err, path_);
    }
    return {};
  }
  std::array<char, kRecordSize> buffer;  // NOLINT: filled by read
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(n));
      take_lines(take);
      continue;
    }
    if (n == 0 || errno == EAGAIN) return {};
    if (errno == EINTR) continue;
    if (errno == EPIPE) {
      ++overruns_;  // the next read goes on with the oldest record that is left
      pending_.clear();
      continue;
    }
    const int err = errno;
    close(std::exchange(fd_, -1));
    return fail_errno(err, path_);
  }
  return {};
}

void KernelLog::take_lines(const std::function<void(const KernelRecord&)>& take) {
  std::string_view rest = pending_;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    KernelRecord record;
    // Properties of a record follow on lines that begin with a blank.
    const std::string_view line = rest.substr(0, end);
    if (!line.starts_with(' ') && parse_kernel_record(line, record)) take(record);
    rest.remove_prefix(end + 1);
  }
  pending_.erase(0, pending_.size() - rest.size());
  if (pending_.size() > kRecordSize) pending_.clear();
}

}  // namespace roce

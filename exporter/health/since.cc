// SPDX-License-Identifier: Apache-2.0
#include "exporter/health/since.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "exporter/base/log.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFile = std::size_t{4} << 20U;

constexpr const char* kBoot = "/proc/sys/kernel/random/boot_id";

std::string key_of(const Finding& finding) { return finding.id + '\n' + finding.object; }

std::string reason(int err) {
  char buffer[128];
  return strerror_r(err, buffer, sizeof buffer);
}

// As rfc3339() writes it.
bool is_time(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00Z";
  return std::equal(text.begin(), text.end(), kShape.begin(), kShape.end(), [](char found, char wanted) {
    return wanted == '0' ? found >= '0' && found <= '9' : found == wanted;
  });
}

}  // namespace

std::string rfc3339(std::int64_t unix_time) {
  const auto time = static_cast<std::time_t>(unix_time);
  std::tm utc{};
  if (gmtime_r(&time, &utc) == nullptr) return {};
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, n};
}

SinceStore::SinceStore(const std::string& directory, Mode mode) : mode_(mode) {
  if (directory.empty()) return;
  file_ = directory + "/findings.json";
  // Of the host that this program runs on, whatever tree it reads: the file is kept there.
  if (const auto boot = read_file(kBoot, 256)) boot_ = boot->substr(0, boot->find('\n'));
  load();
  if (mode_ == Mode::kReadWrite) writer_ = std::thread([this] { write_in_background(); });
}

SinceStore::~SinceStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

void SinceStore::load() {
  const auto text = read_file(file_, kMaxFile);
  if (!text) {
    if (text.error().kind != ErrorKind::kAbsent && mode_ == Mode::kReadWrite)
      log::warn("findings of earlier runs are not known", {{"err", text.error().message()}});
    return;
  }
  const json root = json::parse(*text, nullptr, false);
  const auto findings = root.is_object() ? root.find("findings") : root.end();
  if (!root.is_object() || findings == root.end() || !findings->is_array()) {
    if (mode_ == Mode::kReadWrite)
      log::warn("findings of earlier runs are not known: the file is no such list, it will be written anew",
                {{"file", file_}});
    return;
  }
  for (const json& entry : *findings) {
    if (times_.size() >= kMaxFindings) break;
    if (!entry.is_object()) continue;
    const auto text_of = [&](const char* key) {
      const auto at = entry.find(key);
      return at != entry.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const std::string since = text_of("since");
    if (is_time(since)) times_[text_of("id") + '\n' + text_of("object")] = since;
  }
  const auto boot = root.find("boot");
  const auto ports = root.find("active_ports");
  if (boot_.empty() || boot == root.end() || !boot->is_string() || ports == root.end() || !ports->is_array()) return;
  if (boot->get<std::string>() != boot_) return;
  for (const json& port : *ports)
    if (port.is_string() && left_.size() < kMaxPorts) left_.insert(port.get<std::string>());
}

void SinceStore::stamp(Verdict& verdict, std::int64_t unix_time, const std::set<std::string>& active_ports) {
  const std::lock_guard lock(mutex_);
  Times now;
  for (Finding& finding : verdict.findings) {
    const std::string key = key_of(finding);
    if (const auto known = times_.find(key); known != times_.end())
      finding.since = known->second;
    else if (mode_ == Mode::kReadWrite)
      finding.since = rfc3339(unix_time);
    if (!finding.since.empty() && now.size() < kMaxFindings) now[key] = finding.since;
  }
  if (mode_ == Mode::kReadOnly || (now == times_ && active_ports == ports_)) return;
  times_ = std::move(now);
  ports_ = active_ports;
  if (file_.empty()) return;
  json findings = json::array();
  for (const auto& [key, since] : times_) {
    const std::size_t end = key.find('\n');
    findings.push_back({{"id", key.substr(0, end)}, {"object", key.substr(end + 1)}, {"since", since}});
  }
  const json root{{"findings", std::move(findings)}, {"boot", boot_}, {"active_ports", ports_}};
  pending_ = root.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  has_pending_ = true;
  changed_.notify_all();
}

void SinceStore::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || (!has_pending_ && !writing_); });
}

void SinceStore::write_in_background() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || has_pending_; });
    if (!has_pending_) return;
    const std::string text = std::move(pending_);
    has_pending_ = false;
    writing_ = true;
    lock.unlock();
    const bool written = write(text);
    const int err = errno;
    lock.lock();
    writing_ = false;
    changed_.notify_all();
    if (!written && !std::exchange(told_, true))
      log::warn("findings cannot be kept over a restart", {{"file", file_}, {"err", reason(err)}});
    if (written) told_ = false;
  }
}

// A new file takes the place of the old one only when it is whole.
bool SinceStore::write(const std::string& text) {
  const std::string temporary = file_ + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (fd < 0) return false;
  std::size_t done = 0;
  bool good = true;
  while (good && done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) done += static_cast<std::size_t>(n);
  }
  int err = errno;
  if (::close(fd) != 0 && good) {
    err = errno;
    good = false;
  }
  if (good && ::rename(temporary.c_str(), file_.c_str()) == 0) return true;
  if (good) err = errno;
  ::unlink(temporary.c_str());
  errno = err;
  return false;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <limits>

#include "exporter/base/log_format.h"

namespace roce::log {
namespace {

constexpr std::size_t kMaxValue = 4096;  // a sysfs page; more than that only drowns the journal
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::atomic<Level> g_level{Level::kInfo};
std::atomic<Format> g_format{Format::kLogfmt};

std::string_view level_name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warn";
    case Level::kError:
      return "error";
  }
  return "error";
}

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none (overlong, surrogate, cut).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

// C1 controls and the two Unicode line separators: terminals and line-based readers act on them.
bool is_control(std::string_view sequence) {
  if (sequence.size() == 1) return static_cast<unsigned char>(sequence[0]) < 0x20 || sequence[0] == 0x7F;
  if (sequence.size() == 2) return sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0;
  return sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9";
}

unsigned code_point(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  if (sequence.size() == 2) return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
}

// The inside of a quoted string; the same escapes are right in JSON and in logfmt.
void append_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = text.substr(0, length);
    text.remove_prefix(length);
    if (sequence == "\"" || sequence == "\\") {
      out += '\\';
      out += sequence;
    } else if (sequence == "\n") {
      out += "\\n";
    } else if (sequence == "\r") {
      out += "\\r";
    } else if (sequence == "\t") {
      out += "\\t";
    } else if (is_control(sequence)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code_point(sequence));
    } else {
      out += sequence;
    }
  }
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return true;
    const std::string_view sequence = text.substr(0, length);
    if (sequence == " " || sequence == "=" || sequence == "\"" || is_control(sequence)) return true;
    text.remove_prefix(length);
  }
  return false;
}

std::string shortened(std::string_view text) {
  if (text.size() <= kMaxValue) return std::string(text);
  std::size_t end = kMaxValue;
  while (end > kMaxValue - 3 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "...";
}

// A key that neither ends the pair early nor shadows what every record carries.
std::string clean_key(std::string_view key) {
  std::string out;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte <= 0x20 || byte >= 0x7F || c == '=' || c == '"' || c == '\\' ? '_' : c;
  }
  if (out.empty() || out == "ts" || out == "level" || out == "msg" || out == "suppressed") out += '_';
  return out;
}

void append_logfmt(std::string& out, std::string_view key, std::string_view value) {
  if (!out.empty()) out += ' ';
  out += key;
  out += '=';
  if (!needs_quotes(value)) {
    out += value;
    return;
  }
  out += '"';
  append_escaped(out, value);
  out += '"';
}

void append_json(std::string& out, std::string_view key, std::string_view value, bool literal) {
  out += out.empty() ? '{' : ',';
  out += '"';
  out += key;
  out += "\":";
  if (literal) {
    out += value;
    return;
  }
  out += '"';
  append_escaped(out, value);
  out += '"';
}

void write_line(std::string_view line) {
  // A pipe takes at most PIPE_BUF bytes in one piece, so longer lines of two threads could mix without the lock.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  while (!line.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody reads: the line is lost, the program goes on
    line.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

std::string format_time(std::chrono::system_clock::time_point time) {
  using std::chrono::floor;
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const auto whole = floor<seconds>(time);
  const auto millis = floor<milliseconds>(time) - whole;
  const std::time_t t = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  gmtime_r(&t, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, millis.count());
}

std::string format_record(Format format, Level level, std::chrono::system_clock::time_point time,
                          std::string_view message, std::span<const Field> fields, std::uint64_t suppressed) {
  const bool json = format == Format::kJson;
  std::string out;
  const auto add = [&](std::string_view key, std::string_view value, bool literal) {
    if (json) {
      append_json(out, key, value, literal);
    } else {
      append_logfmt(out, key, value);
    }
  };
  add("ts", format_time(time), false);
  add("level", level_name(level), false);
  add("msg", shortened(message), false);
  for (const Field& field : fields) add(clean_key(field.key), shortened(field.value), field.literal);
  if (suppressed > 0) add("suppressed", fmt::to_string(suppressed), true);
  out += json ? "}\n" : "\n";
  return out;
}

std::string_view priority_prefix(Level level) {
  switch (level) {
    case Level::kDebug:
      return "<7>";
    case Level::kInfo:
      return "<6>";
    case Level::kWarn:
      return "<4>";
    case Level::kError:
      return "<3>";
  }
  return "<3>";
}

bool is_journal(int fd, const char* journal_stream) {
  if (journal_stream == nullptr) return false;
  const std::string_view text(journal_stream);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (!number(text.substr(0, colon), device) || !number(text.substr(colon + 1), inode)) return false;
  struct stat info{};
  return ::fstat(fd, &info) == 0 && info.st_dev == device && info.st_ino == inode;
}

std::optional<std::uint64_t> RateLimit::admit(std::string_view file, std::uint_least32_t line, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = sites_.try_emplace({file, line});
  Site& site = entry->second;
  if (fresh || site.tokens == kBurst) {
    site.filled = now;
  } else if (now > site.filled) {
    const auto gained = std::min<Clock::rep>((now - site.filled) / Clock::duration(kInterval), kBurst - site.tokens);
    site.tokens += static_cast<int>(gained);
    // A full bucket does not save up the rest of the time.
    site.filled = site.tokens == kBurst ? now : site.filled + gained * Clock::duration(kInterval);
  }
  if (site.tokens == 0) {
    ++site.left_out;
    return std::nullopt;
  }
  --site.tokens;
  return std::exchange(site.left_out, 0);
}

void set_level(Level level) { g_level.store(level, std::memory_order_relaxed); }
void set_format(Format format) { g_format.store(format, std::memory_order_relaxed); }

bool parse_level(std::string_view text, Level& out) {
  for (const Level level : {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError}) {
    if (text == level_name(level)) {
      out = level;
      return true;
    }
  }
  return false;
}

bool parse_format(std::string_view text, Format& out) {
  if (text == "logfmt") {
    out = Format::kLogfmt;
  } else if (text == "json") {
    out = Format::kJson;
  } else {
    return false;
  }
  return true;
}

void write(Level level, std::string_view message, std::initializer_list<Field> fields, std::source_location where) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  const int saved_errno = errno;  // callers log a failure and then still read why
  try {
    static RateLimit limit;
    const auto suppressed = limit.admit(where.file_name(), where.line(), RateLimit::Clock::now());
    if (suppressed) {
      std::string line = format_record(g_format.load(std::memory_order_relaxed), level,
                                       std::chrono::system_clock::now(), message, fields, *suppressed);
      if (is_journal(STDERR_FILENO, std::getenv("JOURNAL_STREAM"))) line.insert(0, priority_prefix(level));
      write_line(line);
    }
  } catch (...) {  // out of memory: a log line is never worth the program
  }
  errno = saved_errno;
}

}  // namespace roce::log

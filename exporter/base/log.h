// SPDX-License-Identifier: Apache-2.0
//
// Structured logging to stderr: logfmt or JSON, one line a record. Thread-safe. Under systemd (JOURNAL_STREAM is
// stderr) each line carries the syslog priority prefix. Repeats of one call site are rate-limited: after a burst of
// 10 lines a site logs at most one line a 10 s, which says how many it left out (field `suppressed`). Lines below the
// level cost one atomic load and do not count. Nothing is thrown and errno is kept.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace roce::log {

enum class Level { kDebug, kInfo, kWarn, kError };
enum class Format { kLogfmt, kJson };

// A key and its value. Numbers and booleans stay such in JSON (`literal`); a NaN or infinity has no JSON number and
// is written as text. `key` is not copied: pass a literal.
struct Field {
  std::string_view key;
  std::string value;
  bool literal = false;
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  Field(std::string_view k, T v) : key(k), value(fmt::to_string(v)), literal(is_literal(v)) {}

 private:
  template <class T>
  static bool is_literal(T v) {
    if constexpr (std::is_floating_point_v<T>) return std::isfinite(v);
    return !std::is_same_v<T, char>;
  }
};

void set_level(Level level);
void set_format(Format format);
bool parse_level(std::string_view text, Level& out);    // debug, info, warn, error
bool parse_format(std::string_view text, Format& out);  // logfmt, json

void write(Level level, std::string_view message, std::initializer_list<Field> fields,
           std::source_location where = std::source_location::current());

inline void debug(std::string_view m, std::initializer_list<Field> f = {},
                  std::source_location w = std::source_location::current()) {
  write(Level::kDebug, m, f, w);
}
inline void info(std::string_view m, std::initializer_list<Field> f = {},
                 std::source_location w = std::source_location::current()) {
  write(Level::kInfo, m, f, w);
}
inline void warn(std::string_view m, std::initializer_list<Field> f = {},
                 std::source_location w = std::source_location::current()) {
  write(Level::kWarn, m, f, w);
}
inline void error(std::string_view m, std::initializer_list<Field> f = {},
                  std::source_location w = std::source_location::current()) {
  write(Level::kError, m, f, w);
}

}  // namespace roce::log

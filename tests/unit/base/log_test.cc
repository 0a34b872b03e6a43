// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "exporter/base/log_format.h"

namespace roce::log {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

const std::chrono::system_clock::time_point kTime{milliseconds(1700000000123)};

std::string logfmt(std::string_view message, std::vector<Field> fields = {}, std::uint64_t suppressed = 0) {
  return format_record(Format::kLogfmt, Level::kInfo, kTime, message, fields, suppressed);
}
std::string json(std::string_view message, std::vector<Field> fields = {}, std::uint64_t suppressed = 0) {
  return format_record(Format::kJson, Level::kWarn, kTime, message, fields, suppressed);
}

// What a child process that runs `body` writes to stderr, which is a pipe there.
std::string stderr_of(const std::function<void(int pipe_end)>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    body(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child ended with " << status;
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  EXPECT_EQ(begin, text.size()) << "the last line has no end";
  return lines;
}

TEST(LogTime, IsRfc3339InUtcWithMilliseconds) {
  EXPECT_EQ(format_time(kTime), "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(format_time(std::chrono::system_clock::time_point(milliseconds(-1))), "1969-12-31T23:59:59.999Z");
}

TEST(Logfmt, QuotesOnlyWhereNeeded) {
  EXPECT_EQ(logfmt("ready", {{"device", "mlx5_0"}, {"path", "C:\\x"}, {"port", 1}, {"on", true}}),
            "ts=2023-11-14T22:13:20.123Z level=info msg=ready device=mlx5_0 path=C:\\x port=1 on=true\n");
  EXPECT_EQ(
      logfmt("two words", {{"empty", ""}, {"equals", "a=b"}, {"quote", "say \"x\""}, {"both", "\\ \""}}),
      "ts=2023-11-14T22:13:20.123Z level=info msg=\"two words\" empty=\"\" equals=\"a=b\" quote=\"say \\\"x\\\"\" "
      "both=\"\\\\ \\\"\"\n");
}

TEST(Logfmt, KeepsOneLineWhateverComesIn) {
  EXPECT_THAT(logfmt("a\nb\tc\rd"), HasSubstr(R"(msg="a\nb\tc\rd")"));
  EXPECT_THAT(logfmt("x", {{"v", std::string("\x01\x1b[31m\x7f\0", 8)}}),
              HasSubstr(R"(v="\u0001\u001b[31m\u007f\u0000")"));
  EXPECT_THAT(logfmt("x", {{"v", "\xC2\x85\xE2\x80\xA8"}}), HasSubstr(R"(v="\u0085\u2028")"));
  EXPECT_THAT(logfmt("x", {{"v", "caf\xE9"}}), HasSubstr("v=\"caf\xEF\xBF\xBD\""));
  EXPECT_THAT(logfmt("x", {{"v", "caf\xC3\xA9"}}), HasSubstr("v=caf\xC3\xA9\n"));
}

TEST(Logfmt, KeysNeitherEndThePairNorShadowTheRecord) {
  EXPECT_THAT(logfmt("x", {{"a b=c\"", 1}, {"", 2}, {"msg", 3}, {"level", 4}, {"ts", 5}}),
              HasSubstr(" a_b_c_=1 _=2 msg_=3 level_=4 ts_=5\n"));
}

TEST(Logfmt, TellsWhatWasLeftOut) { EXPECT_THAT(logfmt("x", {{"a", 1}}, 17), HasSubstr(" a=1 suppressed=17\n")); }

TEST(LogJson, KeepsNumbersAndBooleans) {
  EXPECT_EQ(json("up", {{"n", std::numeric_limits<std::uint64_t>::max()}, {"f", 1.5}, {"b", false}, {"c", 'x'}}, 2),
            "{\"ts\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"msg\":\"up\",\"n\":18446744073709551615,"
            "\"f\":1.5,\"b\":false,\"c\":\"x\",\"suppressed\":2}\n");
}

TEST(LogJson, IsValidForNumbersThatJsonLacks) {
  const auto record = nlohmann::json::parse(json("x", {{"nan", std::nan("")}, {"inf", HUGE_VAL}, {"tiny", 1e-300}}));
  EXPECT_TRUE(record["nan"].is_string());
  EXPECT_EQ(record["inf"], "inf");
  EXPECT_EQ(record["tiny"], 1e-300);
}

TEST(LogJson, IsValidForEveryByteBeforeEveryKindOfByte) {
  for (int first = 0; first < 256; ++first) {
    for (const int second : {0x00, 0x0A, 0x22, 0x41, 0x5C, 0x7F, 0x80, 0x85, 0xA0, 0xBF, 0xC2, 0xFF}) {
      const std::string value{static_cast<char>(first), static_cast<char>(second)};
      const std::string line = json(value, {{"v", value}});
      ASSERT_EQ(line.find('\n'), line.size() - 1) << first << " " << second;
      const auto record = nlohmann::json::parse(line, nullptr, false);
      ASSERT_FALSE(record.is_discarded()) << line;
      if (first < 0x80 && second < 0x80) {
        ASSERT_EQ(record["v"], value);
      }
      ASSERT_EQ(record["v"], record["msg"]);
    }
  }
}

TEST(LogJson, CutsLongValuesBetweenCharacters) {
  std::string text(4095, 'x');
  text += "\xC3\xA9 and more";
  const auto record = nlohmann::json::parse(json("x", {{"v", text}}));
  EXPECT_EQ(record["v"], std::string(4095, 'x') + "...");
}

TEST(LogNames, AreParsedExactly) {
  Level level = Level::kError;
  EXPECT_TRUE(parse_level("debug", level));
  EXPECT_EQ(level, Level::kDebug);
  EXPECT_TRUE(parse_level("warn", level));
  EXPECT_EQ(level, Level::kWarn);
  EXPECT_FALSE(parse_level("Warn", level));
  EXPECT_FALSE(parse_level("", level));
  EXPECT_EQ(level, Level::kWarn);
  Format format = Format::kLogfmt;
  EXPECT_TRUE(parse_format("json", format));
  EXPECT_EQ(format, Format::kJson);
  EXPECT_FALSE(parse_format("text", format));
  EXPECT_EQ(format, Format::kJson);
}

TEST(LogRate, ABurstThenOneLineAnInterval) {
  RateLimit limit;
  RateLimit::Clock::time_point now{};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(limit.admit("a.cc", 1, now), 0u) << i;
  for (int i = 0; i < 25; ++i) EXPECT_EQ(limit.admit("a.cc", 1, now), std::nullopt);
  now += milliseconds(9999);
  EXPECT_EQ(limit.admit("a.cc", 1, now), std::nullopt);
  now += milliseconds(1);
  EXPECT_EQ(limit.admit("a.cc", 1, now), 26u);
  EXPECT_EQ(limit.admit("a.cc", 1, now), std::nullopt);
  now += seconds(10);
  EXPECT_EQ(limit.admit("a.cc", 1, now), 1u);
}

TEST(LogRate, NoMoreThanOneLineAnIntervalInALongFlood) {
  RateLimit limit;
  RateLimit::Clock::time_point now{};
  std::uint64_t written = 0;
  std::uint64_t told = 0;
  for (int i = 0; i < 10000; ++i, now += milliseconds(100)) {  // 1000 s
    if (const auto left_out = limit.admit("a.cc", 1, now)) {
      ++written;
      told += *left_out;
    }
  }
  EXPECT_GE(written, 10u + 99u);
  EXPECT_LE(written, 10u + 100u);
  EXPECT_GE(told + written, 10000u - 100u);  // all but those since the last line
}

TEST(LogRate, SitesAreCountedApartAndRecover) {
  RateLimit limit;
  RateLimit::Clock::time_point now{};
  for (int i = 0; i < 11; ++i) limit.admit("a.cc", 1, now);
  EXPECT_EQ(limit.admit("a.cc", 2, now), 0u);
  EXPECT_EQ(limit.admit("b.cc", 1, now), 0u);
  now += seconds(1000);
  EXPECT_EQ(limit.admit("a.cc", 1, now), 1u);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(limit.admit("a.cc", 1, now), 0u) << i;
  EXPECT_EQ(limit.admit("a.cc", 1, now), std::nullopt);
}

TEST(LogWrite, WritesLinesOfTheLevelAndAbove) {
  const std::string out = stderr_of([](int) {
    set_level(Level::kInfo);
    debug("not this");
    info("starting", {{"port", 14791}});
    set_level(Level::kDebug);
    debug("now this");
    set_level(Level::kError);
    warn("nor this");
    set_format(Format::kJson);
    error("last", {{"err", "no such device"}});
  });
  const auto lines = lines_of(out);
  ASSERT_EQ(lines.size(), 3u) << out;
  const std::regex time(
      R"(ts=20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z level=info msg=starting port=14791)");
  EXPECT_TRUE(std::regex_match(lines[0], time)) << lines[0];
  EXPECT_THAT(lines[1], HasSubstr("level=debug msg=\"now this\""));
  EXPECT_EQ(nlohmann::json::parse(lines[2])["err"], "no such device");
}

TEST(LogWrite, CarriesThePriorityOnlyIntoTheJournal) {
  const auto speak = [] {
    debug("a");
    info("a");
    warn("a");
    error("a");
  };
  const std::string out = stderr_of([&](int pipe_end) {
    set_level(Level::kDebug);
    struct stat info{};
    if (fstat(pipe_end, &info) != 0) _exit(1);
    setenv("JOURNAL_STREAM", fmt::format("{}:{}", info.st_dev, info.st_ino).c_str(), 1);
    speak();
    setenv("JOURNAL_STREAM", fmt::format("{}:{}", info.st_dev, info.st_ino + 1).c_str(), 1);
    speak();
    setenv("JOURNAL_STREAM", "", 1);
    error("a");
  });
  const auto lines = lines_of(out);
  ASSERT_EQ(lines.size(), 9u) << out;
  EXPECT_THAT(lines[0], StartsWith("<7>ts="));
  EXPECT_THAT(lines[1], StartsWith("<6>ts="));
  EXPECT_THAT(lines[2], StartsWith("<4>ts="));
  EXPECT_THAT(lines[3], StartsWith("<3>ts="));
  for (std::size_t i = 4; i < 9; ++i) EXPECT_THAT(lines[i], StartsWith("ts=")) << i;
}

TEST(LogWrite, LimitsOneSiteAndNotItsNeighbour) {
  const std::string out = stderr_of([](int) {
    for (int i = 0; i < 1000; ++i) info("flood");
    info("other");
  });
  const auto lines = lines_of(out);
  ASSERT_EQ(lines.size(), 11u) << out;
  EXPECT_THAT(lines[10], HasSubstr("msg=other"));
}

TEST(LogWrite, LinesOfThreadsNeverMix) {
  const std::string out = stderr_of([](int) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([t] {
        const std::string text(4000, static_cast<char>('a' + t));  // twice that is more than a pipe takes in one piece
        for (int i = 0; i < 5; ++i) {
          info(text, {{"again", text}});
          warn(text, {{"again", text}});
          error(text, {{"again", text}});
          set_format(i % 2 == 0 ? Format::kLogfmt : Format::kJson);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  const auto lines = lines_of(out);
  EXPECT_EQ(lines.size(), 30u);  // the bursts of three sites
  for (const std::string& line : lines) {
    const bool is_json = line.front() == '{';
    const std::size_t begin = line.find("msg") + (is_json ? 6 : 4);
    const std::string text(4000, line.at(begin));
    EXPECT_EQ(line.substr(begin), is_json ? text + "\",\"again\":\"" + text + "\"}" : text + " again=" + text);
  }
}

TEST(LogWrite, KeepsErrno) {
  const std::string out = stderr_of([](int) {
    close(STDERR_FILENO);  // the write fails
    errno = ENODATA;
    error("x");
    _exit(errno == ENODATA ? 0 : 1);
  });
  EXPECT_EQ(out, "");
}

}  // namespace
}  // namespace roce::log

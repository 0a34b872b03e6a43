// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roce::config {
namespace {

TEST(Text, NearestFindsTypingErrorsAndLeavesTheRest) {
  const std::vector<std::string> names{"web.listen-address", "web.max-requests", "log.level", "json"};
  EXPECT_EQ(nearest("web.listen-adress", names), "web.listen-address");   // a letter missing
  EXPECT_EQ(nearest("web.listen-adderss", names), "web.listen-address");  // two swapped, one wrong
  EXPECT_EQ(nearest("web_listen_address", names), "web.listen-address");
  EXPECT_EQ(nearest("Log.Level", names), "log.level");
  EXPECT_EQ(nearest("max-requests", names), "web.max-requests");
  EXPECT_EQ(nearest("jsno", names), "json");
  EXPECT_EQ(nearest("xml", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("no-such-flag", names), "");
  EXPECT_EQ(nearest(std::string(100000, 'x'), names), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, OneLineIsOneLine) {
  EXPECT_EQ(one_line("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(one_line("\x1b[0m\x7f"), "\\x1b[0m\\x7f");
  EXPECT_EQ(one_line("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(one_line("caf\xE9!"), "caf\\xe9!");
  EXPECT_EQ(one_line("\xC2\x85|\xE2\x80\xA8"), "\\xc2\\x85|\\xe2\\x80\\xa8");
  EXPECT_EQ(one_line(std::string(200, 'x')), std::string(80, 'x') + "...");
  EXPECT_EQ(one_line(std::string(80, 'x')), std::string(80, 'x'));
}

TEST(Text, EitherReadsAsASentence) {
  const std::vector<std::string_view> words{"a", "b", "c"};
  EXPECT_EQ(either(words), "a, b or c");
  EXPECT_EQ(either(std::span(words).first(1)), "a");
  EXPECT_EQ(either({}), "");
}

TEST(Text, Utf8IsCheckedAsTheStandardSays) {
  EXPECT_EQ(utf8_length("a"), 1u);
  EXPECT_EQ(utf8_length("\xC3\xA9"), 2u);
  EXPECT_EQ(utf8_length("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80"), 4u);
  for (const std::string_view bad :
       {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length(bad), 0u);
  }
}

}  // namespace
}  // namespace roce::config

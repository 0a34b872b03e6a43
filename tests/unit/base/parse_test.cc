// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/parse.h"

#include <gtest/gtest.h>

#include "exporter/base/result.h"
#include "exporter/base/saturate.h"

namespace roce {
namespace {

TEST(ParseTest, ReadsWholeNumbersOnly) {
  EXPECT_EQ(parse_u64("42\n"), 42U);
  EXPECT_EQ(parse_u64(" 18446744073709551615 "), 18446744073709551615ULL);
  for (const char* bad : {"", " ", "18446744073709551616", "-1", "+1", "1 2", "0x10", "1.0", "N/A (no PMA)"})
    EXPECT_FALSE(parse_u64(bad)) << bad;
  EXPECT_EQ(parse_i64("-1"), -1);
  EXPECT_EQ(parse_hex("0xffff"), 0xffffU);
  EXPECT_EQ(parse_hex("ff"), 0xffU);
  EXPECT_FALSE(parse_hex("0x"));
}

TEST(ParseTest, TakesTheNumberInFrontOfAStateName) {
  EXPECT_EQ(parse_leading_number("4: ACTIVE\n"), 4U);
  EXPECT_EQ(parse_leading_number("5"), 5U);
  EXPECT_FALSE(parse_leading_number("ACTIVE"));
  EXPECT_FALSE(parse_leading_number(": ACTIVE"));
  EXPECT_EQ(text_after_colon("4: ACTIVE\n"), "ACTIVE");
  EXPECT_EQ(text_after_colon("CA"), "CA");
}

struct RateCase {
  const char* text;
  double bytes_per_second;
};

class RateTest : public testing::TestWithParam<RateCase> {};

TEST_P(RateTest, IsTheNumberAlone) {
  const auto rate = parse_rate(GetParam().text);
  ASSERT_TRUE(rate) << GetParam().text;
  EXPECT_DOUBLE_EQ(*rate, GetParam().bytes_per_second);
}

INSTANTIATE_TEST_SUITE_P(Spellings, RateTest,
                         testing::Values(RateCase{"2.5 Gb/sec (1X SDR)", 312500000},
                                         RateCase{"14 Gb/sec (1X FDR)", 1.75e9}, RateCase{"40 Gb/sec (4X FDR10)", 5e9},
                                         RateCase{"100 Gb/sec (2X HDR)", 12.5e9}, RateCase{"800 Gb/sec (4X XDR)", 1e11},
                                         RateCase{"3200 Gb/sec (4X QQR)", 4e11}, RateCase{"0 GB/sec", 0},
                                         RateCase{"56 Gb/sec\n", 7e9}, RateCase{"10", 1.25e9},
                                         RateCase{"10Gb/sec", 1.25e9}));

TEST(ParseTest, RefusesWhatIsNoRate) {
  for (const char* bad : {"", "unknown", "-10 Gb/sec", "-0", "nan", "inf", "1e3 Gb/sec", "12abc", "Gb/sec"})
    EXPECT_FALSE(parse_rate(bad)) << bad;
  EXPECT_FALSE(parse_rate("1" + std::string(305, '0') + " Gb/sec"));  // a double, but not in bytes
}

TEST(ParseTest, TakesLinesAndWordsOff) {
  std::string_view text = "first line\n\n \tlast\r";
  EXPECT_EQ(take_line(text), "first line");
  EXPECT_EQ(take_line(text), "");
  std::string_view line = take_line(text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(take_line(text), "");
  EXPECT_EQ(take_word(line), "last");
  EXPECT_EQ(take_word(line), "");
  EXPECT_EQ(line, "");
  line = "  a\tb  ";
  EXPECT_EQ(take_word(line), "a");
  EXPECT_EQ(line, "\tb  ");
  EXPECT_EQ(take_word(line), "b");
  EXPECT_EQ(take_word(line), "");
}

TEST(SaturateTest, StopsAtTheTop) {
  constexpr std::uint64_t kTop = 18446744073709551615U;
  EXPECT_EQ(saturating_add(1, 2), 3U);
  EXPECT_EQ(saturating_add(kTop, 1), kTop);
  EXPECT_EQ(saturating_add(kTop - 1, 1), kTop);
  EXPECT_EQ(saturating_multiply(kTop / 2, 2), kTop - 1);
  EXPECT_EQ(saturating_multiply(kTop, 512), kTop);
}

TEST(ResultTest, TheReasonHoldsNoObject) {
  const Error denied = fail_errno(EACCES, "/sys/secret").value();
  EXPECT_EQ(denied.reason(), "Permission denied");
  EXPECT_EQ(denied.message(), "/sys/secret: Permission denied");
  EXPECT_EQ(fail(ErrorKind::kMalformed, "nqn.x").value().reason(), "malformed");
}

TEST(ResultTest, ErrnoBecomesAKind) {
  EXPECT_EQ(kind_of_errno(ENOENT), ErrorKind::kAbsent);
  EXPECT_EQ(kind_of_errno(EINVAL), ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of_errno(EACCES), ErrorKind::kDenied);
  EXPECT_EQ(kind_of_errno(ETIMEDOUT), ErrorKind::kTimeout);
  EXPECT_EQ(kind_of_errno(EIO), ErrorKind::kIo);
  EXPECT_EQ((Error{ErrorKind::kIo, EIO, "/sys/x"}).message(), "/sys/x: Input/output error");
  EXPECT_EQ((Error{ErrorKind::kMalformed, 0, "/sys/x"}).message(), "/sys/x: malformed");
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/http.h"

#include <gtest/gtest.h>

#include "exporter/web/server.h"
#include "tests/unit/web/http_client.h"

namespace roce::web {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

// What Prometheus 2.42 sends with native histograms on.
constexpr const char* kNative =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

TEST(ProtobufTest, IsSentWhereItIsNamedAndPreferred) {
  const std::string protobuf =
      "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
  EXPECT_TRUE(prefers_protobuf(kNative));
  for (const std::string& accept :
       {protobuf, protobuf + ";q=0.001", protobuf + ";q=0.6, text/plain;q=0.5", protobuf + ", text/plain;q=0.9",
        "text/plain;q=0.2," + protobuf + ";q=0.3,*/*;q=1", protobuf + ";q=0.4, text/*;q=0.3, */*;q=0.9",
        std::string("APPLICATION/VND.google.protobuf;PROTO=\"io.prometheus.client.MetricFamily\";Encoding=Delimited")})
    EXPECT_TRUE(prefers_protobuf(accept)) << accept;
  for (const std::string& accept :
       {std::string(), std::string("*/*"), std::string("application/*"), std::string("text/plain"),
        std::string("application/vnd.google.protobuf"), std::string("application/x-protobuf"), protobuf + ";q=0",
        protobuf + ";q=2", protobuf + ", text/plain", protobuf + ";q=0.5, text/plain;q=0.6", protobuf + ";q=0.5, */*",
        protobuf + ";q=0.4, text/plain;version=0.0.4;q=0.5, text/plain;q=0.1",
        std::string("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"),
        std::string("application/vnd.google.protobuf;proto=other;encoding=delimited"),
        std::string("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")})
    EXPECT_FALSE(prefers_protobuf(accept)) << accept;
}

TEST(HttpTest, TakesGzipOnlyWhereItIsWanted) {
  for (const char* value : {"gzip",
                            "GZIP",
                            "x-gzip",
                            "gzip;q=1",
                            "gzip;q=0.001",
                            "gzip ; Q=0.5",
                            "deflate, gzip",
                            "deflate,gzip;q=0.9,br",
                            "\tgzip\t",
                            "*",
                            "*;q=0.1",
                            "br;q=1.0, gzip;q=0.8, *;q=0.1",
                            "gzip;q=1.000",
                            "gzip;q=1.",
                            "identity;q=0.5, gzip",
                            "identity, gzip",
                            "gzip;foo=bar",
                            ",,gzip,,",
                            "gzip;",
                            "*;q=0, gzip"})
    EXPECT_TRUE(accepts_gzip(value)) << value;
  for (const char* value : {"",
                            "identity",
                            "deflate",
                            "br",
                            "gzip;q=0",
                            "gzip;q=0.0",
                            "gzip;q=0.",
                            "gzip; q = 0.000",
                            "*;q=0",
                            "gzip;q=0, *",
                            "GZip;Q=0",
                            "xgzip",
                            "gzipx",
                            "gzip2, deflate",
                            "identity;q=1, gzip;q=0.5",
                            "gzip, gzip;q=0",
                            "x-gzip;q=0, gzip",
                            ";q=1",
                            ",",
                            "\"gzip\""})
    EXPECT_FALSE(accepts_gzip(value)) << value;
}

TEST(HttpTest, RefusesGzipWithAMalformedQuality) {
  for (const char* value : {"gzip;q=", "gzip;q", "gzip;q=abc", "gzip;q=2", "gzip;q=1.5", "gzip;q=-1", "gzip;q=0.1234",
                            "gzip;q=.5", "gzip;q=00.5", "gzip;q=1e0", "gzip;q=0,5", "gzip;q=1.001", "gzip;q=0x1"})
    EXPECT_FALSE(accepts_gzip(value)) << value;
}

TEST(HttpTest, DecodesPercent) {
  EXPECT_EQ(percent_decode("/a%20b+c%2F", false), "/a b+c/");
  EXPECT_EQ(percent_decode("a%20b+c", true), "a b c");
  EXPECT_EQ(percent_decode("%c3%A9", false), "\xc3\xa9");
  EXPECT_EQ(percent_decode("%00", false), std::string(1, '\0'));
  EXPECT_EQ(percent_decode("%2525", false), "%25");
  EXPECT_EQ(percent_decode("", false), "");
  for (const char* bad : {"%", "%a", "a%", "%zz", "%1g", "%%20", "% 1", "%-1"})
    EXPECT_EQ(percent_decode(bad, false), std::nullopt) << bad;
}

TEST(HttpTest, ParsesQueriesInOrderWithRepeats) {
  EXPECT_EQ(*parse_query("collect[]=a&collect%5B%5D=b%26c&x&=y&&z="),
            (Parameters{{"collect[]", "a"}, {"collect[]", "b&c"}, {"x", ""}, {"", "y"}, {"z", ""}}));
  EXPECT_EQ(*parse_query("a=b=c+d"), (Parameters{{"a", "b=c d"}}));
  EXPECT_EQ(*parse_query(""), Parameters{});
  EXPECT_FALSE(parse_query("a=%"));
  EXPECT_FALSE(parse_query("%g0=a"));
}

TEST(HttpTest, BoundsTheNumberOfParameters) {
  std::string query;
  for (std::size_t i = 0; i < kMaxParameters; ++i) query += "a&";
  EXPECT_EQ(parse_query(query)->size(), kMaxParameters);
  EXPECT_FALSE(parse_query(query + "a"));
}

TEST(HttpTest, FindsThePathInEveryFormOfTarget) {
  EXPECT_EQ(path_of_target("/metrics?x=1"), "/metrics");
  EXPECT_EQ(path_of_target("http://host:80/metrics?x=http://y/"), "/metrics");
  EXPECT_EQ(path_of_target("http://host"), "/");
  EXPECT_EQ(path_of_target("/a?b=http://c/metrics"), "/a");
  EXPECT_EQ(path_of_target("/http://c/metrics"), "/http://c/metrics");
  EXPECT_EQ(path_of_target("*"), "*");
  EXPECT_EQ(path_of_target(""), "");
}

TEST(HttpTest, FindsTokens) {
  EXPECT_TRUE(has_token("Keep-Alive", "keep-alive"));
  EXPECT_TRUE(has_token("foo ,  close", "close"));
  EXPECT_FALSE(has_token("closed, xclose", "close"));
  EXPECT_FALSE(has_token("", "close"));
}

TEST(HttpTest, KnowsLoopback) {
  for (const char* address : {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1", "::FFFF:127.0.0.1"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const char* address :
       {"", "10.0.0.1", "128.0.0.1", "::", "::2", "fe80::1", "::ffff:10.0.0.1", "1270::1", "12.7.0.1"})
    EXPECT_FALSE(is_loopback(address)) << address;
  EXPECT_EQ(plain_address("::ffff:192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(plain_address("::ffff:1"), "::ffff:1");
  EXPECT_EQ(plain_address("192.0.2.1"), "192.0.2.1");
}

TEST(HttpTest, PacksWhatUnpacksToTheSame) {
  std::string page;
  for (int i = 0; i < 200000; ++i)
    page += "roce_port_receive_bytes_total{device=\"mlx5_" + std::to_string(i) + "\"} 1\n";
  const auto packed = gzip(page);
  ASSERT_TRUE(packed);
  EXPECT_LT(packed->size(), page.size() / 5);
  EXPECT_EQ(gunzip(*packed), page);
  EXPECT_EQ(gunzip(*gzip("")), "");
  EXPECT_EQ(gunzip("no gzip"), "?");
}

}  // namespace
}  // namespace roce::web

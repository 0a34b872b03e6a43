// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/listen.h"

#include <gtest/gtest.h>

namespace roce::web {
namespace {

TEST(ListenTest, ParsesAddresses) {
  const auto v4 = resolve_listen_address("127.0.0.1:14791");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->numeric(), "127.0.0.1:14791");
  EXPECT_EQ(v4->url("http"), "http://127.0.0.1:14791");
  EXPECT_FALSE(v4->dual_stack);
  const auto v6 = resolve_listen_address("[::1]:80");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->numeric(), "[::1]:80");
  EXPECT_EQ(v6->url("https"), "https://[::1]:80");
  const auto named = resolve_listen_address("localhost:1");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->numeric(), "127.0.0.1:1");
  const auto all_v4 = resolve_listen_address("0.0.0.0:65535");
  ASSERT_TRUE(all_v4);
  EXPECT_EQ(all_v4->numeric(), "0.0.0.0:65535");
  EXPECT_EQ(all_v4->url("http"), "http://127.0.0.1:65535");
}

TEST(ListenTest, AnEmptyHostIsEveryAddress) {
  for (const char* text : {":14791", "*:14791"}) {
    const auto all = resolve_listen_address(text);
    ASSERT_TRUE(all) << text;
    EXPECT_EQ(all->numeric(), all->dual_stack ? "[::]:14791" : "0.0.0.0:14791");
    EXPECT_EQ(all->url("http"), "http://127.0.0.1:14791");
  }
}

TEST(ListenTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"",
                           "foo",
                           "14791",
                           ":",
                           ":x",
                           ":1x",
                           ":-1",
                           ":65536",
                           ":99999999999",
                           "127.0.0.1",
                           "[::1]",
                           "::1:80",
                           "[::1:80",
                           "[]:80",
                           "[127.0.0.1]:80",
                           "[::1]x:80",
                           "host.invalid:80",
                           "999.1.1.1:80",
                           "127.0.0.1:80s",
                           "a b:80",
                           ": 80"}) {
    const auto address = resolve_listen_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_NE(address.error().message().find(std::string("\"") + text + "\""), std::string::npos)
        << address.error().message();
  }
}

TEST(ListenTest, ProbeNamesTheAddressAndTheReasonOnce) {
  const auto here = resolve_listen_address("192.0.2.77:14791");
  ASSERT_TRUE(here);
  const auto probed = probe({*here});
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().message(), "192.0.2.77:14791: Cannot assign requested address");
}

}  // namespace
}  // namespace roce::web

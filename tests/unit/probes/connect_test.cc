// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>

#include "probes/connect/agent.h"
#include "probes/connect/wire.h"
#include "tests/unit/probes/host.h"

namespace roce::probe::fake {
namespace {

TEST(Greeting, IsTakenFromWhomItIsOnly) {
  const Gid a = *parse_gid("10.0.0.1"), b = *parse_gid("10.0.0.2");
  const auto now = std::chrono::system_clock::now();
  const std::vector<Key> keys = {key_of(2, 'n'), key_of(1)};
  const auto good = make_greeting(key_of(1), 77, 8, a, b);
  ASSERT_EQ(good.size(), kGreetingBytes);
  EXPECT_TRUE(greeting_good(good, keys, 8, a, b, now));
  auto padded = good;  // as the kernel hands it over
  padded.resize(56);
  EXPECT_TRUE(greeting_good(padded, keys, 8, a, b, now));
  EXPECT_FALSE(greeting_good(good, keys, 9, a, b, now));  // of before a restart
  EXPECT_FALSE(greeting_good(good, keys, 8, b, a, now));
  EXPECT_FALSE(greeting_good(good, keys, 8, a, a, now));
  EXPECT_FALSE(greeting_good(good, {}, 8, a, b, now));
  EXPECT_FALSE(greeting_good(good, std::span(keys).first(1), 8, a, b, now));
  EXPECT_FALSE(greeting_good(std::span(good).first(35), keys, 8, a, b, now));
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= 1;
    EXPECT_FALSE(greeting_good(bad, keys, 8, a, b, now)) << i;
  }
  Key expired = key_of(1);
  expired.not_after = now - std::chrono::seconds(1);
  EXPECT_FALSE(greeting_good(good, {&expired, 1}, 8, a, b, now));
}

// What goes to the worker is good for the same greetings, whatever the length of the secret and its end.
TEST(Setup, KeysArriveWhole) {
  const Gid a = *parse_gid("10.0.0.1"), b = *parse_gid("10.0.0.2");
  const auto now = std::chrono::system_clock::now();
  for (const std::size_t length : std::initializer_list<std::size_t>{16, 63, 64, 65, 128, 129, 256, 1024}) {
    std::vector<Key> keys = {key_of(1, 'x'), key_of(2)};
    keys[1].secret.assign(length, 's');
    keys[1].secret[length - 1] = 'e';
    keys[0].not_after = std::chrono::system_clock::time_point(std::chrono::seconds(1000));
    WorkerSetup setup{};
    put_keys(setup, keys);
    const auto arrived = keys_of(setup);
    ASSERT_EQ(arrived.size(), 2u) << length;
    EXPECT_EQ(arrived[0].not_after, keys[0].not_after);
    EXPECT_TRUE(greeting_good(make_greeting(keys[1], 7, 8, a, b), arrived, 8, a, b, now)) << length;
    EXPECT_TRUE(greeting_good(make_greeting(arrived[1], 7, 8, a, b), keys, 8, a, b, now)) << length;
    EXPECT_FALSE(greeting_good(make_greeting(keys[0], 7, 8, a, b), arrived, 8, a, b, now)) << "expired";
  }
}

// No device is needed to begin, to fail to connect, and to end.
TEST(Agent, BeginsSaysThatNothingConnectsAndEnds) {
  const auto agent = ConnectAgent::start();
  ASSERT_TRUE(agent);
  const std::vector<Key> keys = {key_of(1)};
  for (int i = 0; i < 3; ++i) {
    // An address of no RDMA device: there is an answer for it, and it is that nothing listens there.
    const std::vector<Gid> listen_on(static_cast<std::size_t>(i), *parse_gid("127.0.0.2"));
    const auto ports = (*agent)->open(listen_on, keys, 1);
    ASSERT_TRUE(ports) << ports.error().message();
    EXPECT_EQ(*ports, std::vector<std::uint16_t>(listen_on.size(), 0));
    const auto outcome =
        (*agent)->connect(*parse_gid("127.0.0.2"), *parse_gid("127.0.0.3"), 1, 1, std::chrono::milliseconds(200));
    ASSERT_TRUE(outcome) << outcome.error().message();
    EXPECT_FALSE(outcome->connected);
    (*agent)->close();
    EXPECT_EQ((*agent)->connect({}, {}, 1, 1, std::chrono::milliseconds(1)).error().kind, ErrorKind::kBusy);
  }
}

TEST(Agent, AChildThatDiedIsForkedAnew) {
  const auto agent = ConnectAgent::start();
  ASSERT_TRUE(agent);
  const std::vector<Key> keys = {key_of(1)};
  ASSERT_TRUE((*agent)->open({}, keys, 1));
  const int first = (*agent)->process();
  ASSERT_EQ(kill(first, SIGKILL), 0);
  EXPECT_FALSE((*agent)->close()) << "nobody is left to say that the worker has ended";
  ASSERT_TRUE((*agent)->open({}, keys, 1));
  EXPECT_GT((*agent)->process(), 0);
  EXPECT_NE((*agent)->process(), first);
  // Before it is asked, too.
  ASSERT_EQ(kill((*agent)->process(), SIGKILL), 0);
  ASSERT_TRUE((*agent)->open({}, keys, 1));
  EXPECT_TRUE((*agent)->close());
}

TEST(Agent, AChildThatHangsHoldsNobody) {
  const auto agent = ConnectAgent::start();
  ASSERT_TRUE(agent);
  const std::vector<Key> keys = {key_of(1)};
  ASSERT_TRUE((*agent)->open({}, keys, 1));
  ASSERT_EQ(kill((*agent)->process(), SIGSTOP), 0);
  EXPECT_FALSE((*agent)->close());
  EXPECT_EQ((*agent)->process(), -1);
  ASSERT_TRUE((*agent)->open({}, keys, 1));
  EXPECT_TRUE((*agent)->close());
}

}  // namespace
}  // namespace roce::probe::fake

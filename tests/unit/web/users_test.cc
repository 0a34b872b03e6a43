// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/users.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/web/tls_client.h"

namespace roce::web {
namespace {

using Answer = Users::Answer;
using std::chrono::seconds;

// What stands for a hash of the password in these tests.
std::string hash_of(const std::string& salt) { return "$2b$04$" + salt; }

// A stand-in for bcrypt whose runs are counted: the password is the hash's last part.
struct Counted {
  std::atomic<int> runs{0};
  std::vector<std::string> hashes;
  Bcrypt function() {
    return [this](const std::string& password, const std::string& hash) {
      ++runs;
      hashes.push_back(hash);
      return hash == hash_of(password);
    };
  }
};

TEST(BcryptTest, KnowsTheSpellingsOfOtherTools) {
  // The first two are test vectors of jBCrypt.
  const std::string empty = "$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.";
  const std::string letters = "$2a$06$If6bvum7DFjUnE9p2uDeDu0YHzrHM6tf.iqN8.yx.jNN1ILEf7h0i";
  const std::string umlaut = "$2y$04$abcdefghijklmnopqrstuuSgB9nvSEJjdcWxaofZh7vGv3zEPKMZy";
  EXPECT_TRUE(bcrypt_matches("", empty));
  EXPECT_TRUE(bcrypt_matches("abc", letters));
  EXPECT_TRUE(bcrypt_matches("P\xC3\xA4sswort 1", umlaut));
  EXPECT_FALSE(bcrypt_matches("x", empty));
  EXPECT_FALSE(bcrypt_matches("abd", letters));
  EXPECT_FALSE(bcrypt_matches("abc", "not a hash"));
  EXPECT_FALSE(bcrypt_matches("abc", ""));
}

class UsersTest : public testing::Test {
 protected:
  GuardCounters counters_;
  Counted counted_;
  Users users_{{{"alice", hash_of("wonder")}, {"bob", hash_of("build")}}, counters_, counted_.function()};
  Users::Clock::time_point now_{seconds{1000}};
};

TEST_F(UsersTest, TellsRightFromWrong) {
  EXPECT_EQ(users_.check("alice", "wonder", "a", now_), Answer::kGood);
  EXPECT_EQ(users_.check("bob", "build", "a", now_), Answer::kGood);
  EXPECT_EQ(users_.check("alice", "build", "a", now_), Answer::kWrong);
  EXPECT_EQ(users_.check("carol", "wonder", "b", now_), Answer::kWrong);
  EXPECT_EQ(users_.check("", "", "b", now_), Answer::kWrong);
}

TEST_F(UsersTest, ANameNobodyHasCostsTheSame) {
  EXPECT_EQ(users_.check("alice", "x", "a", now_), Answer::kWrong);
  EXPECT_EQ(users_.check("mallory", "x", "a", now_), Answer::kWrong);
  EXPECT_EQ(counted_.runs, 2);
  ASSERT_EQ(counted_.hashes.size(), 2u);
  EXPECT_EQ(counted_.hashes[1].substr(0, 7), "$2b$04$") << "the cost of the users' own hashes";
  EXPECT_EQ(counted_.hashes[1].size(), 60u);
}

TEST_F(UsersTest, NobodysPasswordIsNeverRight) {
  Users all({{"alice", hash_of("wonder")}}, counters_, [](const std::string&, const std::string&) { return true; });
  EXPECT_EQ(all.check("alice", "x", "a", now_), Answer::kGood);
  EXPECT_EQ(all.check("mallory", "x", "a", now_), Answer::kWrong);
}

TEST_F(UsersTest, RemembersRightAndWrongAnswers) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(users_.check("alice", "wonder", "a", now_), Answer::kGood);
    EXPECT_EQ(users_.check("alice", "wrong", "a", now_), Answer::kWrong);
  }
  EXPECT_EQ(counted_.runs, 2);
  EXPECT_EQ(counters_.password_checks, 2u);
}

TEST_F(UsersTest, AFloodOfPasswordsIsBoundedAndLeavesTheScraperAlone) {
  EXPECT_EQ(users_.check("alice", "wonder", "10.0.0.1", now_), Answer::kGood);
  int later = 0;
  for (int second = 0; second < 60; ++second) {
    now_ += seconds{1};
    for (int i = 0; i < 200; ++i)
      later += users_.check("alice", std::to_string(second * 1000 + i), "10.0.0.2", now_) == Answer::kLater;
    EXPECT_EQ(users_.check("alice", "wonder", "10.0.0.1", now_), Answer::kGood) << second;
  }
  // A burst of 5, then one every two seconds.
  EXPECT_LE(counted_.runs, 1 + 5 + 30);
  EXPECT_GE(counted_.runs, 1 + 5 + 28);
  EXPECT_EQ(later, 60 * 200 - (counted_.runs - 1));
}

TEST_F(UsersTest, AFloodFromManyAddressesIsBoundedToo) {
  for (int second = 0; second < 60; ++second) {
    now_ += seconds{1};
    for (int i = 0; i < 200; ++i)
      users_.check("alice", std::to_string(second * 1000 + i), "10.0." + std::to_string(i) + ".2", now_);
  }
  EXPECT_LE(counted_.runs, 16 + 2 * 60);
}

TEST_F(UsersTest, ChecksOneAtATime) {
  std::atomic<int> running{0}, most{0};
  Users users({{"alice", hash_of("wonder")}}, counters_, [&](const std::string&, const std::string&) {
    most = std::max<int>(most, ++running);
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    --running;
    return false;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&users, i] { users.check("alice", std::to_string(i), "10.0.0." + std::to_string(i)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST_F(UsersTest, AFailureOfBcryptIsNoAnswer) {
  bool fails = true;
  Users users({{"alice", hash_of("wonder")}}, counters_, [&](const std::string&, const std::string&) -> bool {
    if (fails) throw std::bad_alloc();
    return true;
  });
  EXPECT_EQ(users.check("alice", "wonder", "a", now_), Answer::kLater);
  fails = false;
  EXPECT_EQ(users.check("alice", "wonder", "a", now_), Answer::kGood);
}

TEST(BasicTest, ReadsCredentials) {
  std::string name, password;
  for (const char* given :
       {"a:b", "alice:", ":x", ":", "alice:pass:word", "\xC3\xA4:\xE2\x82\xAC", "ab:cd", "abc:de"}) {
    std::string line = basic_line(given);
    line = line.substr(line.find(' ') + 1);
    line.resize(line.size() - 2);
    ASSERT_TRUE(parse_basic(line, name, password)) << given;
    EXPECT_EQ(name + ":" + password, given);
  }
  EXPECT_TRUE(parse_basic("bASIC   YTpi ", name, password));
}

TEST(BasicTest, RefusesEverythingElse) {
  std::string name, password;
  for (const char* bad : {"", "Basic", "Basic ", "Basic YTpi=", "Basic YTp", "Basic Y=pi", "Basic ====", "Basic =",
                          "Bearer YTpi", "Basic YWJj", "Basic YTpi YTpi", "YTpi", "Basic YToAYg=="})
    EXPECT_FALSE(parse_basic(bad, name, password)) << bad;
  EXPECT_FALSE(parse_basic("Basic " + std::string(16000, 'A'), name, password));
}

}  // namespace
}  // namespace roce::web

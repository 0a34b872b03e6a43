// SPDX-License-Identifier: Apache-2.0
//
// Users of the web configuration: HTTP basic authentication against bcrypt hashes, so bounded that guessing costs the
// host next to nothing. Thread-safe.
//
// What has been checked once is remembered under a keyed hash, right answers and wrong ones apart, so that a scraper
// costs one bcrypt and a flood of wrong passwords cannot push it out. New passwords are checked one at a time, at most
// two a second (after a burst of 16) and from one address one every two seconds (after a burst of 5); beyond that the
// answer is "later". A name that is not known costs as much as one that is.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/web/web_config.h"

namespace roce::web {

// What guarding the server has cost and refused. Thread-safe.
struct GuardCounters {
  std::atomic<std::uint64_t> password_checks{0};  // bcrypt runs
  std::atomic<std::uint64_t> unauthorized{0};     // answered 401
  std::atomic<std::uint64_t> limited{0};          // answered 429
  std::atomic<bool> configured{false};            // a web configuration file is in use
  std::atomic<bool> last_load_good{true};
  std::atomic<double> last_good_load{0};       // Unix time
  std::atomic<double> certificate_expires{0};  // Unix time; 0 without TLS
};

// True when the hash is of this password; without `bcrypt` that is crypt_r(3).
using Bcrypt = std::function<bool(const std::string& password, const std::string& hash)>;
bool bcrypt_matches(const std::string& password, const std::string& hash);

class Users {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Answer { kGood, kWrong, kLater };

  // What `before` remembers and has spent goes on, for as far as its users are the same: a digest holds the name and
  // the hash, so that nothing remembered is good for another one.
  Users(std::vector<WebUser> users, GuardCounters& counters, Bcrypt bcrypt = bcrypt_matches, Users* before = nullptr);
  bool empty() const { return users_.empty(); }

  // `now` is for tests. May wait for other checks, 2 s at most.
  Answer check(const std::string& name, const std::string& password, std::string_view address,
               Clock::time_point now = Clock::now());

 private:
  using Digest = std::array<unsigned char, 32>;
  struct User {
    Digest name;
    std::string hash;
  };
  // The newest digests, the oldest goes first.
  class Memory {
   public:
    bool holds(const Digest& digest) const { return places_.contains(digest); }
    void add(const Digest& digest);

   private:
    static constexpr std::size_t kMost = 1024;
    std::map<Digest, std::size_t> places_;
    std::vector<Digest> ring_;
    std::size_t next_ = 0;
  };
  struct Bucket {
    double tokens = 0;
    Clock::time_point filled{};
    bool used = false;
    bool has(double rate, double burst, Clock::time_point now);
  };

  Digest digest(std::initializer_list<std::string_view> parts) const;
  bool may_check(std::string_view address, Clock::time_point now);

  std::vector<User> users_;
  std::string hash_of_nobody_;
  GuardCounters& counters_;
  Bcrypt bcrypt_;
  Digest key_{};  // random

  std::mutex mutex_;
  std::condition_variable free_;
  bool checking_ = false;
  int waiting_ = 0;
  Memory right_, wrong_;
  Bucket all_;
  std::array<Bucket, 256> by_address_;
};

// "Basic dXNlcjpwYXNz" to name and password; nothing for anything else. A password with a NUL is nothing.
bool parse_basic(std::string_view authorization, std::string& name, std::string& password);

}  // namespace roce::web

// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/users.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "exporter/web/http.h"

namespace roce::web {
namespace {

constexpr std::size_t kMaxCredentials = 1024;  // bytes, decoded
constexpr double kRate = 2, kBurst = 16;       // bcrypt runs a second, and at once
constexpr double kAddressRate = 0.5, kAddressBurst = 5;
constexpr int kMaxWaiting = 8;
constexpr std::chrono::seconds kLongestWait{2};

}  // namespace

bool bcrypt_matches(const std::string& password, const std::string& hash) {
  // 32 KiB: too much for a stack.
  const auto data = std::make_unique<crypt_data>();
  const char* made = crypt_r(password.c_str(), hash.c_str(), data.get());
  const std::size_t length = made == nullptr ? 0 : std::char_traits<char>::length(made);
  const bool same = length == hash.size() && CRYPTO_memcmp(made, hash.data(), length) == 0;
  OPENSSL_cleanse(data.get(), sizeof(crypt_data));
  return same;
}

void Users::Memory::add(const Digest& digest) {
  if (holds(digest)) return;
  if (ring_.size() < kMost) {
    places_.emplace(digest, ring_.size());
    ring_.push_back(digest);
    return;
  }
  places_.erase(ring_[next_]);
  ring_[next_] = digest;
  places_.emplace(digest, next_);
  next_ = (next_ + 1) % kMost;
}

bool Users::Bucket::has(double rate, double burst, Clock::time_point now) {
  if (!used) {
    used = true;
    tokens = burst;
    filled = now;
  }
  if (now > filled) {
    tokens = std::min(burst, tokens + rate * std::chrono::duration<double>(now - filled).count());
    filled = now;
  }
  return tokens >= 1;
}

Users::Users(std::vector<WebUser> users, GuardCounters& counters, Bcrypt bcrypt, Users* before)
    : counters_(counters), bcrypt_(std::move(bcrypt)) {
  if (before != nullptr) {
    const std::lock_guard lock(before->mutex_);
    key_ = before->key_;
    right_ = before->right_;
    wrong_ = before->wrong_;
    all_ = before->all_;
    by_address_ = before->by_address_;
  } else if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1) {
    throw std::bad_alloc();
  }
  int highest = 4;
  for (const WebUser& user : users) {
    users_.push_back({digest({user.name}), user.hash});
    highest = std::max(highest, (user.hash.at(4) - '0') * 10 + (user.hash.at(5) - '0'));
  }
  hash_of_nobody_ = std::string("$2b$") + static_cast<char>('0' + highest / 10) +
                    static_cast<char>('0' + highest % 10) + "$abcdefghijklmnopqrstuuHzWsPIhNqvJQkUO2KyJkOhWNfcjgR5m";
}

Users::Digest Users::digest(std::initializer_list<std::string_view> parts) const {
  // Lengths stand before the parts, so that no two lists give the same text.
  std::string text;
  for (const std::string_view part : parts) text.append(std::to_string(part.size())).append(":").append(part);
  Digest out{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &length) == nullptr)
    throw std::bad_alloc();
  OPENSSL_cleanse(text.data(), text.size());
  return out;
}

bool Users::may_check(std::string_view address, Clock::time_point now) {
  const Digest place = digest({"address", address});
  Bucket& own = by_address_[place[0]];
  if (!own.has(kAddressRate, kAddressBurst, now) || !all_.has(kRate, kBurst, now)) return false;
  own.tokens -= 1;
  all_.tokens -= 1;
  return true;
}

Users::Answer Users::check(const std::string& name, const std::string& password, std::string_view address,
                           Clock::time_point now) {
  // Every name is looked at, in the same time whichever it is.
  const Digest wanted = digest({name});
  const std::string* hash = nullptr;
  for (const User& user : users_)
    if (CRYPTO_memcmp(user.name.data(), wanted.data(), wanted.size()) == 0) hash = &user.hash;
  const Digest asked = digest({name, hash != nullptr ? *hash : hash_of_nobody_, password});

  std::unique_lock lock(mutex_);
  const auto known = [&](Answer& answer) {
    if (!right_.holds(asked) && !wrong_.holds(asked)) return false;
    answer = right_.holds(asked) ? Answer::kGood : Answer::kWrong;
    return true;
  };
  Answer answer = Answer::kLater;
  if (known(answer)) return answer;
  if (checking_) {
    if (waiting_ >= kMaxWaiting) return Answer::kLater;
    ++waiting_;
    const bool freed = free_.wait_for(lock, kLongestWait, [this] { return !checking_; });
    --waiting_;
    if (known(answer)) return answer;  // the same client asked twice at once
    if (!freed) return Answer::kLater;
  }
  if (!may_check(address, now)) {
    free_.notify_one();
    return Answer::kLater;
  }
  checking_ = true;
  lock.unlock();
  counters_.password_checks.fetch_add(1, std::memory_order_relaxed);
  bool good = false;
  bool ran = false;
  try {
    good = bcrypt_(password, hash != nullptr ? *hash : hash_of_nobody_) && hash != nullptr;
    ran = true;
  } catch (...) {  // no memory: neither right nor wrong
  }
  lock.lock();
  checking_ = false;
  free_.notify_all();
  if (!ran) return Answer::kLater;
  (good ? right_ : wrong_).add(asked);
  return good ? Answer::kGood : Answer::kWrong;
}

bool parse_basic(std::string_view authorization, std::string& name, std::string& password) {
  const std::size_t blank = authorization.find(' ');
  if (blank == std::string_view::npos || !equal_ignoring_case(authorization.substr(0, blank), "basic")) return false;
  std::string_view text = authorization.substr(blank + 1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty() || text.size() % 4 != 0 || text.size() > kMaxCredentials / 3 * 4) return false;
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t fill = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t bits = 0;
    for (std::size_t j = i; j < i + 4; ++j) {
      const bool filler = j >= text.size() - fill;
      const std::size_t digit = filler ? 0 : kAlphabet.find(text[j]);
      if (digit == std::string_view::npos) return false;
      bits = bits << 6U | static_cast<std::uint32_t>(digit);
    }
    decoded += static_cast<char>(bits >> 16U & 0xFFU);
    decoded += static_cast<char>(bits >> 8U & 0xFFU);
    decoded += static_cast<char>(bits & 0xFFU);
  }
  decoded.resize(decoded.size() - fill);
  const std::size_t colon = decoded.find(':');
  if (colon == std::string::npos || decoded.find('\0') != std::string::npos) return false;
  name = decoded.substr(0, colon);
  password = decoded.substr(colon + 1);
  OPENSSL_cleanse(decoded.data(), decoded.size());
  return true;
}

}  // namespace roce::web

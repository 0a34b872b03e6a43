// SPDX-License-Identifier: Apache-2.0
//
// A name server that does not answer, for all of this program: libcurl asks by the getaddrinfo that stands here.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "probes/peers/exchange.h"

namespace {

constexpr std::string_view kSlowName = "slow.invalid";

std::mutex mutex;
std::condition_variable changed;
int asking = 0;
bool answered = false;

}  // namespace

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** result) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  if (name != nullptr && name == kSlowName) {
    std::unique_lock lock(mutex);
    ++asking;
    changed.notify_all();
    changed.wait(lock, [] { return answered; });
    --asking;
    changed.notify_all();
    return EAI_AGAIN;
  }
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, result);
}

namespace roce::probe {
namespace {

TEST(Exchange, ANameThatIsNotResolvedHoldsNobodyForLong) {
  HttpsSource source;
  Peer peer;
  peer.url = "https://slow.invalid:14792";
  const auto begin = std::chrono::steady_clock::now();
  // Should it hold after all, the name is answered in the end and the test fails by the time that it took.
  std::mutex guard_mutex;
  std::condition_variable guard_changed;
  bool done = false;
  std::thread guard([&] {
    std::unique_lock lock(guard_mutex);
    guard_changed.wait_for(lock, std::chrono::seconds(15), [&] { return done; });
    const std::lock_guard name_lock(mutex);
    answered = true;
    changed.notify_all();
  });
  const auto endpoint = source.endpoint(peer);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().kind, ErrorKind::kTimeout) << endpoint.error().message();
  EXPECT_LT(took, std::chrono::seconds(8));
  {
    const std::lock_guard lock(guard_mutex);
    done = true;
    guard_changed.notify_all();
  }
  guard.join();
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [] { return asking == 0; }));
}

}  // namespace
}  // namespace roce::probe

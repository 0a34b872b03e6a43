// SPDX-License-Identifier: Apache-2.0
//
// Probing and answering allocate nothing once they run: operator new is counted on the thread that plays them. What
// OpenSSL asks malloc for to make a MAC is not ours to count.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROCE_OPERATORS_OF_TSAN  // which may not be defined twice; no second thread is at work here
#endif
#endif
#ifndef ROCE_OPERATORS_OF_TSAN
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/unit/probes/host.h"

namespace {
thread_local bool counting = false;
thread_local std::uint64_t allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  void* at = alignment <= alignof(std::max_align_t)
                 ? std::malloc(bytes)
                 : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }

namespace roce::probe::fake {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(Allocation, NoneOnTheProbePathAfterTheStart) {
  Fabric fabric;
  Directory directory;
  fabric.add("a0", "10.0.0.1").khz = 1'000'000;
  fabric.add("b0", "10.0.0.2").khz = 1'000'000;
  Host a(fabric, directory, "a0", 7), b(fabric, directory, "b0", 8);
  directory.endpoints["b"] = b.endpoint();
  a.plan().interval = 100 * kMs;
  a.plan().loopback_interval = 100 * kMs;
  const auto peer = a.probe("b", {{"storage", 26, 3}, {"best", 0, 0}});
  std::uint64_t n = 0;
  // Now and then something is lost, late, doubled, marked or damaged.
  fabric.fate = [&](const Sending& sending) {
    Fate fate;
    if (sending.loopback()) return fate;
    ++n;
    fate.drop = n % 17 == 0;
    fate.corrupt = n % 23 == 0;
    fate.mark = n % 5 == 0;
    fate.copies = n % 13 == 0 ? 2 : 1;
    fate.latency = n % 19 == 0 ? 700 * kMs : 5'000;
    return fate;
  };
  const auto play = [&](std::uint64_t ns) {
    for (std::uint64_t t = 0; t < ns; t += kMs) {
      fabric.advance(kMs);
      counting = true;
      (void)a.prober.step();
      (void)b.responder.step();
      counting = false;
      (void)a.resolver.run_once();
      while (b.helper.run_once()) {
      }
    }
  };
  play(5'000 * kMs);
  allocations = 0;
  play(60'000 * kMs);
  const PairRecord& pair = *peer->pairs[0];
  EXPECT_EQ(allocations, 0u);
  EXPECT_GT(pair.received.get(), 300u);
  EXPECT_GT(pair.late.get(), 5u);
  EXPECT_GT(pair.duplicates.get() + b.record.rejected_replay.get(), 5u);
  EXPECT_GT(pair.corrupt.get() + b.record.rejected_mac.get(), 5u);
  EXPECT_GT(pair.network.snapshot().count, 200u);
  EXPECT_GT(a.record.loopback_rtt.snapshot().count, 300u);
  // That the count counts.
  counting = true;
  delete new int(1);
  counting = false;
  EXPECT_EQ(allocations, 1u);
}

}  // namespace
}  // namespace roce::probe::fake
#endif

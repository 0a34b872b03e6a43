// SPDX-License-Identifier: Apache-2.0
//
// How threads that must not wait hand things to each other: a ring of fixed size for one writer and one reader, and a
// place for the newest version of something.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace roce::probe {

template <class T, std::size_t N>
class Ring {
  static_assert((N & (N - 1)) == 0);

 public:
  // False when full.
  bool push(T value) {
    const std::size_t at = head_.load(std::memory_order_relaxed);
    if (at - tail_.load(std::memory_order_acquire) == N) return false;
    slots_[at & (N - 1)] = std::move(value);
    head_.store(at + 1, std::memory_order_release);
    return true;
  }
  bool pop(T& out) {
    const std::size_t at = tail_.load(std::memory_order_relaxed);
    if (at == head_.load(std::memory_order_acquire)) return false;
    out = std::move(slots_[at & (N - 1)]);
    tail_.store(at + 1, std::memory_order_release);
    return true;
  }

 private:
  std::array<T, N> slots_{};
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
};

// The newest T from others for one thread that takes it without waiting and gives the one before back, so that the
// memory is freed elsewhere.
template <class T>
class Mailbox {
 public:
  Mailbox() = default;
  ~Mailbox() {
    delete in_.load();
    delete out_.load();
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Any other thread.
  void post(std::unique_ptr<T> value) {
    delete out_.exchange(nullptr, std::memory_order_acq_rel);
    delete in_.exchange(value.release(), std::memory_order_acq_rel);
  }
  // The one thread. Replaces `current` if there is a newer one and room for the old one, after `before(fresh)` looked
  // at both; true if so.
  template <class Before>
  bool take(std::unique_ptr<T>& current, Before before) {
    if (in_.load(std::memory_order_relaxed) == nullptr) return false;
    if (current && out_.load(std::memory_order_acquire) != nullptr) return false;
    T* fresh = in_.exchange(nullptr, std::memory_order_acq_rel);
    if (fresh == nullptr) return false;
    before(*fresh);
    T* old = current.release();
    current.reset(fresh);
    if (old != nullptr) out_.store(old, std::memory_order_release);
    return true;
  }
  bool take(std::unique_ptr<T>& current) {
    return take(current, [](const T&) {});
  }
  // Frees what was given back, at a time of the others' choice.
  void collect() { delete out_.exchange(nullptr, std::memory_order_acq_rel); }

 private:
  std::atomic<T*> in_{nullptr};
  std::atomic<T*> out_{nullptr};
};

// Adds one to the eventfd, if there is one (-1: nobody is to be woken). Never blocks.
void wake(const std::atomic<int>& fd);

// Written by one thread, read by any.
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace roce::probe

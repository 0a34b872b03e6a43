// SPDX-License-Identifier: Apache-2.0
//
// What the status page is made from: the latest whole page that somebody collected, and the ring of those before it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "exporter/engine/engine.h"
#include "exporter/web/status_ring.h"

namespace roce {

// Thread-safe.
class StatusBoard {
 public:
  using Clock = StatusRing::Clock;
  static constexpr std::chrono::seconds kPatience{60};  // without a scrape for that long, a page that is open collects
  static constexpr std::chrono::seconds kOwnPace{10};   // so often

  struct Latest {
    std::shared_ptr<const Page> page;
    Clock::time_point collected;
  };

  // Takes a page of all collectors; `scrape`: Prometheus asked for it.
  Latest put(Page page, bool scrape, Clock::time_point now = Clock::now());

  // Nothing when whoever asks should collect: no scrape comes, and the latest page is old.
  std::optional<Latest> latest(Clock::time_point now = Clock::now()) const;

  const StatusRing& ring() const { return ring_; }

 private:
  mutable std::mutex mutex_;
  Latest latest_;
  std::optional<Clock::time_point> scraped_;
  StatusRing ring_;
};

}  // namespace roce

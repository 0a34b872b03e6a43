// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_board.h"

#include <utility>

namespace roce {

StatusBoard::Latest StatusBoard::put(Page page, bool scrape, Clock::time_point now) {
  const Latest fresh{std::make_shared<const Page>(std::move(page)), now};
  ring_.record(fresh.page->batches(), now);
  Latest old = fresh;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  if (scrape) scraped_ = now;
  // Of two that come together the later one stays.
  if (latest_.page == nullptr || latest_.collected <= now) std::swap(latest_, old);
  return fresh;
}

std::optional<StatusBoard::Latest> StatusBoard::latest(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  if (latest_.page == nullptr) return std::nullopt;
  const bool scrapes_come = scraped_ && now - *scraped_ < kPatience;
  if (!scrapes_come && now - latest_.collected >= kOwnPace) return std::nullopt;
  return latest_;
}

}  // namespace roce

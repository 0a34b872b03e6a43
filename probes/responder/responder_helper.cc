// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "exporter/base/log.h"
#include "probes/responder/responder.h"

namespace roce::probe {
namespace {

constexpr std::uint64_t kLinger = 2'000'000'000;  // of an address that a reply may still use

}  // namespace

ResponderHelper::ResponderHelper(const Verbs& clocks, DeviceRecord& record, HelperRings& rings)
    : clocks_(clocks), record_(record), rings_(rings) {}

ResponderHelper::~ResponderHelper() {
  stop();
  if (wake_ >= 0) {
    rings_.wake_helper.store(-1, std::memory_order_release);
    (void)close(wake_);
  }
}

Result<void> ResponderHelper::start() {
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return fail_errno(errno, "eventfd");
  rings_.wake_helper.store(wake_, std::memory_order_release);
  thread_ = std::thread([this] { loop(); });
  return {};
}

void ResponderHelper::stop() {
  stopping_.store(true, std::memory_order_release);
  wake(rings_.wake_helper);
  if (thread_.joinable()) thread_.join();
}

void ResponderHelper::loop() {
  while (!stopping_.load(std::memory_order_acquire)) {
    if (run_once()) continue;
    pollfd fd{wake_, POLLIN, 0};
    (void)poll(&fd, 1, 1000);
    std::uint64_t count = 0;
    (void)!read(wake_, &count, sizeof count);
  }
}

void ResponderHelper::attach(Context& context, DatagramQueue& queue) {
  const std::lock_guard lock(session_mutex_);
  context_ = &context;
  queue_ = &queue;
}

void ResponderHelper::detach() {
  const std::lock_guard lock(session_mutex_);
  HelperRequest request;
  while (rings_.requests.pop(request)) {
  }
  doomed_.clear();  // they go with the context
  context_ = nullptr;
  queue_ = nullptr;
}

bool ResponderHelper::run_once() {
  const std::lock_guard lock(session_mutex_);
  if (context_ == nullptr) return false;
  const std::uint64_t now = clocks_.now();
  std::erase_if(doomed_, [&](const auto& each) {
    if (now - each.first < kLinger) return false;
    context_->destroy_address(each.second);
    return true;
  });
  HelperRequest request;
  if (!rings_.requests.pop(request)) return false;
  HelperAnswer answer;
  answer.cookie = request.cookie;
  if (request.kind == HelperRequest::Kind::kDestroy) {
    doomed_.emplace_back(now, request.address);
    return true;
  }
  if (request.kind == HelperRequest::Kind::kRepair) {
    const auto repaired = queue_->repair();
    if (repaired)
      record_.responder_repairs.add();
    else
      log::warn("repair of the responder's queue failed", {{"error", repaired.error().message()}});
    answer.kind = repaired ? HelperAnswer::Kind::kRepaired : HelperAnswer::Kind::kRepairFailed;
  } else {
    const auto address = context_->create_address(request.spec);
    answer.kind = HelperAnswer::Kind::kCreated;
    answer.address = address ? *address : nullptr;
  }
  // As long as the ring of requests, so there is room.
  if (rings_.answers.push(answer)) wake(rings_.wake_responder);
  return true;
}

}  // namespace roce::probe

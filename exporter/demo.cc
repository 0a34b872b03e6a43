// SPDX-License-Identifier: Apache-2.0
#include "exporter/demo.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "exporter/base/log.h"
#include "exporter/kernel/motion.h"

namespace roce {
namespace {

constexpr unsigned char kLab[] = {
#include "exporter/demo_lab.inc"
};
constexpr unsigned char kMadeUp[] = {
#include "exporter/demo_made-up.inc"
};
constexpr unsigned char kNoRdma[] = {
#include "exporter/demo_no-rdma.inc"
};

class Mover : public MovingRecording {
 public:
  explicit Mover(Motion motion)
      : motion_(std::move(motion)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

 private:
  void run(const std::stop_token& stop) {
    const auto begin = std::chrono::steady_clock::now();
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    while (!stop.stop_requested()) {
      if (const auto shown = show(std::chrono::steady_clock::now() - begin); !shown) {
        log::warn("the demonstration stands still", {{"err", shown.error().message()}});
        return;
      }
      never.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    }
  }

  Result<void> show(std::chrono::duration<double> since) {
    try {
      return motion_.show(since);
    } catch (const std::exception& e) {
      return fail(ErrorKind::kIo, e.what());
    }
  }

  Motion motion_;
  std::jthread thread_;  // last: it uses what stands above
};

}  // namespace

std::span<const unsigned char> demo_recording(std::string_view name) {
  if (name == "made-up") return kMadeUp;
  if (name == "no-rdma") return kNoRdma;
  return kLab;
}

std::string demo_notice(std::string_view name) {
  return std::string("A demonstration: ") +
         (name == "made-up" ? "an invented host that moves by itself"
          : name == "no-rdma"
              ? "a recorded virtual machine without RDMA"
              : "a recorded virtual machine (Soft-RoCE, simulated RNICs) that moves as it did under load") +
         ". Nothing here is about this host.";
}

Result<std::unique_ptr<MovingRecording>> MovingRecording::start(const std::string& folder) {
  ROCE_TRY(Motion motion, Motion::open(folder));
  return std::make_unique<Mover>(std::move(motion));
}

}  // namespace roce

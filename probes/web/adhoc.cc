// SPDX-License-Identifier: Apache-2.0
#include "probes/web/adhoc.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "exporter/metrics/exposition.h"
#include "probes/measure/summary.h"

namespace roce::probe {
namespace {

constexpr std::size_t kMostAtOnce = 4;
using Clock = std::chrono::steady_clock;

constexpr MetricDesc gauge(std::string_view name, std::string_view unit, std::string_view labels,
                           std::string_view help) {
  return {name, MetricType::kGauge, unit, labels, "probe", true, Proof::kReal, help};
}
constexpr MetricDesc kSuccess = gauge("probe_success", "", "", "1 when the peer answered.");
constexpr MetricDesc kDuration = gauge("probe_duration_seconds", "seconds", "", "How long the probe took in all.");
constexpr MetricDesc kSent = gauge("probe_roce_sent", "", "", "Messages sent.");
constexpr MetricDesc kReceived = gauge("probe_roce_received", "", "", "Messages answered in time.");
constexpr MetricDesc kLost = gauge("probe_roce_loss_ratio", "ratio", "", "Share that was not answered in time.");
constexpr MetricDesc kRtt = gauge("probe_roce_rtt_seconds", "seconds", "quantile",
                                  "Round trip: 0 the fastest, 0.5 the median, 0.99, 1 the slowest.");
constexpr MetricDesc kMarked =
    gauge("probe_roce_ecn_marked_ratio", "ratio", "", "Share of packets that came with a congestion mark.");
constexpr MetricDesc kHops = gauge("probe_roce_hops", "", "", "Routers on the way back.");

}  // namespace

struct AdhocProbes::Shared {
  std::mutex mutex;
  std::set<std::string> peers;  // to which a burst is under way
};

void AdhocProbes::on_a_thread(std::function<void()> work) { std::thread(std::move(work)).detach(); }

AdhocProbes::AdhocProbes(Engine& engine, Begin begin)
    : engine_(engine), begin_(std::move(begin)), shared_(std::make_shared<Shared>()) {}

BurstSpec fit(BurstSpec spec, std::chrono::milliseconds budget) {
  spec.deadline = std::min(spec.deadline, std::max(budget, std::chrono::milliseconds(1)));
  const auto left = budget - spec.deadline;
  const auto gaps = spec.gap.count() > 0 ? std::max<std::int64_t>(left.count() / spec.gap.count(), 0) : spec.count;
  spec.count = static_cast<std::uint32_t>(std::min<std::int64_t>(spec.count, gaps + 1));
  return spec;
}

AdhocProbes::Answer AdhocProbes::run(BurstSpec spec, std::chrono::milliseconds budget) {
  const auto start = Clock::now();
  struct Outcome {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Result<BurstResult>> result;
  };
  const auto outcome = std::make_shared<Outcome>();
  const std::function<void()> work = [&engine = engine_, shared = shared_, outcome, spec = fit(spec, budget)] {
    Result<BurstResult> result = fail(ErrorKind::kIo, "the burst failed");
    try {
      result = engine.burst(spec);
    } catch (...) {
      result = fail(ErrorKind::kIo, "out of memory");
    }
    {
      const std::lock_guard lock(shared->mutex);
      shared->peers.erase(spec.peer);
    }
    const std::lock_guard lock(outcome->mutex);
    outcome->result = std::move(result);
    outcome->done.notify_all();
  };
  Answer answer;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->peers.size() >= kMostAtOnce || !shared_->peers.insert(spec.peer).second) {
      answer.kind = Answer::Kind::kBusy;
      return answer;
    }
  }
  try {
    begin_(work);
  } catch (const std::exception& error) {
    // Nobody else will free the place.
    const std::lock_guard lock(shared_->mutex);
    shared_->peers.erase(spec.peer);
    answer.failure = error.what();
    return answer;
  }
  {
    std::unique_lock lock(outcome->mutex);
    outcome->done.wait_for(lock, budget, [&] { return outcome->result.has_value(); });
    if (!outcome->result)
      answer.failure = "not done in time";
    else if (!*outcome->result)
      answer.failure = outcome->result->error().message();
    else
      answer.result = std::move(**outcome->result);
  }
  answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (answer.failure.empty()) answer.failure = answer.result.failure;
  answer.success = answer.failure.empty() && answer.result.received > 0;
  if (!answer.success && answer.failure.empty()) answer.failure = "no answer";
  return answer;
}

std::string adhoc_text(const AdhocProbes::Answer& answer) {
  SampleBatch batch;
  batch.add(kSuccess, {}, answer.success);
  batch.add(kDuration, {}, answer.seconds);
  const BurstResult& r = answer.result;
  if (r.sent > 0) {
    batch.add(kSent, {}, r.sent);
    batch.add(kReceived, {}, r.received);
    batch.add(kLost, {}, 1 - static_cast<double>(std::min(r.received, r.sent)) / static_cast<double>(r.sent));
  }
  if (!r.rtt.empty()) {
    const Summary s = summarise(r.rtt);
    const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e9; };
    batch.add(kRtt, {"0"}, seconds(s.min));
    batch.add(kRtt, {"0.5"}, seconds(s.median));
    batch.add(kRtt, {"0.99"}, seconds(s.p99));
    batch.add(kRtt, {"1"}, seconds(s.max));
  }
  if (r.ecn_capable > 0) batch.add(kMarked, {}, static_cast<double>(r.ecn_marked) / static_cast<double>(r.ecn_capable));
  if (r.hops > 0) batch.add(kHops, {}, r.hops);
  const SampleBatch* const batches[] = {&batch};
  return render_text(batches);
}

}  // namespace roce::probe

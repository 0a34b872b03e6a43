// SPDX-License-Identifier: Apache-2.0
//
// /probe?target=&module=: one burst to one peer at once, in the way of blackbox_exporter. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "exporter/metrics/samples.h"
#include "probes/config/options.h"
#include "probes/engine.h"

namespace roce::probe {

// What bursts are under way. Outlives every burst, also those that nobody waits for any more.
class AdhocProbes {
 public:
  // Begins what runs beside the caller: on a thread of its own. May throw, as std::thread does.
  using Begin = std::function<void(std::function<void()> work)>;
  explicit AdhocProbes(Engine& engine, Begin begin = on_a_thread);

  struct Answer {
    enum class Kind { kDone, kBusy } kind = Kind::kDone;
    bool success = false;
    std::string failure;  // why not
    double seconds = 0;   // that it took
    BurstResult result;
  };
  // At most `budget`, less by what it shortens the burst: fewer probes, then an earlier deadline. A burst that holds
  // longer counts as failed and keeps its place until it returns. Busy: one to this peer, or four, are under way.
  Answer run(BurstSpec spec, std::chrono::milliseconds budget);

 private:
  static void on_a_thread(std::function<void()> work);

  struct Shared;
  Engine& engine_;
  Begin begin_;
  std::shared_ptr<Shared> shared_;
};

// The page: probe_success and probe_duration_seconds always, the rest where something was measured.
std::string adhoc_text(const AdhocProbes::Answer& answer);

// The burst cut to the time that there is.
BurstSpec fit(BurstSpec spec, std::chrono::milliseconds budget);

}  // namespace roce::probe

// SPDX-License-Identifier: Apache-2.0
//
// What the program counts about itself, and its process.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include "exporter/metrics/samples.h"
#include "exporter/web/users.h"

namespace roce {

// Thread-safe.
struct OwnMetrics {
  prometheus::Counter scrapes;
  prometheus::Counter scrapes_rejected;
  prometheus::Counter budget_exceeded;
  prometheus::Gauge reload_successful{1};
  prometheus::Gauge reload_timestamp;
  web::GuardCounters web;
};

// Adds what guarding the server has cost; nothing without a web configuration.
void add_web_metrics(const web::GuardCounters& web, SampleBatch& out);

// Adds them with the build and the collections made.
void add_own_metrics(const OwnMetrics& own, std::uint64_t collections, SampleBatch& out);

// Adds process_*, read from the running kernel's own /proc, whatever tree the collectors read.
void add_process_metrics(SampleBatch& out);

}  // namespace roce

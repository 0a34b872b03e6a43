// SPDX-License-Identifier: Apache-2.0
//
// Prometheus's protobuf format: MetricFamily messages of io.prometheus.client, each behind its length. The one format
// that carries native histograms to Prometheus 2.40 and later.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "exporter/metrics/samples.h"

namespace roce {

inline constexpr std::string_view kProtobufContentType =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

// The same page as render_text() of the same batches: same families, same series left out. Values are doubles, so that
// an integer above 2^53 is rounded as the server would. Histograms have their classic buckets, and their native ones
// where they have such; the server chooses.
std::string render_protobuf(std::span<const SampleBatch* const> batches, std::size_t* duplicates = nullptr);

}  // namespace roce

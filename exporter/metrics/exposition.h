// SPDX-License-Identifier: Apache-2.0
//
// The text format 0.0.4 of Prometheus.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "exporter/metrics/samples.h"

namespace roce {

inline constexpr std::string_view kTextContentType = "text/plain; version=0.0.4; charset=utf-8";

// Longest label value on a page; what is longer is cut at a character boundary.
inline constexpr std::size_t kMaxLabelBytes = 512;

// One page out of many batches: families sorted by name, each once, samples in the order of the batches. Of histograms
// the classic buckets. Two samples
// with the same name and labels would make the server reject the page, so the later one is left out; the number of
// those is added to *duplicates when given.
std::string render_text(std::span<const SampleBatch* const> batches, std::size_t* duplicates = nullptr);

// The page in protobuf where the client prefers that and the page holds a histogram, else as text: protobuf has nothing
// else that text has not. `content_type` of the answer.
struct RenderedPage {
  std::string_view content_type;
  std::string body;
};
RenderedPage render_page(std::span<const SampleBatch* const> batches, bool prefers_protobuf,
                         std::size_t* duplicates = nullptr);

// Appends a label value: backslash, quote and newline escaped, bytes that are not UTF-8 replaced, length capped. So is
// NUL, which is UTF-8, but the end of the text for whoever reads it as a C string.
void append_label_value(std::string& out, std::string_view value);
// The same without escaping.
void append_clean_label_value(std::string& out, std::string_view value);

// A name of the Prometheus data model: [a-zA-Z_:][a-zA-Z0-9_:]* for metrics, without colons for labels.
bool valid_metric_name(std::string_view name);
bool valid_label_name(std::string_view name);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The demonstration: recordings of packaging/demo that are part of the program, and move.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace roce {

// `name`: "lab", "made-up" or "no-rdma" (config/setting.cc).
std::span<const unsigned char> demo_recording(std::string_view name);

// What the status page says of it.
std::string demo_notice(std::string_view name);

// Writes an unpacked recording anew once a second, on a thread of its own, until it is destroyed.
class MovingRecording {
 public:
  // kAbsent: it holds nothing that moves.
  static Result<std::unique_ptr<MovingRecording>> start(const std::string& folder);
  virtual ~MovingRecording() = default;
};

}  // namespace roce

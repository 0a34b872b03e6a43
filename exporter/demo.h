// SPDX-License-Identifier: Apache-2.0
//
// The demonstration: a recording of a made-up host that is part of the program, and moves.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "exporter/base/result.h"

namespace roce {

// packaging/demo/demo.tar.gz
std::span<const unsigned char> demo_recording();

// Writes an unpacked recording anew once a second, on a thread of its own, until it is destroyed.
class MovingRecording {
 public:
  static Result<std::unique_ptr<MovingRecording>> start(const std::string& folder);
  virtual ~MovingRecording() = default;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// What a collector that reads many small sources says of the run as a whole.
#pragma once

#include <optional>
#include <utility>

#include "exporter/base/result.h"

namespace roce {

// Keeps the first failure of a run. What this kernel, driver or transport does not have is none.
class FailureNote {
 public:
  void note(const Error& error) {
    if (!first_ && error.kind != ErrorKind::kAbsent && error.kind != ErrorKind::kUnsupported) first_ = error;
  }
  // The value, or nothing and a note of why.
  template <class T>
  std::optional<T> value(Result<T> result) {
    if (result) return std::move(*result);
    note(result.error());
    return std::nullopt;
  }
  // What collect() returns; the next run begins without a note.
  Result<void> conclude() {
    const std::optional<Error> first = std::exchange(first_, std::nullopt);
    if (first) return tl::unexpected(*first);
    return {};
  }

 private:
  std::optional<Error> first_;
};

}  // namespace roce

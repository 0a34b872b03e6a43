// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value or an Error. Reading paths return it; nothing in them throws.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace roce {

// Why a source gave no value. `absent` is the ordinary "not on this host" and never an alarm.
enum class ErrorKind {
  kAbsent,       // no such file, directory, device, netlink object
  kUnsupported,  // the kernel, driver or firmware knows the object but does not offer the value
  kDenied,       // permission
  kBusy,         // another request is under way, try again
  kMalformed,    // the text or message was not of the expected form
  kTimeout,      // the deadline passed first
  kNotRecorded,  // a replayed recording does not hold this source
  kIo,           // any other failure of the kernel call
  kLost,         // what was read is all ones: the device is off its bus
};

// Name as used in labels: absent, unsupported, denied, busy, malformed, timeout, not_recorded, io, lost.
std::string_view to_string(ErrorKind kind);

// The kind that an errno of a sysfs, procfs or netlink read stands for.
ErrorKind kind_of_errno(int err);

struct [[nodiscard]] Error {
  ErrorKind kind = ErrorKind::kIo;
  int err = 0;         // errno of the failed call, 0 when there was none
  std::string object;  // path or object the error is about

  // Why, without what it is about, which can hold names that must not be shown.
  std::string reason() const;
  // One line for logs: "object: reason".
  std::string message() const;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string object, int err = 0) {
  return tl::unexpected<Error>(Error{kind, err, std::move(object)});
}
// Failure of a kernel call: the kind follows from the errno.
inline tl::unexpected<Error> fail_errno(int err, std::string object) {
  return fail(kind_of_errno(err), std::move(object), err);
}

}  // namespace roce

#define ROCE_CONCAT_(a, b) a##b
#define ROCE_CONCAT(a, b) ROCE_CONCAT_(a, b)
// ROCE_TRY(auto x, f()); binds the value or returns the error to the caller.
#define ROCE_TRY(decl, expr)                                                                   \
  auto ROCE_CONCAT(roce_try_, __LINE__) = (expr);                                              \
  if (!ROCE_CONCAT(roce_try_, __LINE__))                                                       \
    return tl::unexpected<::roce::Error>(std::move(ROCE_CONCAT(roce_try_, __LINE__)).error()); \
  decl = std::move(*ROCE_CONCAT(roce_try_, __LINE__))
// ROCE_TRY_VOID(f()); returns the error of a call that has no value.
#define ROCE_TRY_VOID(expr)                                          \
  do {                                                               \
    if (auto roce_try_result = (expr); !roce_try_result)             \
      return tl::unexpected<::roce::Error>(roce_try_result.error()); \
  } while (false)

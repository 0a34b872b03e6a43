// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/result.h"

#include <cstring>

namespace roce {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kAbsent:
      return "absent";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kDenied:
      return "denied";
    case ErrorKind::kBusy:
      return "busy";
    case ErrorKind::kMalformed:
      return "malformed";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kNotRecorded:
      return "not_recorded";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kLost:
      return "lost";
  }
  return "io";
}

ErrorKind kind_of_errno(int err) {
  switch (err) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOTDIR:
      return ErrorKind::kAbsent;
    case EINVAL:
    case EOPNOTSUPP:
    case ENOSYS:
    case ENODATA:
    case ENOTTY:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
      return ErrorKind::kUnsupported;
    case EACCES:
    case EPERM:
      return ErrorKind::kDenied;
    case EAGAIN:
    case EBUSY:
      return ErrorKind::kBusy;
    case ETIMEDOUT:
      return ErrorKind::kTimeout;
    default:
      return ErrorKind::kIo;
  }
}

std::string Error::reason() const {
  if (err == 0) return std::string(to_string(kind));
  char buffer[128];
  return strerror_r(err, buffer, sizeof buffer);
}

std::string Error::message() const { return object + ": " + reason(); }

}  // namespace roce

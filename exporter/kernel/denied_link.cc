// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/denied_link.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

namespace roce {

int errno_of_open(const std::string& path) {
  if (errno != ELOOP) return errno;
  // A link on the way, or the last part of it.
  std::array<char, PATH_MAX> buffer;  // NOLINT: filled by readlink
  for (std::string at = path; !at.empty(); at.resize(at.rfind('/') == std::string::npos ? 0 : at.rfind('/'))) {
    const ssize_t n = readlink(at.c_str(), buffer.data(), buffer.size());
    if (n < 0 && errno == ELOOP) continue;
    const std::string_view target(buffer.data(), n < 0 ? 0 : static_cast<std::size_t>(n));
    return target.substr(target.rfind('/') + 1) == kDeniedLink ? EACCES : ELOOP;
  }
  return ELOOP;
}

}  // namespace roce

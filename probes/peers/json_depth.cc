// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/json_depth.h"

#include <cstddef>

namespace roce::probe {
namespace {

constexpr int kMostLevels = 8;

}  // namespace

bool too_deep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostLevels) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace roce::probe

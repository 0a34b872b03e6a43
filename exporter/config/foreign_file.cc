// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/foreign_file.h"

namespace roce::config {

std::optional<Problem> foreign_file(std::string_view key) {
  if (key == "keys")
    return Problem{"a keys file, which is checked through the configuration of roce_prober that names it in keys_file",
                   "a configuration file",
                   {}};
  // Those that a profile has too (devices, classes) tell nothing.
  for (const std::string_view own :
       {"probes", "responder", "keys_file", "exchange", "graph", "peers", "rails", "modules"})
    if (key == own)
      return Problem{"a configuration of roce_prober", "one of roce_exporter", "roce_prober check-config"};
  return {};
}

}  // namespace roce::config

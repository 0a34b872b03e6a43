// SPDX-License-Identifier: Apache-2.0
//
// Declared profiles, and verdicts as a client reads them from the control socket. The first byte chooses. A refusal is
// one printable line that names the file; what is accepted can be laid over and asked for; a verdict that is read is
// written and read again the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "exporter/health/profile.h"
#include "exporter/health/render.h"
#include "tests/fuzz/require.h"

namespace {

void read_profile(std::string_view text) {
  const auto profile = roce::parse_profile(text, "fuzz.yml");
  if (!profile) {
    require(profile.error().starts_with("fuzz.yml:"), profile.error());
    for (const char c : profile.error()) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, profile.error());
    return;
  }
  const roce::Profile mine = roce::for_host(*profile, "node1");
  for (const roce::DeclaredDevice& device : mine.devices)
    require(roce::expectation_of(mine, device.name, device.pci_address).has_value(), "a declared device is not found");
  for (const roce::Waiver& waiver : mine.waivers) require(roce::waiver_end(waiver) > 0, waiver.until);
}

void read_verdict(std::string_view text) {
  auto verdict = roce::verdict_from_json(text);
  if (!verdict) return;
  const std::string once = roce::to_json(*verdict, true);
  const auto again = roce::verdict_from_json(once);
  require(again && roce::to_json(*again, true) == once, once);
  const std::string shown = roce::render_verdict_text(*verdict, {}) + roce::render_verdict_nagios(*verdict) +
                            roce::render_verdict_npd(*verdict) + roce::render_verdict_tsv(*verdict);
  for (const char c : shown) require(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t', shown);
  roce::apply_filter(*verdict, {{"mlx5_0"}, {}, {}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    read_profile(text);
  } else {
    read_verdict(text);
  }
  return 0;
}

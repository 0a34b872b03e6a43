// SPDX-License-Identifier: Apache-2.0
//
// Attributes of NVMe controllers and paths, and the tables of routes. Whatever comes in, states are of their closed set
// and what is taken is a part of the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "exporter/kernel/nvme.h"
#include "exporter/kernel/route.h"
#include "tests/fuzz/require.h"

namespace {

bool in(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const roce::NvmeAddress address = roce::parse_nvme_address(text);
  for (const std::string* part : {&address.traddr, &address.trsvcid, &address.host_traddr, &address.host_iface,
                                  &address.src_addr, &address.pci_address}) {
    require(in(text, *part));
    require(part->find_first_of(", \t\n\r") == std::string::npos);
  }
  const roce::NvmeState state = roce::parse_nvme_state(text);
  require(roce::parse_nvme_state(roce::to_string(state)) == state);
  const std::string_view ana = roce::parse_ana_state(text);
  require(ana == "unknown" || roce::parse_ana_state(ana) == ana);
  if (const auto disk = roce::parse_nvme_disk_name(text)) {
    require(!roce::is_nvme_controller_name(text) && !disk->first.empty() && !disk->instance.empty());
    std::string again = "nvme" + std::string(disk->first);
    if (!disk->controller.empty()) again += "c" + std::string(disk->controller);
    require(again + "n" + std::string(disk->instance) == text);
  }
  if (const auto statistics = roce::parse_block_statistics(text))
    require(statistics->read.bytes % 512 == 0 && statistics->write.bytes % 512 == 0);
  if (const auto time = roce::parse_nvme_time(text)) require(!time->never || time->seconds == 0);
  for (const char* own : {"192.0.2.1", "2001:db8::1", "::1"}) {
    const roce::IpAddress wanted = roce::parse_ip_address(own).value();
    for (const auto& name : {roce::find_ipv4_route(text, wanted, false), roce::find_ipv4_route(text, wanted, true),
                             roce::find_ipv6_route(text, wanted), roce::find_ipv6_owner(text, wanted)})
      if (name) require(!name->empty() && in(text, *name));
  }
  (void)roce::parse_ip_address(text);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/rdma_device.h"

#include <fmt/format.h>

#include "exporter/base/parse.h"
#include "exporter/catalog/catalog.h"
#include "exporter/catalog/node_infiniband.h"
#include "exporter/collectors/failure_note.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

std::string guid_text(std::uint64_t guid) {
  if (guid == 0) return {};
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48U, (guid >> 32U) & 0xffffU, (guid >> 16U) & 0xffffU,
                     guid & 0xffffU);
}

class RdmaDeviceCollector : public Collector {
 public:
  using Collector::Collector;

  Result<void> collect(Output& out) override {
    auto part = std::make_shared<Part>();
    const CallTracker::Scope scope(host().calls.get(), "sysfs_device", device().name);
    FailureNote failures;
    const auto text = [&](const char* file) {
      if (device().path.empty()) return std::string();
      return failures.value(read_attribute(device().path + "/" + file)).value_or("");
    };
    std::string firmware = text("fw_ver");
    std::string node_guid = text("node_guid");
    std::string image_guid = text("sys_image_guid");
    std::string protocol;
    if (device().netlink) {
      if (firmware.empty()) firmware = device().netlink->firmware;
      if (node_guid.empty()) node_guid = guid_text(device().netlink->node_guid);
      if (image_guid.empty()) image_guid = guid_text(device().netlink->sys_image_guid);
      protocol = device().netlink->protocol;
      // Of a recording whose list of devices is damaged only the names are known, from elsewhere.
      if (host().recording())
        if (const auto all = host().rdma->devices(); !all) failures.note(all.error());
    }
    const std::string hca_type = text("hca_type");
    const std::string hw_rev = text("hw_rev");
    const std::string node_type(text_after_colon(text("node_type")));
    const std::string board_id = text("board_id");
    const std::string node_desc = text("node_desc");
    const bool hide = context().settings.hide_identity;
    part->samples.add(metric::device_info,
                      {device().name, device().kernel_driver.empty() ? device().driver : device().kernel_driver,
                       device().pci_address, firmware, hca_type, hw_rev, node_type, protocol, hide ? "" : board_id,
                       hide ? "" : node_guid, hide ? "" : image_guid, hide ? "" : node_desc},
                      1);
    if (const auto node = parse_u64(device().numa_node))
      part->samples.add(metric::device_numa_node, {device().name}, *node);
    if (context().settings.compat_node_infiniband)
      part->samples.add(node_infiniband::info, {device().name, hide ? "" : board_id, firmware, hca_type}, 1);
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return failures.conclude();
  }
};

}  // namespace

std::unique_ptr<Collector> make_rdma_device_collector(const CollectorContext& context) {
  return std::make_unique<RdmaDeviceCollector>(context);
}

}  // namespace roce

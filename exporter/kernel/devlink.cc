// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/devlink.h"

#include "exporter/kernel/generic_netlink.h"

namespace roce {
namespace {

// Numbers are the kernel's ABI (include/uapi/linux/devlink.h).
constexpr std::uint8_t kHealthReporterGet = 52;
enum Attribute : std::uint16_t {
  kBusName = 1,
  kDevName = 2,
  kPortIndex = 3,
  kHealthReporter = 114,
  kHealthReporterName = 115,
  kHealthReporterState = 116,
  kHealthReporterErrorCount = 117,
  kHealthReporterRecoverCount = 118,
};

class RecordedDevlink final : public DevlinkSource {
 public:
  Result<std::vector<HealthReporter>> health_reporters(const DevlinkHandle& device) override {
    return fail(ErrorKind::kNotRecorded, "devlink health " + device.name);
  }
};

class NetlinkDevlink final : public DevlinkSource {
 public:
  NetlinkDevlink(std::shared_ptr<CallTracker> tracker, NetlinkConnect connect)
      : netlink_("devlink", 1, std::move(tracker), std::move(connect)) {}

  Result<std::vector<HealthReporter>> health_reporters(const DevlinkHandle& device) override {
    // Kernels before 6.5 pass over the handle and list the reporters of all devices.
    AttributeWriter handle;
    handle.text(kBusName, device.bus).text(kDevName, device.name);
    std::vector<HealthReporter> reporters;
    ROCE_TRY_VOID(netlink_.dump(kHealthReporterGet, handle.bytes(), "devlink_health_reporter_get", device.name,
                                [&](Bytes attributes) -> Result<void> {
                                  ROCE_TRY(auto reporter, parse_health_reporter(attributes));
                                  if (reporter.device == device) reporters.push_back(std::move(reporter));
                                  return {};
                                }));
    return reporters;
  }

 private:
  GenericNetlink netlink_;
};

}  // namespace

Result<HealthReporter> parse_health_reporter(Bytes attributes) {
  HealthReporter reporter;
  bool found = false;
  AttributeReader reader(attributes);
  for (NetlinkAttribute a; reader.next(a);) {
    if (a.type == kBusName) reporter.device.bus = a.text();
    if (a.type == kDevName) reporter.device.name = a.text();
    if (a.type == kPortIndex)
      if (const auto number = a.number()) reporter.port = static_cast<std::uint32_t>(*number);
    if (a.type != kHealthReporter) continue;
    bool state = false;
    AttributeReader inner(a.payload);
    for (NetlinkAttribute b; inner.next(b);) {
      const auto number = b.number();
      if (b.type == kHealthReporterName) reporter.name = b.text();
      if (b.type == kHealthReporterState && number) {
        state = true;
        reporter.in_error = *number != 0;
      }
      if (b.type == kHealthReporterErrorCount && number) reporter.errors = *number;
      if (b.type == kHealthReporterRecoverCount && number) reporter.recoveries = *number;
    }
    if (inner.malformed()) return fail(ErrorKind::kMalformed, "devlink health reporter");
    found = state && !reporter.name.empty();
  }
  if (reader.malformed() || !found) return fail(ErrorKind::kMalformed, "devlink health reporter");
  return reporter;
}

std::unique_ptr<DevlinkSource> open_devlink_netlink(std::shared_ptr<CallTracker> tracker, NetlinkConnect connect) {
  return std::make_unique<NetlinkDevlink>(std::move(tracker), std::move(connect));
}

std::unique_ptr<DevlinkSource> open_devlink_recording() { return std::make_unique<RecordedDevlink>(); }

}  // namespace roce

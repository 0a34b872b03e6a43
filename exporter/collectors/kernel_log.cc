// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/kernel_log.h"

#include <array>

#include "exporter/catalog/catalog.h"
#include "exporter/kernel/kernel_log.h"

namespace roce {
namespace {

class KernelLogCollector : public Collector {
 public:
  explicit KernelLogCollector(const CollectorContext& context) : Collector(context), log_(context.host->kernel_log) {}

  Result<void> collect(Output& out) override {
    if (host().kernel_log.empty()) return {};
    const CallTracker::Scope scope(host().calls.get(), "kernel_log", "");
    ROCE_TRY_VOID(log_.read([this](const KernelRecord& record) {
      if (record.facility != 0) return;
      if (const auto message_class = classify_kernel_message(record.text))
        ++counts_[static_cast<std::size_t>(*message_class)];
    }));
    auto part = std::make_shared<Part>();
    for (std::size_t i = 0; i < kMessageClasses; ++i)
      part->samples.add(metric::kernel_log_messages, {to_string(static_cast<MessageClass>(i))}, counts_[i]);
    part->samples.add(metric::kernel_log_overruns, {}, log_.overruns());
    part->read_at = Part::Clock::now();
    out.parts.push_back(std::move(part));
    return {};
  }

 private:
  KernelLog log_;
  std::array<std::uint64_t, kMessageClasses> counts_{};
};

}  // namespace

std::string_view to_string(MessageClass message_class) {
  switch (message_class) {
    case MessageClass::kMlx5Health:
      return "mlx5_health";
    case MessageClass::kAccessReg:
      return "access_reg";
    case MessageClass::kUnknownParameter:
      return "unknown_parameter";
    case MessageClass::kNvmeReconnect:
      break;
  }
  return "nvme_reconnect";
}

std::optional<MessageClass> classify_kernel_message(std::string_view text) {
  const auto has = [text](std::string_view words) { return text.find(words) != std::string_view::npos; };
  if (has("ACCESS_REG")) return MessageClass::kAccessReg;
  if (has("unknown parameter '") && has("ignored")) return MessageClass::kUnknownParameter;
  if (text.starts_with("mlx5_core") && has("health")) return MessageClass::kMlx5Health;
  if (text.starts_with("nvme") && (has("Reconnecting in") || has("starting error recovery") || has("econnect attempt")))
    return MessageClass::kNvmeReconnect;
  return std::nullopt;
}

std::unique_ptr<Collector> make_kernel_log_collector(const CollectorContext& context) {
  return std::make_unique<KernelLogCollector>(context);
}

}  // namespace roce

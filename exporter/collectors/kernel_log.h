// SPDX-License-Identifier: Apache-2.0
//
// Messages of the kernel by class. Off by default, since it opens a device node: /dev/kmsg, for which most systems ask
// for CAP_SYSLOG. Counts begin with the exporter; the text of a message goes nowhere.
#pragma once

#include <optional>
#include <string_view>

#include "exporter/collectors/collector.h"

namespace roce {

enum class MessageClass : std::uint8_t { kMlx5Health, kAccessReg, kUnknownParameter, kNvmeReconnect };
inline constexpr std::size_t kMessageClasses = 4;
std::string_view to_string(MessageClass message_class);

// The class of a message of the kernel; none for all others.
std::optional<MessageClass> classify_kernel_message(std::string_view text);

std::unique_ptr<Collector> make_kernel_log_collector(const CollectorContext& context);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Completion interrupts of every RDMA device, added up, and how they spread over CPUs. Source: one read of
// /proc/interrupts for the whole host, joined with the device's msi_irqs or by the names of the vectors.
#pragma once

#include <string_view>

#include "exporter/collectors/collector.h"

namespace roce {

// True for the name of a vector that carries completions of RDMA: not asynchronous events, commands, management, nor
// the queues of a network device that has vectors of its own.
bool is_completion_vector(std::string_view name);

std::unique_ptr<Collector> make_interrupts_collector(const CollectorContext& context);

}  // namespace roce

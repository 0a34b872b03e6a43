// SPDX-License-Identifier: Apache-2.0
//
// What this host has: RDMA devices, the subnets of their network devices, and where its NVMe-oF connections go. Reads
// sysfs and the addresses of network devices; opens no device. Thread-safe (no state).
#pragma once

#include <string>
#include <vector>

#include "probes/peers/exchange.h"
#include "probes/peers/selection.h"

namespace roce::probe {

// Names of all RDMA devices, in natural order.
std::vector<std::string> rdma_devices(const std::string& sysfs);

// Prefixes of the addresses that the network device of a port has.
std::vector<EngineSettings::Prefix> subnets_of(const std::string& sysfs, const std::string& device, unsigned port = 1);

// Far ends of NVMe-oF connections over RDMA, each once, with the device whose subnet or source address it is.
std::vector<StorageTarget> storage_targets(const std::string& sysfs, const std::vector<LocalPort>& ports);

// The devices to probe from: `configured`, else those that carry a storage connection, else all.
std::vector<std::string> choose_devices(const std::string& sysfs, const std::vector<std::string>& configured);

// Names by reverse lookup of these addresses, those that have one. Blocks on DNS.
std::vector<std::pair<std::string, std::string>> names_of(const std::vector<StorageTarget>& targets);

}  // namespace roce::probe

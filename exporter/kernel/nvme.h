// SPDX-License-Identifier: Apache-2.0
//
// NVMe controllers, subsystems and paths as sysfs shows them, and the texts of their attributes. Nothing here opens a
// block device or a controller, sends a command, or reads an attribute that makes the kernel send one. All functions
// are thread-safe and keep no state; parsers take any text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/host.h"

namespace roce {

// Attribute `address`. What is not in the text is empty.
struct NvmeAddress {
  std::string traddr;
  std::string trsvcid;
  std::string host_traddr;
  std::string host_iface;
  std::string src_addr;
  std::string pci_address;
  bool operator==(const NvmeAddress&) const = default;
};

// "traddr=192.0.2.10,trsvcid=4420", also with blanks between the parts; unknown keys are skipped. A part without "="
// is the PCI address of a local controller.
NvmeAddress parse_nvme_address(std::string_view text);

enum class NvmeState : std::uint8_t { kNew, kLive, kResetting, kConnecting, kDeleting, kDead, kUnknown };
inline constexpr std::array kNvmeStates{NvmeState::kNew,        NvmeState::kLive,     NvmeState::kResetting,
                                        NvmeState::kConnecting, NvmeState::kDeleting, NvmeState::kDead,
                                        NvmeState::kUnknown};
std::string_view to_string(NvmeState state);

// What follows the first word ("deleting (no IO)") says more of the same state.
NvmeState parse_nvme_state(std::string_view text);

// ANA state of a path as its attribute spells it, "unknown" for any other text.
std::string_view parse_ana_state(std::string_view text);

// nvme1n2 is a namespace of subsystem 1, nvme1c3n2 the path to it by controller nvme3. Without native multipath
// nvme3n2 is both, and its first number the controller's. Partitions are neither.
struct NvmeDiskName {
  std::string_view first;       // digits of the first number
  std::string_view controller;  // digits behind "c"; empty without
  std::string_view instance;    // digits behind "n"
};
std::optional<NvmeDiskName> parse_nvme_disk_name(std::string_view name);
bool is_nvme_controller_name(std::string_view name);

// Attribute `stat` of a disk: nothing when it has not at least the eleven numbers of all kernels.
struct BlockStatistics {
  struct Direction {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;  // sectors of 512 bytes, whatever the disk's are
    std::uint64_t milliseconds = 0;
  };
  Direction read;
  Direction write;
  std::uint64_t in_flight = 0;
};
std::optional<BlockStatistics> parse_block_statistics(std::string_view text);

// "off" and -1: the time never ends. Nothing for any other text.
struct NvmeTime {
  bool never = false;
  std::uint64_t seconds = 0;
};
std::optional<NvmeTime> parse_nvme_time(std::string_view text);

struct NvmePath {
  std::string disk;        // nvme1c3n2
  std::string dir;         // its directory
  std::string name_space;  // nvme1n2
};

struct NvmeController {
  std::string name;
  std::string dir;
  std::string subsystem;  // nvme-subsys1; empty: not told
  std::vector<NvmePath> paths;
  std::optional<Error> unlisted;  // its directory could not be listed: there may be more paths
};

struct NvmeNamespace {
  std::string name;  // nvme1n2
  std::string dir;
};

struct NvmeSubsystem {
  std::string name;
  std::string dir;
  std::vector<NvmeNamespace> namespaces;
};

struct NvmeTree {
  std::vector<NvmeController> controllers;
  std::vector<NvmeSubsystem> subsystems;
};

// Lists class/nvme, class/nvme-fabrics, class/nvme-subsystem and block. A host without NVMe is an empty tree; a
// directory that is there and cannot be listed is an error.
Result<NvmeTree> list_nvme(const Host& host);

}  // namespace roce

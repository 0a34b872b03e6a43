// SPDX-License-Identifier: Apache-2.0
//
// Reads of 4 KiB from one NVMe namespace at a steady rate, past the page cache: what an application waits for, over
// fabric, target and medium. One read at a time: while one is under way no other begins, however long it takes. Opens
// for reading alone, and asks the device for its size and nothing else.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exporter/base/result.h"
#include "probes/measure/latency_histogram.h"

namespace roce::probe {

struct Namespace {
  std::string name;       // of the block device: nvme0n1
  std::string device;     // /dev/nvme0n1
  std::string subsystem;  // NQN; empty where the kernel tells none
};

// Finds a namespace by the name of its block device, or by its identity (`wwid` in sysfs: uuid.…, eui.…, nvme.…), which
// stays when names change. kAbsent where there is none; anything but an NVMe namespace is never found.
Result<Namespace> find_namespace(const std::string& sysfs, const std::string& dev, std::string_view wanted);

enum class ReadFailure : std::uint8_t { kAbsent, kDenied, kIo, kOther, kCount_ };
std::string_view to_string(ReadFailure failure);

class NamespaceReader {
 public:
  struct State {
    Namespace found;  // empty name: not found yet
    HistogramSnapshot latency;
    std::uint64_t reads = 0;    // begun
    std::uint64_t skipped = 0;  // not begun since the one before was under way
    std::array<std::uint64_t, static_cast<std::size_t>(ReadFailure::kCount_)> failures{};
    // How long the read under way has taken, or opening for it; 0: none is. Nothing where the last opening failed: no
    // read is under way then, and none could be, which a 0 would call well.
    std::optional<double> in_flight_seconds = 0;
    // It was open or absent before, and what has its name now may not be opened: the fence of a service is for the
    // device that was there when the service began, and one that came back with another number is another one.
    bool shut_out = false;
  };

  using Find = Result<Namespace> (*)(const std::string& sysfs, const std::string& dev, std::string_view wanted);
  NamespaceReader(std::string wanted, std::string sysfs, std::string dev, std::chrono::nanoseconds interval,
                  Find find = find_namespace);
  // A thread that hangs in the kernel is left behind: end the process with _exit.
  ~NamespaceReader();
  NamespaceReader(const NamespaceReader&) = delete;
  NamespaceReader& operator=(const NamespaceReader&) = delete;

  void start();
  State state() const;  // thread-safe, waits for no read
  const std::string& wanted() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Whether a service has to end so that systemd begins it with the devices that are there now. Not while a read hangs:
// the process would stay until the kernel lets go of it, and the one begun in its place would stand beside it.
bool should_start_anew(const std::vector<NamespaceReader::State>& states);

}  // namespace roce::probe

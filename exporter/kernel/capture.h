// SPDX-License-Identifier: Apache-2.0
//
// Records a host for --replay: files of a fixed list, and what netlink and ioctl answer in the form of the tools'
// output; of processes that hold RDMA contexts what capture_processes.h says. What names the host, its peers or
// processes is replaced on the way (pseudonyms.h); secrets are not read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"
#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"

namespace roce {

// Where a recording goes. Paths are relative, with folders as they come.
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;
  virtual Result<void> file(const std::string& path, const std::string& text) = 0;
  virtual Result<void> link(const std::string& path, const std::string& target) = 0;
  virtual Result<void> folder(const std::string& path) = 0;
  virtual Result<void> finish() = 0;

  // A tar file where the name ends so, which is replaced when the recording is whole; else a folder, which must be
  // empty or not there yet.
  static Result<std::unique_ptr<CaptureSink>> open(const std::string& target);
};

struct CaptureReport {
  std::size_t files = 0;
  std::size_t unreadable = 0;  // files of the list that are there but gave no text
};

struct CaptureOptions {
  std::vector<std::string> host_names;  // of this host
  unsigned qp_max = 2000;               // more QPs than that are not listed
  // Whether a device, or a network device, may be touched, by its name.
  std::function<bool(std::string_view)> device_wanted;
  std::function<bool(std::string_view)> netdev_wanted;
};

// `objects`: what an inventory with the same filters found.
Result<CaptureReport> capture(const Host& host, const DeviceList& objects, const CaptureOptions& options,
                              CaptureSink& sink);

// The list, for tests and documents: patterns of paths, "*" for one part.
std::vector<std::string_view> capture_patterns();

// True for a path that looks as if it held a secret, whatever the list says.
bool looks_secret(std::string_view path);

}  // namespace roce

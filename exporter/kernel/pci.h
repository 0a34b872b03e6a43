// SPDX-License-Identifier: Apache-2.0
//
// PCI Express: the functions between a device and the processor, and what their configuration space says. Functions
// are thread-safe and keep no state. Sources: the resolved sysfs path of the device, and the file `config` of a
// function. Nothing is written, and of `config` only the bytes that are needed are read: some chips do not like to be
// read all over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

struct Host;

struct PciFunction {
  std::string address;  // 0000:3b:00.0; empty in a made tree that does not tell it
  std::string path;     // its directory
};

struct PciPath {
  std::vector<PciFunction> hops;  // the device's own function, then each port above it up to the root port
  // A virtual function or a sub-function: link, error reports and transfer settings are those of the physical function,
  // which speaks for itself.
  bool shares_function = false;
};

// `device_dir` is the directory or link `device` of a class device; `address` may be empty. kAbsent: not on PCI.
Result<PciPath> find_pci_path(const Host& host, const std::string& device_dir, const std::string& address);

// Settings of the PCI Express capability. A size that the encoding reserves is absent.
struct PciSettings {
  std::optional<std::uint32_t> max_payload;       // bytes
  std::optional<std::uint32_t> max_read_request;  // bytes
  bool relaxed_ordering = false;
};

struct PciConfig {
  bool lost = false;  // all ones: nothing answers on the bus
  // kDenied: the kernel gives 64 bytes only, the rest needs CAP_SYS_ADMIN. kUnsupported: no PCI Express capability, or
  // a virtual function, whose own registers say nothing.
  Result<PciSettings> settings = fail(ErrorKind::kUnsupported, "");
};

// Fills `out` from `offset` on and gives how many bytes there were.
using ReadConfig = std::function<Result<std::size_t>(std::size_t offset, std::span<std::uint8_t> out)>;

// Any bytes may come back; a chain of capabilities without end is kMalformed.
Result<PciConfig> parse_pci_config(const ReadConfig& read, const std::string& object);

// The `config` files of functions, opened while the process may read all of them. The kernel goes by the permission of
// whoever opened a file, so they stay readable once it is given up. Filled by one thread, then read-only.
class PciConfigFiles {
 public:
  PciConfigFiles() = default;
  ~PciConfigFiles();
  PciConfigFiles(const PciConfigFiles&) = delete;
  PciConfigFiles& operator=(const PciConfigFiles&) = delete;

  // What cannot be opened is passed over.
  void add(const PciFunction& function);
  // File descriptor of the function in that directory; -1: none.
  int find(const std::string& function_path) const;
  std::size_t size() const { return files_.size(); }

 private:
  std::map<std::string, int, std::less<>> files_;
};

// The same for the file `config` in the function's directory, by `opened` (may be null) where it holds that. A device
// that was plugged in anew is opened by its path.
Result<PciConfig> read_pci_config(const std::string& function_path, const PciConfigFiles* opened);

// What a recording needs of the file `config` of that function, so that read_pci_config() says of it the same: the
// bytes that it reads, 0 between them and in the addresses of memory. As long as the file is for this process: 64 bytes
// where the rest is denied.
Result<std::string> pci_config_excerpt(const std::string& function_path);

// "16.0 GT/s PCIe" and "8 GT/s" to transfers per second of one lane; nothing for "Unknown" and other texts.
std::optional<std::uint64_t> parse_link_speed(std::string_view text);

// Bytes that one lane carries a second: the transfers less the line code (8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s,
// none above), before any packet header.
double lane_bytes_per_second(std::uint64_t transfers);

}  // namespace roce

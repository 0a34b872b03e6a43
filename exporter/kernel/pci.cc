// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/pci.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/denied_link.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"

namespace roce {
namespace {

constexpr std::size_t kHeaderSize = 64;
constexpr std::uint8_t kPcieCapability = 0x10;
constexpr int kMaxCapabilities = 48;  // as many as fit between the header and byte 256

std::string_view last_component(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? std::string() : path.substr(0, slash);
}

bool is_address(std::string_view name) { return pci_address_in(name) == name && !name.empty(); }

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) | static_cast<std::uint32_t>(bytes[at + 1]) << 8U;
}

std::optional<std::uint32_t> decode_size(std::uint32_t code) {
  if (code > 5) return std::nullopt;
  return 128U << code;
}

Result<PciSettings> parse_capability(const ReadConfig& read, std::size_t at, const std::string& object) {
  std::array<std::uint8_t, 16> bytes{};
  ROCE_TRY(const std::size_t size, read(at, bytes));
  if (size < bytes.size()) return fail(ErrorKind::kMalformed, object);
  const std::uint32_t type = word(bytes, 2) >> 4U & 0xfU;
  const std::uint32_t control = word(bytes, 8);
  const std::uint32_t max_width = word(bytes, 12) >> 4U & 0x3fU;
  // An endpoint without a link of its own is a virtual function.
  if (type <= 1 && max_width == 0) return fail(ErrorKind::kUnsupported, object);
  PciSettings settings;
  settings.max_payload = decode_size(control >> 5U & 7U);
  settings.max_read_request = decode_size(control >> 12U & 7U);
  settings.relaxed_ordering = (control >> 4U & 1U) != 0;
  return settings;
}

Result<PciSettings> find_capability(const ReadConfig& read, std::span<const std::uint8_t> header,
                                    const std::string& object) {
  if ((header[6] & 0x10U) == 0) return fail(ErrorKind::kUnsupported, object);
  std::size_t at = header[0x34] & 0xfcU;
  for (int i = 0; i < kMaxCapabilities && at >= kHeaderSize; ++i) {
    std::array<std::uint8_t, 2> entry{};
    ROCE_TRY(const std::size_t size, read(at, entry));
    if (size < entry.size()) {
      if (at == (header[0x34] & 0xfcU)) return fail(ErrorKind::kDenied, object);
      return fail(ErrorKind::kMalformed, object);
    }
    if (entry[0] == 0xff) return fail(ErrorKind::kMalformed, object);
    if (entry[0] == kPcieCapability) return parse_capability(read, at, object);
    at = entry[1] & 0xfcU;
  }
  return fail(at >= kHeaderSize ? ErrorKind::kMalformed : ErrorKind::kUnsupported, object);
}

int open_config(const std::string& path) { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); }

ReadConfig reader_of(int fd, const std::string& path) {
  return [fd, path](std::size_t offset, std::span<std::uint8_t> out) -> Result<std::size_t> {
    std::size_t used = 0;
    while (used < out.size()) {
      const ssize_t n = pread(fd, out.data() + used, out.size() - used, static_cast<off_t>(offset + used));
      if (n == 0) break;
      if (n < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, path);
      }
      used += static_cast<std::size_t>(n);
    }
    return used;
  };
}

}  // namespace

Result<PciPath> find_pci_path(const Host& host, const std::string& device_dir, const std::string& address) {
  PciPath path;
  std::string dir;
  if (auto real = resolve(device_dir)) {
    dir = std::move(*real);
    // A device on an auxiliary bus sits below its function; the sub-functions of mlx5 share that function.
    for (std::string above = dir; !above.empty(); above = parent_of(above)) {
      if (!is_address(last_component(above))) continue;
      path.shares_function = last_component(dir).starts_with("mlx5_core.sf.");
      dir = above;
      break;
    }
  } else if (real.error().kind != ErrorKind::kAbsent) {
    return tl::unexpected(real.error());
  }
  if (!is_address(last_component(dir)) && !address.empty())
    if (auto real = resolve(host.sysfs + "/bus/pci/devices/" + address)) dir = std::move(*real);
  if (dir.empty()) return fail(ErrorKind::kAbsent, device_dir);
  if (!is_address(last_component(dir))) {
    // A made tree may hold the files of the function without saying where it sits.
    if (!exists(dir + "/current_link_width") && !exists(dir + "/config")) return fail(ErrorKind::kAbsent, dir);
    path.hops.push_back({address, dir});
    return path;
  }
  path.shares_function = path.shares_function || exists(dir + "/physfn");
  for (std::string above = dir; is_address(last_component(above)); above = parent_of(above))
    path.hops.push_back({std::string(last_component(above)), above});
  return path;
}

Result<PciConfig> parse_pci_config(const ReadConfig& read, const std::string& object) {
  std::array<std::uint8_t, kHeaderSize> header{};
  ROCE_TRY(const std::size_t size, read(0, header));
  if (size == 0) return fail(ErrorKind::kUnsupported, object);
  PciConfig config;
  const std::span<const std::uint8_t> bytes(header.data(), size);
  if (size >= 4 && std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0xff; })) {
    config.lost = true;
    config.settings = fail(ErrorKind::kIo, object);
    return config;
  }
  if (size < kHeaderSize) return fail(ErrorKind::kMalformed, object);
  config.settings = find_capability(read, bytes, object);
  return config;
}

PciConfigFiles::~PciConfigFiles() {
  for (const auto& [path, fd] : files_) close(fd);
}

void PciConfigFiles::add(const PciFunction& function) {
  if (files_.contains(function.path)) return;
  if (const int fd = open_config(function.path + "/config"); fd >= 0) files_.emplace(function.path, fd);
}

int PciConfigFiles::find(const std::string& function_path) const {
  const auto at = files_.find(function_path);
  return at == files_.end() ? -1 : at->second;
}

Result<PciConfig> read_pci_config(const std::string& function_path, const PciConfigFiles* opened) {
  const std::string path = function_path + "/config";
  if (const int kept = opened != nullptr ? opened->find(function_path) : -1; kept >= 0)
    if (auto config = parse_pci_config(reader_of(kept, path), path); config || config.error().err != ENODEV)
      return config;
  const int fd = open_config(path);
  if (fd < 0) return fail_errno(errno_of_open(path), path);
  auto config = parse_pci_config(reader_of(fd, path), path);
  close(fd);
  return config;
}

Result<std::string> pci_config_excerpt(const std::string& function_path) {
  constexpr std::array<std::pair<std::size_t, std::size_t>, 2> kMemory{{{0x10, 0x2c}, {0x30, 0x34}}};  // from, to
  const std::string path = function_path + "/config";
  const int fd = open_config(path);
  if (fd < 0) return fail_errno(errno_of_open(path), path);
  std::string excerpt;
  const ReadConfig read = reader_of(fd, path);
  const auto config = parse_pci_config(
      [&](std::size_t offset, std::span<std::uint8_t> out) {
        auto size = read(offset, out);
        if (!size || *size == 0) return size;
        excerpt.resize(std::max(excerpt.size(), offset + *size));
        std::copy_n(out.begin(), *size, excerpt.begin() + static_cast<std::ptrdiff_t>(offset));
        return size;
      },
      path);
  close(fd);
  if (!config) return tl::unexpected(config.error());
  if (!config->lost)
    for (const auto& [from, to] : kMemory)
      std::fill_n(excerpt.begin() + static_cast<std::ptrdiff_t>(from), to - from, '\0');
  return excerpt;
}

std::optional<std::uint64_t> parse_link_speed(std::string_view text) {
  text = trim(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!unit.starts_with("GT/s") || !std::isfinite(value) || value <= 0 || value > 10000) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(value * 1e9));
}

double lane_bytes_per_second(std::uint64_t transfers) {
  const auto bits = static_cast<double>(transfers);
  if (transfers <= 5'000'000'000) return bits * 0.8 / 8;
  if (transfers <= 32'000'000'000) return bits * 128 / 130 / 8;
  return bits / 8;
}

}  // namespace roce

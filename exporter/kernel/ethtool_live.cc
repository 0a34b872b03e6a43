// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/ethtool_live.h"

#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "exporter/kernel/ethtool_messages.h"
#include "exporter/kernel/generic_netlink.h"

namespace roce {
namespace {

using namespace ethtool_abi;

constexpr int kAttempts = 4;
constexpr std::uint32_t kMaxStatistics = 1U << 16;

// Memory that a page nobody may touch follows. The kernel sizes its answer by the number of statistics at that moment
// and older ones write all of them, however small the buffer: what does not fit then fails with EFAULT and destroys
// nothing.
class GuardedBuffer {
 public:
  static Result<GuardedBuffer> make(std::size_t size, const std::string& what) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (size + page - 1) / page * page;
    void* memory = mmap(nullptr, used + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail_errno(errno, what);
    GuardedBuffer buffer(memory, used + page);
    if (mprotect(memory, used, PROT_READ | PROT_WRITE) != 0) return fail_errno(errno, what);
    return buffer;
  }
  ~GuardedBuffer() {
    if (memory_ != nullptr) munmap(memory_, mapped_);
  }
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), mapped_(other.mapped_) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  void* data() const { return memory_; }

 private:
  GuardedBuffer(void* memory, std::size_t mapped) : memory_(memory), mapped_(mapped) {}
  void* memory_;
  std::size_t mapped_;
};

int kernel_ioctl(const std::string& netdev, void* data) {
  if (netdev.empty() || netdev.size() >= IFNAMSIZ) return ENODEV;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  ifreq request{};
  std::memcpy(request.ifr_name, netdev.data(), netdev.size());
  request.ifr_data = static_cast<char*>(data);
  const int err = ioctl(fd, SIOCETHTOOL, &request) == 0 ? 0 : errno;
  close(fd);
  return err;
}

std::string_view text_of(const char* text, std::size_t size) { return {text, strnlen(text, size)}; }

class LiveEthtool final : public EthtoolSource {
 public:
  LiveEthtool(std::shared_ptr<CallTracker> tracker, EthtoolIoctl call, NetlinkConnect connect)
      : tracker_(std::move(tracker)),
        call_(call ? std::move(call) : EthtoolIoctl(&kernel_ioctl)),
        netlink_(std::string(kFamily), 1, tracker_, std::move(connect)) {}

  Result<std::vector<NamedValue>> statistics(const std::string& netdev) override {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      ROCE_TRY(const std::uint32_t count, statistics_count(netdev));
      if (count == 0) return fail(ErrorKind::kUnsupported, netdev + ": no statistics");
      if (count > kMaxStatistics) return fail(ErrorKind::kMalformed, netdev + ": " + std::to_string(count) + " names");
      ROCE_TRY(auto before, names(netdev, count));
      ROCE_TRY(const auto numbers, values(netdev, count));
      // The list changes when PFC is switched, with the number of queues, or with the link. It can do so and keep its
      // length, so that equal names before and after tell which name a value has.
      ROCE_TRY(const auto after, names(netdev, count));
      if (before.empty() || numbers.empty() || before != after) continue;
      std::vector<NamedValue> all;
      all.reserve(count);
      for (std::size_t i = 0; i < before.size(); ++i)
        if (!after[i].empty()) all.push_back({std::move(before[i]), numbers[i]});
      return all;
    }
    return fail(ErrorKind::kBusy, netdev + ": the list of statistics changes");
  }

  Result<std::string> driver(const std::string& netdev) override {
    ethtool_drvinfo info{};
    info.cmd = ETHTOOL_GDRVINFO;
    ROCE_TRY_VOID(call("ethtool_drvinfo", netdev, &info));
    return std::string(text_of(info.driver, sizeof info.driver));
  }

  Result<EthtoolLink> link(const std::string& netdev, bool statistics) override {
    const std::string_view name = "ethtool_linkstate_get";
    ROCE_TRY(const auto answer, statistics
                                    ? ask(kLinkstateGet, kHeader, {}, name, netdev)
                                    : netlink_.ask(kLinkstateGet, request(kHeader, {}, netdev, false), name, netdev));
    return named(parse_ethtool_link(answer), netdev);
  }
  Result<EthtoolPause> pause(const std::string& netdev) override {
    ROCE_TRY(const auto answer, ask(kPauseGet, kHeader, {}, "ethtool_pause_get", netdev));
    return named(parse_ethtool_pause(answer), netdev);
  }
  Result<EthtoolFec> fec(const std::string& netdev) override {
    ROCE_TRY(const auto answer, ask(kFecGet, kHeader, {}, "ethtool_fec_get", netdev));
    return named(parse_ethtool_fec(answer), netdev);
  }
  Result<std::vector<NamedValue>> standard_statistics(const std::string& netdev) override {
    const std::uint32_t groups = 1U << kEthPhy | 1U << kEthMac | 1U << kEthCtrl | 1U << kRmon;
    AttributeWriter more;
    more.nest(kStatsGroups, AttributeWriter()
                                .flag(kBitsetNoMask)
                                .u32(kBitsetSize, 4)
                                .raw(kBitsetValue, std::as_bytes(std::span(&groups, 1))));
    ROCE_TRY(const auto answer, ask(kStatsGet, kStatsHeader, more, "ethtool_stats_get", netdev));
    return named(parse_ethtool_standard_statistics(answer), netdev);
  }

 private:
  template <class T>
  static Result<T> named(Result<T> result, const std::string& netdev) {
    if (!result) result.error().object = netdev + ": " + result.error().object;
    return result;
  }

  Result<void> call(std::string_view name, const std::string& netdev, void* data) const {
    const CallTracker::Scope scope(tracker_.get(), name, netdev);
    if (const int err = call_(netdev, data); err != 0) return fail_errno(err, std::string(name) + " " + netdev);
    return {};
  }

  Result<std::uint32_t> statistics_count(const std::string& netdev) const {
    alignas(ethtool_sset_info) std::array<std::byte, sizeof(ethtool_sset_info) + sizeof(std::uint32_t)> memory{};
    ethtool_sset_info info{};
    info.cmd = ETHTOOL_GSSET_INFO;
    info.sset_mask = std::uint64_t{1} << ETH_SS_STATS;
    std::memcpy(memory.data(), &info, sizeof info);
    ROCE_TRY_VOID(call("ethtool_sset_info", netdev, memory.data()));
    std::memcpy(&info, memory.data(), sizeof info);
    std::uint32_t count = 0;
    if (info.sset_mask != 0) std::memcpy(&count, memory.data() + offsetof(ethtool_sset_info, data), sizeof count);
    return count;
  }

  // Empty when there are not `count` of them now.
  Result<std::vector<std::string>> names(const std::string& netdev, std::uint32_t count) const {
    ROCE_TRY(const auto buffer, GuardedBuffer::make(sizeof(ethtool_gstrings) + std::size_t{count} * ETH_GSTRING_LEN,
                                                    "ethtool_strings " + netdev));
    ethtool_gstrings header{};
    header.cmd = ETHTOOL_GSTRINGS;
    header.string_set = ETH_SS_STATS;
    header.len = count;
    std::memcpy(buffer.data(), &header, sizeof header);
    if (const auto done = call("ethtool_strings", netdev, buffer.data()); !done) {
      if (done.error().err == EFAULT) return std::vector<std::string>{};
      return tl::unexpected(done.error());
    }
    std::memcpy(&header, buffer.data(), sizeof header);
    if (header.len != count) return std::vector<std::string>{};
    std::vector<std::string> all(count);
    const char* text = static_cast<const char*>(buffer.data()) + sizeof header;
    for (std::size_t i = 0; i < count; ++i) all[i] = text_of(text + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
    return all;
  }

  Result<std::vector<std::uint64_t>> values(const std::string& netdev, std::uint32_t count) const {
    ROCE_TRY(const auto buffer, GuardedBuffer::make(sizeof(ethtool_stats) + std::size_t{count} * sizeof(std::uint64_t),
                                                    "ethtool_stats " + netdev));
    ethtool_stats header{};
    header.cmd = ETHTOOL_GSTATS;
    header.n_stats = count;
    std::memcpy(buffer.data(), &header, sizeof header);
    if (const auto done = call("ethtool_stats", netdev, buffer.data()); !done) {
      if (done.error().err == EFAULT) return std::vector<std::uint64_t>{};
      return tl::unexpected(done.error());
    }
    std::memcpy(&header, buffer.data(), sizeof header);
    if (header.n_stats != count) return std::vector<std::uint64_t>{};
    std::vector<std::uint64_t> all(count);
    std::memcpy(all.data(), static_cast<const std::byte*>(buffer.data()) + sizeof header, count * sizeof all[0]);
    return all;
  }

  // Statistics come only when asked for. Kernels that have none for a request refuse the flag itself with EINVAL: asked
  // again without it, and without it from then on.
  Result<std::vector<std::byte>> ask(std::uint8_t command, std::uint16_t header, const AttributeWriter& more,
                                     std::string_view name, const std::string& netdev) {
    std::atomic<bool>& plain = plain_[command];
    const bool with_statistics = !plain.load(std::memory_order_relaxed);
    auto answer = netlink_.ask(command, request(header, more, netdev, with_statistics), name, netdev);
    if (answer || answer.error().err != EINVAL || !with_statistics) return answer;
    auto again = netlink_.ask(command, request(header, more, netdev, false), name, netdev);
    if (again) plain.store(true, std::memory_order_relaxed);
    return again;
  }

  static std::vector<std::byte> request(std::uint16_t header, const AttributeWriter& more, const std::string& netdev,
                                        bool with_statistics) {
    AttributeWriter device;
    device.text(kHeaderDevName, netdev);
    if (with_statistics) device.u32(kHeaderFlags, kFlagStats);
    AttributeWriter all;
    all.nest(header, device);
    std::vector<std::byte> bytes(all.bytes().begin(), all.bytes().end());
    bytes.insert(bytes.end(), more.bytes().begin(), more.bytes().end());
    return bytes;
  }

  const std::shared_ptr<CallTracker> tracker_;
  const EthtoolIoctl call_;
  GenericNetlink netlink_;
  std::array<std::atomic<bool>, 256> plain_{};  // by command
};

}  // namespace

std::unique_ptr<EthtoolSource> open_ethtool(std::shared_ptr<CallTracker> tracker, EthtoolIoctl call,
                                            NetlinkConnect connect) {
  return std::make_unique<LiveEthtool>(std::move(tracker), std::move(call), std::move(connect));
}

}  // namespace roce

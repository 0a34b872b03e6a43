// SPDX-License-Identifier: Apache-2.0
//
// Answers of a hostile kernel. The first byte chooses the request; the rest are its datagrams, each after a byte for
// its length in units of four bytes (0: the rest of the input). Sequence numbers are made to match, so that the
// messages are looked into. The same bytes also go to the attribute parsers directly. Whatever comes in, a call ends
// with a value or an error, and names are never empty.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "exporter/kernel/rdma_messages.h"
#include "exporter/kernel/rdma_netlink.h"
#include "tests/fuzz/require.h"

namespace {

using roce::Bytes;
using roce::Result;

class Channel final : public roce::NetlinkChannel {
 public:
  explicit Channel(Bytes script) : script_(script) {}

  Result<void> send(std::span<const std::byte> message) override {
    std::memcpy(&sequence_, message.data() + 8, sizeof sequence_);
    return {};
  }

  Result<std::size_t> receive(std::span<std::byte> buffer) override {
    if (script_.empty()) return roce::fail_errno(EAGAIN, "script");
    std::size_t size = std::to_integer<std::size_t>(script_[0]) * 4;
    script_ = script_.subspan(1);
    if (size == 0) size = script_.size();
    size = std::min({size, script_.size(), buffer.size()});
    std::copy_n(script_.begin(), size, buffer.begin());
    script_ = script_.subspan(size);
    for (std::size_t at = 0; at + 16 <= size;) {
      std::uint32_t length = 0;
      std::memcpy(&length, buffer.data() + at, sizeof length);
      std::memcpy(buffer.data() + at + 8, &sequence_, sizeof sequence_);
      at += std::max<std::size_t>((std::size_t{length} + 3) & ~std::size_t{3}, 16);
    }
    return size;
  }

 private:
  Bytes script_;
  std::uint32_t sequence_ = 0;
};

// A tree that says that the RDMA core is loaded.
class Tree {
 public:
  Tree() {
    std::string path = (std::filesystem::temp_directory_path() / "roce-fuzz-XXXXXX").string();
    require(mkdtemp(path.data()) != nullptr);
    path_ = path;
    std::filesystem::create_directories(path_ / "class/infiniband");
    std::filesystem::create_directories(path_ / "module/ib_core");
  }
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

template <class List>
void require_names(const List& list) {
  if (!list) return;
  for (const auto& entry : *list) require(!entry.name.empty() && entry.name.find('\0') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Tree tree;
  const Bytes input = std::as_bytes(std::span(data, size)).subspan(1);

  require_names(roce::parse_rdma_counters(input));
  require_names(roce::parse_rdma_counter_status(input));
  require_names(roce::parse_rdma_resources(input));
  (void)roce::parse_rdma_qp_counter_sets(input);
  (void)roce::parse_rdma_qps(input);
  (void)roce::parse_rdma_cm_ids(input);
  (void)roce::parse_rdma_cqs(input);
  (void)roce::parse_rdma_mrs(input);
  (void)roce::parse_rdma_contexts(input);
  (void)roce::parse_rdma_mr_statistics(input);
  (void)roce::parse_rdma_device(input);
  (void)roce::parse_rdma_port(input);
  (void)roce::parse_rdma_netns_mode(input);

  // A retry hears the same again.
  const auto rdma = roce::open_rdma_netlink(
      tree.path(), nullptr,
      [&]() -> Result<std::unique_ptr<roce::NetlinkChannel>> { return std::make_unique<Channel>(input); });
  roce::RdmaDevice device;
  device.name = "fuzz0";
  switch (data[0] % 7) {
    case 0:
      require_names(rdma->devices());
      break;
    case 1:
      (void)rdma->ports(device);
      break;
    case 2:
      require_names(rdma->port_counters(device, 1));
      break;
    case 3:
      require_names(rdma->counter_status(device, 1));
      break;
    case 4:
      require_names(rdma->resources(device));
      break;
    case 5:
      (void)rdma->qp_counter_sets(device);
      break;
    default:
      (void)rdma->netns_mode();
      break;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Texts of NFS mounts and of GPUDirect Storage. Whatever comes in, what is taken is a part of the text, and what is
// written out again reads the same.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "exporter/kernel/nfs_mountstats.h"
#include "exporter/kernel/nvidia_fs.h"
#include "tests/fuzz/require.h"

namespace {

bool same(const roce::NfsOperation& a, const roce::NfsOperation& b) {
  return a.name == b.name && a.requests == b.requests && a.transmissions == b.transmissions &&
         a.timeouts == b.timeouts && a.bytes_sent == b.bytes_sent && a.bytes_received == b.bytes_received &&
         a.queue_ms == b.queue_ms && a.round_trip_ms == b.round_trip_ms && a.execute_ms == b.execute_ms &&
         a.errors == b.errors;
}

std::string as_text(const roce::NfsOperation& o) {
  std::string text = o.name + ":";
  for (std::uint64_t number : {o.requests, o.transmissions, o.timeouts, o.bytes_sent, o.bytes_received, o.queue_ms,
                               o.round_trip_ms, o.execute_ms})
    text += ' ' + std::to_string(number);
  if (o.errors) text += ' ' + std::to_string(*o.errors);
  return text + '\n';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const roce::NfsMount& mount : roce::parse_mountstats(text)) {
    require(mount.type == "nfs" || mount.type == "nfs4");
    require(mount.server().size() <= mount.source.size() && mount.exported().size() <= mount.source.size());
    require(mount.option("proto").size() <= mount.options.size());
    (void)mount.over_rdma();
    for (const roce::NfsTransport& transport : mount.transports) require(!transport.protocol.empty());
  }
  for (const roce::NfsOperation& operation : roce::parse_nfs_operations(text)) {
    require(!operation.name.empty());
    const auto again = roce::parse_nfs_operations(as_text(operation));
    require(again.size() == 1 && same(again.front(), operation));
  }
  std::set<std::pair<std::string, std::string>> seen;
  for (const roce::NvidiaFsValue& value : roce::parse_nvidia_fs_statistics(text).values) {
    require(!value.counter.empty());
    require(seen.emplace(value.counter, value.gpu).second);
  }
  return 0;
}

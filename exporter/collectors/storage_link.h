// SPDX-License-Identifier: Apache-2.0
//
// From the two ends of a storage connection to the RDMA port that carries it: address -> route -> network device ->
// RDMA port. Used by the collectors of storage users; not thread-safe, each collector has its own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "exporter/kernel/host.h"
#include "exporter/kernel/inventory.h"
#include "exporter/kernel/route.h"

namespace roce {

struct StorageConnection {
  std::string target;     // address of the far end
  std::string source;     // address of this end, empty when the connection does not name one
  std::string interface;  // network device that the connection names, else empty
  auto operator<=>(const StorageConnection&) const = default;
};

struct StorageLink {
  std::string device;  // RDMA device, empty when the network device has none
  std::string port;
  std::string netdev;
  std::string_view found_by;  // interface, source_address, route
};

class StorageLinkFinder {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StorageLinkFinder(const Host& host);

  // Nothing when neither the connection nor a route tells a network device. On a live host the answer of the kernel is
  // kept for a minute; `anew` asks again, for a connection that has just changed.
  std::optional<StorageLink> find(const StorageConnection& connection, const DeviceList& devices, bool anew);

  // Forgets connections that were not asked for since the last call.
  void prune();

 private:
  struct Answer {
    std::string netdev;  // empty: none
    std::string_view found_by;
    Clock::time_point asked;
    bool used = true;
  };

  Answer ask(const StorageConnection& connection) const;
  bool attach(StorageLink& link, const std::string& netdev, const DeviceList& devices, int depth) const;

  const Host& host_;
  std::shared_ptr<RouteSource> tables_;
  std::map<StorageConnection, Answer> answers_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Listen addresses: what ":14791" or "[::1]:14791" means, and whether it can be had. Thread-safe (no state).
#pragma once

#include <netinet/in.h>

#include <string>
#include <string_view>
#include <vector>

#include "exporter/base/result.h"

namespace roce::web {

struct ListenAddress {
  std::string text;  // as the user wrote it
  union {
    sockaddr_in6 v6;  // the largest first: that is the one which {} clears
    sockaddr_in v4;
    sockaddr any;
  } address{};
  bool dual_stack = false;  // an IPv6 socket that takes IPv4 clients too

  int port() const;
  void set_port(int port);
  socklen_t size() const;
  std::string numeric() const;  // "127.0.0.1:14791", "[::1]:14791"
  // Where a client on this host reaches it; any address becomes the loopback one.
  std::string url(std::string_view scheme) const;
};

// Parses and resolves. An empty host, "*" and "[::]" mean every address: both families where the host has IPv6, else
// IPv4 alone. Of a name's addresses the first IPv4 one counts, as in other exporters.
Result<ListenAddress> resolve_listen_address(std::string_view text);

// Binds all of them once, at the same time, and lets go of them: names the first that cannot be had and its errno.
Result<void> probe(const std::vector<ListenAddress>& addresses);

// Makes the process's listening sockets on these addresses refuse clients from now on. Their descriptors stay taken,
// by an object that never becomes readable, so that a server that polls them neither spins nor closes another's file.
void refuse_clients(const std::vector<ListenAddress>& addresses);

}  // namespace roce::web

// SPDX-License-Identifier: Apache-2.0
//
// Keeps the list of peers up to date: static entries, discovery files, DNS, storage connections and the hour. One
// thread, which may block on DNS; probing never waits for it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "probes/config/options.h"
#include "probes/peers/exchange.h"
#include "probes/peers/selection.h"

namespace roce::probe {

// Files that a pattern with at most one `*`, in its last part, stands for; sorted.
std::vector<std::string> expand(const std::string& pattern);

// Entries behind a DNS name. An answer without records is an error: a fleet does not vanish at once.
Result<std::vector<PeerEntry>> resolve(const DnsSource& source);

struct DiscoveryState {
  std::size_t from_static = 0, from_files = 0, from_dns = 0;  // entries
  std::uint64_t file_failures = 0, dns_failures = 0;
  std::size_t refused = 0;    // peers over the limit
  std::size_t endpoints = 0;  // on the rails of this node
  std::vector<Peer> peers;    // as last chosen
};

class Discovery {
 public:
  // `apply` is called on the discovery's thread with each list of peers that differs from the one before, the first
  // one soon after the start.
  Discovery(std::string self, std::string sysfs, const HttpsSource& source,
            std::function<void(const std::vector<Peer>&)> apply);
  ~Discovery();
  Discovery(const Discovery&) = delete;
  Discovery& operator=(const Discovery&) = delete;

  // What to look for from now on. Entries that sources gave before stay until those are read again.
  void configure(const Options& options, std::vector<LocalDevice> devices, std::vector<LocalPort> ports);
  DiscoveryState state() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Source {
    std::vector<PeerEntry> entries;
    std::string seen;  // of a file: size and times
    Clock::time_point due{};
  };
  void run();
  void look(Clock::time_point now);
  void look_at_files(const Options& options, Clock::time_point now);
  void look_at_dns(const Options& options, Clock::time_point now);

  const std::string self_;
  const std::string sysfs_;
  const HttpsSource& source_;
  const std::function<void(const std::vector<Peer>&)> apply_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool fresh_ = false;
  Options options_;
  std::vector<LocalDevice> devices_;
  std::vector<LocalPort> ports_;
  DiscoveryState state_;

  // Of the thread alone.
  std::map<std::string, Source> files_;
  std::map<std::string, Source> names_;
  std::vector<StorageTarget> storage_;
  std::vector<std::pair<std::string, std::string>> storage_names_;
  bool applied_ = false;
  std::thread thread_;
};

}  // namespace roce::probe

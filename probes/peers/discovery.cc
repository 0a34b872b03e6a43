// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/discovery.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "exporter/base/log.h"
#include "exporter/kernel/files.h"
#include "probes/peers/local.h"

namespace roce::probe {
namespace {

constexpr std::chrono::seconds kLook{5};
constexpr std::size_t kMostFiles = 256;
constexpr std::size_t kMostFileBytes = std::size_t{8} << 20U;

struct AddrinfoDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

PeerEntry entry_of(std::string host, std::uint16_t port) {
  while (host.size() > 1 && host.back() == '.') host.pop_back();
  PeerEntry entry;
  entry.url = Target{host, port}.url();
  entry.node = std::move(host);
  return entry;
}

Result<std::vector<PeerEntry>> resolve_addresses(const DnsSource& source) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(source.name.c_str(), nullptr, &hints, &list); code != 0)
    return fail(ErrorKind::kAbsent, source.name + ": " + gai_strerror(code));
  const std::unique_ptr<addrinfo, AddrinfoDeleter> owner(list);
  std::vector<PeerEntry> entries;
  for (const addrinfo* entry = list; entry != nullptr && entries.size() < kMostEntries; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      entries.push_back(entry_of(text, source.port));
  }
  return entries;
}

Result<std::vector<PeerEntry>> resolve_services(const DnsSource& source) {
  std::vector<unsigned char> answer(65536);
  struct __res_state state{};
  if (res_ninit(&state) != 0) return fail(ErrorKind::kIo, source.name + ": no resolver");
  state.retrans = 2;
  state.retry = 2;
  const int length =
      res_nquery(&state, source.name.c_str(), ns_c_in, ns_t_srv, answer.data(), static_cast<int>(answer.size()));
  res_nclose(&state);
  if (length < 0) return fail(ErrorKind::kAbsent, source.name + ": no SRV records");
  ns_msg message;
  if (ns_initparse(answer.data(), length, &message) != 0)
    return fail(ErrorKind::kMalformed, source.name + ": an answer that cannot be read");
  std::vector<PeerEntry> entries;
  for (int i = 0; i < ns_msg_count(message, ns_s_an) && entries.size() < kMostEntries; ++i) {
    ns_rr record;
    if (ns_parserr(&message, ns_s_an, i, &record) != 0 || ns_rr_type(record) != ns_t_srv || ns_rr_rdlen(record) < 7)
      continue;
    const unsigned char* data = ns_rr_rdata(record);
    char host[NS_MAXDNAME];
    if (ns_name_uncompress(ns_msg_base(message), ns_msg_end(message), data + 6, host, sizeof host) < 0) continue;
    entries.push_back(entry_of(host, static_cast<std::uint16_t>(ns_get16(data + 4))));
  }
  return entries;
}

}  // namespace

std::vector<std::string> expand(const std::string& pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return {pattern};
  const std::size_t slash = pattern.find_last_of('/');
  const std::string directory = slash == std::string::npos ? "." : pattern.substr(0, slash);
  const std::string last = pattern.substr(slash == std::string::npos ? 0 : slash + 1);
  const std::string before = last.substr(0, last.find('*'));
  const std::string behind = last.substr(last.find('*') + 1);
  std::vector<std::string> files;
  for (const std::string& name : list_directory(directory).value_or(std::vector<std::string>{}))
    if (name.size() >= before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind) &&
        name[0] != '.' && files.size() < kMostFiles)
      files.push_back(slash == std::string::npos ? name : directory + "/" + name);
  return files;
}

Result<std::vector<PeerEntry>> resolve(const DnsSource& source) {
  auto entries = source.type == DnsSource::Type::kA ? resolve_addresses(source) : resolve_services(source);
  if (entries && entries->empty()) return fail(ErrorKind::kAbsent, source.name + ": no records");
  return entries;
}

Discovery::Discovery(std::string self, std::string sysfs, const HttpsSource& source,
                     std::function<void(const std::vector<Peer>&)> apply)
    : self_(std::move(self)), sysfs_(std::move(sysfs)), source_(source), apply_(std::move(apply)), thread_([this] {
        run();
      }) {}

Discovery::~Discovery() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Discovery::configure(const Options& options, std::vector<LocalDevice> devices, std::vector<LocalPort> ports) {
  {
    const std::lock_guard lock(mutex_);
    options_ = options;
    devices_ = std::move(devices);
    ports_ = std::move(ports);
    fresh_ = true;
  }
  changed_.notify_all();
}

DiscoveryState Discovery::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Discovery::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!fresh_ && !applied_) {
      changed_.wait(lock, [this] { return fresh_ || stopping_; });
      continue;
    }
    fresh_ = false;
    lock.unlock();
    try {
      look(Clock::now());
    } catch (const std::exception& error) {
      log::error("the list of peers could not be made", {{"err", error.what()}});
    }
    lock.lock();
    changed_.wait_for(lock, kLook, [this] { return fresh_ || stopping_; });
  }
}

void Discovery::look_at_files(const Options& options, Clock::time_point now) {
  std::set<std::string> there;
  for (const std::string& pattern : options.file_sd)
    for (const std::string& file : expand(pattern)) there.insert(file);
  std::erase_if(files_, [&](const auto& entry) { return !there.contains(entry.first); });
  for (const std::string& file : there) {
    Source& source = files_[file];
    struct stat info{};
    std::string seen = "absent";
    if (::stat(file.c_str(), &info) == 0)
      seen = fmt::format("{} {} {} {}", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    if (seen == source.seen && now < source.due) continue;
    source.seen = seen;
    source.due = now + options.file_sd_refresh;
    auto text = read_file(file, kMostFileBytes);
    auto entries = text ? parse_file_sd(*text, options.exchange.port)
                        : tl::expected<std::vector<PeerEntry>, std::string>(tl::unexpect, text.error().message());
    if (entries) {
      source.entries = std::move(*entries);
      continue;
    }
    log::warn("a file of peers could not be read, what it said before stays",
              {{"file", file}, {"err", entries.error()}});
    const std::lock_guard lock(mutex_);
    ++state_.file_failures;
  }
}

void Discovery::look_at_dns(const Options& options, Clock::time_point now) {
  const auto key_of = [](const DnsSource& source) {
    return fmt::format("{} {} {}", source.name, static_cast<int>(source.type), source.port);
  };
  std::set<std::string> there;
  for (const DnsSource& dns : options.dns) there.insert(key_of(dns));
  std::erase_if(names_, [&](const auto& entry) { return !there.contains(entry.first); });
  for (const DnsSource& dns : options.dns) {
    Source& source = names_[key_of(dns)];
    if (now < source.due) continue;
    source.due = now + dns.refresh;
    if (auto entries = resolve(dns)) {
      source.entries = std::move(*entries);
      continue;
    } else {
      log::warn("a name of peers did not resolve, what it said before stays", {{"err", entries.error().message()}});
    }
    const std::lock_guard lock(mutex_);
    ++state_.dns_failures;
  }
}

void Discovery::look(Clock::time_point now) {
  Options options;
  std::vector<LocalDevice> devices;
  std::vector<LocalPort> ports;
  {
    const std::lock_guard lock(mutex_);
    options = options_;
    devices = devices_;
    ports = ports_;
  }
  look_at_files(options, now);
  look_at_dns(options, now);
  if (options.graph.storage) {
    auto storage = storage_targets(sysfs_, ports);
    if (storage != storage_) {
      storage_ = std::move(storage);
      storage_names_ = names_of(storage_);
    }
  } else {
    storage_.clear();
  }
  DiscoveryState fresh;
  std::vector<PeerEntry> entries = options.static_peers;
  fresh.from_static = entries.size();
  for (const auto& [file, source] : files_) {
    entries.insert(entries.end(), source.entries.begin(), source.entries.end());
    fresh.from_files += source.entries.size();
  }
  for (const auto& [name, source] : names_) {
    entries.insert(entries.end(), source.entries.begin(), source.entries.end());
    fresh.from_dns += source.entries.size();
  }
  if (entries.size() > kMostEntries) entries.resize(kMostEntries);
  auto names = source_.known_addresses();
  names.insert(names.end(), storage_names_.begin(), storage_names_.end());
  const auto hour = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::hours>(std::chrono::system_clock::now().time_since_epoch()).count());
  const GraphShape shape{options.graph.seed, options.graph.degree, options.graph.full_mesh};
  Selection selection = select_peers(entries, self_, devices, storage_, names, shape, options.graph.max_peers, hour);
  bool different = false;
  {
    const std::lock_guard lock(mutex_);
    fresh.file_failures = state_.file_failures;
    fresh.dns_failures = state_.dns_failures;
    fresh.refused = selection.refused;
    fresh.endpoints = selection.endpoints;
    fresh.peers = selection.peers;
    different = !applied_ || fresh.peers != state_.peers;
    state_ = std::move(fresh);
    applied_ = true;
  }
  if (different) apply_(selection.peers);
}

}  // namespace roce::probe

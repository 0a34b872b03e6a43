// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/guard.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <iterator>
#include <utility>

#include "exporter/base/log.h"

namespace roce::web {

Guard::Guard(std::string file, GuardCounters& counters, std::chrono::milliseconds interval)
    : file_(std::move(file)), counters_(counters), interval_(interval) {}

tl::expected<std::shared_ptr<Guard>, std::string> Guard::open(const std::string& file, GuardCounters& counters,
                                                              std::chrono::milliseconds interval) {
  std::shared_ptr<Guard> guard(new Guard(file, counters, interval));
  const std::lock_guard lock(guard->load_mutex_);
  if (auto loaded = guard->load(); !loaded) return tl::unexpected(loaded.error());
  counters.configured = true;
  return guard;
}

// Which files these are, as far as their names and times tell.
std::string Guard::look() const {
  std::string out;
  const auto add = [&out](const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) {
      out += "-;";
      return;
    }
    fmt::format_to(std::back_inserter(out), "{}.{}.{}.{}.{}.{}.{};", info.st_dev, info.st_ino, info.st_size,
                   info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  };
  add(file_);
  for (const std::string& path : files_) add(path);
  return out;
}

// Called with load_mutex_ held.
tl::expected<void, std::string> Guard::load() {
  std::vector<std::string> files;
  // Looked at before reading: what is written meanwhile counts as changed next time.
  std::string before = look();
  auto config = load_web_config(file_, &files);
  if (files != files_) {
    files_ = std::move(files);
    before = look();
    if (config) config = load_web_config(file_, nullptr);
  }
  seen_ = std::move(before);
  looked_ = std::chrono::steady_clock::now();
  if (!config) return tl::unexpected(config.error());

  auto rules = std::make_shared<Rules>();
  // Only load() replaces rules_, and one load() runs at a time.
  rules->users = std::make_unique<Users>(config->users, counters_, bcrypt_matches,
                                         rules_ == nullptr ? nullptr : rules_->users.get());
  rules->config = std::move(*config);
  const std::lock_guard lock(rules_mutex_);
  if (rules_ != nullptr && (rules_->config.tls == nullptr) != (rules->config.tls == nullptr))
    return tl::unexpected(fmt::format("{}: TLS is switched on or off by a restart only", file_));
  for (const std::string& remark : rules->config.remarks) log::warn("web configuration", {{"remark", remark}});
  counters_.last_good_load = static_cast<double>(std::time(nullptr));
  counters_.certificate_expires = rules->config.certificate_expires;
  rules_ = std::move(rules);
  return {};
}

std::shared_ptr<const Guard::Rules> Guard::rules() {
  // One thread looks, the others go on with what there is.
  if (const std::unique_lock loading(load_mutex_, std::try_to_lock); loading.owns_lock()) {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ >= interval_) {
      looked_ = now;
      try {
        if (look() != seen_) {
          const auto loaded = load();
          counters_.last_load_good = loaded.has_value();
          if (loaded)
            log::info("web configuration read anew", {{"file", file_}});
          else
            log::error("web configuration not taken, the old one stays", {{"err", loaded.error()}});
        }
      } catch (const std::exception& error) {
        counters_.last_load_good = false;
        log::error("web configuration not taken, the old one stays", {{"err", error.what()}});
      }
    }
  }
  const std::lock_guard lock(rules_mutex_);
  return rules_;
}

}  // namespace roce::web

// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/leftovers.h"

#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

namespace roce {
namespace {

struct Leftovers {
  std::mutex mutex;
  std::set<std::string> paths;
};

// Never destroyed: the thread that waits for signals outlives all else.
Leftovers& leftovers() {
  static auto* all = new Leftovers;
  return *all;
}

void take_away(const std::string& path) {
  std::error_code error;
  // Under another name a thread that is still at it puts nothing more into it.
  const std::string away = path + ".gone";
  const bool moved = std::filesystem::is_directory(path, error) && std::rename(path.c_str(), away.c_str()) == 0;
  std::filesystem::remove_all(moved ? away : path, error);
}

[[noreturn]] void wait_and_end(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  // Held to the end: nothing new is made.
  const std::lock_guard lock(leftovers().mutex);
  for (const std::string& path : leftovers().paths) take_away(path);
  std::signal(signal, SIG_DFL);  // NOLINT: it is what it was
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::raise(signal);
  std::_Exit(128 + signal);
}

}  // namespace

Result<std::string> make_leftover(const std::function<Result<std::string>()>& make) {
  const std::lock_guard lock(leftovers().mutex);
  auto path = make();
  if (path) leftovers().paths.insert(*path);
  return path;
}

void remove_leftover(const std::string& path) {
  const std::lock_guard lock(leftovers().mutex);
  if (leftovers().paths.erase(path) != 0) take_away(path);
}

void keep_leftover(const std::string& path) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().paths.erase(path);
}

void remove_leftovers_on_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: a pipe that is closed is an error of writing, told and cleaned up after
  sigset_t signals;
  sigemptyset(&signals);
  bool any = false;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, signal);
    any = true;
  }
  if (!any) return;
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] { wait_and_end(signals); }).detach();
}

}  // namespace roce

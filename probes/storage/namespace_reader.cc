// SPDX-License-Identifier: Apache-2.0
#include "probes/storage/namespace_reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/base/random.h"
#include "exporter/kernel/files.h"
#include "probes/schedule/schedule.h"

namespace roce::probe {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::size_t kMostAttribute = 4096;

std::uint64_t now_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// nvme0n1, not nvme0c0n1 (one path of it), not nvme0n1p1 (a partition, which is no entry of /sys/block).
bool is_namespace(std::string_view name) {
  if (!name.starts_with("nvme")) return false;
  name.remove_prefix(4);
  const std::size_t n = name.find('n');
  const auto digits = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return n != std::string_view::npos && digits(name.substr(0, n)) && digits(name.substr(n + 1));
}

std::string attribute(const std::string& file) {
  const auto text = read_file(file, kMostAttribute);
  return text ? std::string(trim(*text)) : std::string();
}

ReadFailure kind_of(int err) {
  switch (err) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return ReadFailure::kAbsent;
    case EACCES:
    case EPERM:
      return ReadFailure::kDenied;
    case EIO:
    case ETIMEDOUT:
    case ENOLINK:
    case ECONNRESET:
      return ReadFailure::kIo;
    default:
      return ReadFailure::kOther;
  }
}

struct Closer {
  int fd = -1;
  ~Closer() { close(); }
  void close() {
    if (fd >= 0) (void)::close(std::exchange(fd, -1));
  }
};

}  // namespace

Result<Namespace> find_namespace(const std::string& sysfs, const std::string& dev, std::string_view wanted) {
  const std::string folder = sysfs + "/block";
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return fail_errno(errno, folder);
  std::optional<std::string> name;
  while (const dirent* entry = readdir(entries)) {  // NOLINT(concurrency-mt-unsafe): one stream, one thread
    const std::string_view one = entry->d_name;
    if (!is_namespace(one)) continue;
    if (one == wanted || attribute(folder + "/" + std::string(one) + "/wwid") == wanted) {
      name = std::string(one);
      break;
    }
  }
  (void)closedir(entries);
  if (!name) return fail(ErrorKind::kAbsent, std::string(wanted) + ": no such NVMe namespace");
  Namespace found;
  found.name = *name;
  found.device = dev + "/" + *name;
  const std::string base = folder + "/" + *name + "/device/";
  found.subsystem = attribute(base + "subsysnqn");
  return found;
}

std::string_view to_string(ReadFailure failure) {
  constexpr std::string_view kNames[] = {"absent", "denied", "io", "other"};
  return kNames[static_cast<std::size_t>(failure)];
}

// Outlives the reader where its thread hangs.
struct NamespaceReader::Shared {
  std::string wanted, sysfs, dev;
  std::chrono::nanoseconds interval{};
  Find find = nullptr;

  LatencyHistogram latency;
  std::atomic<std::uint64_t> reads{0}, skipped{0}, begun{0};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(ReadFailure::kCount_)> failures{};

  bool may_be_other = false;                           // of the thread alone: it was open or absent before
  std::atomic<bool> shut_out{false}, not_open{false};  // not_open: the last opening failed

  mutable std::mutex mutex;
  std::condition_variable woken;
  bool stopping = false, ended = false;
  Namespace found;
  std::thread thread;

  void failed(ReadFailure failure) { failures[static_cast<std::size_t>(failure)].fetch_add(1); }

  void cannot_open(ReadFailure why) {
    failed(why);
    if (why == ReadFailure::kAbsent) may_be_other = true;
    shut_out.store(why == ReadFailure::kDenied && may_be_other);
  }

  // It may hang, as a read may.
  bool open(Closer& file, std::uint64_t& blocks) {
    const auto now = find(sysfs, dev, wanted);
    if (!now) {
      cannot_open(now.error().kind == ErrorKind::kAbsent ? ReadFailure::kAbsent : ReadFailure::kOther);
      return false;
    }
    {
      const std::lock_guard lock(mutex);
      found = *now;
    }
    file.fd = ::open(now->device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
    if (file.fd < 0) {
      cannot_open(kind_of(errno));
      return false;
    }
    may_be_other = true;
    shut_out.store(false);
    struct stat what{};
    std::uint64_t bytes = 0;
    if (fstat(file.fd, &what) == 0) {
      if (S_ISREG(what.st_mode)) bytes = static_cast<std::uint64_t>(what.st_size);
      if (S_ISBLK(what.st_mode)) (void)ioctl(file.fd, BLKGETSIZE64, &bytes);
    }
    blocks = bytes / kBytes;
    if (blocks > 0) return true;
    file.close();
    failed(ReadFailure::kOther);
    return false;
  }

  void loop() {
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, nullptr);
    (void)pthread_setname_np(pthread_self(), "read");
    Random random(random_number<std::uint64_t>());
    JitteredSchedule schedule(random.next());
    schedule.start(now_ns(), static_cast<std::uint64_t>(interval.count()));
    const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(kBytes, kBytes), std::free);
    Closer file;
    std::uint64_t blocks = 0;
    while (buffer) {
      {
        std::unique_lock lock(mutex);
        while (!stopping) {
          const std::uint64_t now = now_ns();
          if (schedule.due() <= now) break;
          woken.wait_for(lock, std::chrono::nanoseconds(schedule.due() - now));
        }
        if (stopping) return;
      }
      skipped.fetch_add(schedule.advance(now_ns()));
      begun.store(now_ns());
      if (file.fd < 0) {
        const bool opened = open(file, blocks);
        not_open.store(!opened);
        if (!opened) {
          begun.store(0);
          continue;
        }
      }
      const auto offset = static_cast<off_t>(random.below(blocks) * kBytes);
      reads.fetch_add(1);
      const std::uint64_t start = now_ns();
      begun.store(start);
      const ssize_t got = pread(file.fd, buffer.get(), kBytes, offset);
      const int err = errno;
      const std::uint64_t took = now_ns() - start;
      begun.store(0);
      if (got == static_cast<ssize_t>(kBytes)) {
        latency.record(took);
        continue;
      }
      failed(got < 0 ? kind_of(err) : ReadFailure::kOther);
      file.close();  // the device may have gone; under this name another may come
    }
  }
};

NamespaceReader::NamespaceReader(std::string wanted, std::string sysfs, std::string dev,
                                 std::chrono::nanoseconds interval, Find find)
    : shared_(std::make_shared<Shared>()) {
  shared_->wanted = std::move(wanted);
  shared_->sysfs = std::move(sysfs);
  shared_->dev = std::move(dev);
  shared_->interval = interval;
  shared_->find = find;
}

void NamespaceReader::start() {
  shared_->thread = std::thread([shared = shared_] {
    shared->loop();
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
    shared->woken.notify_all();
  });
}

NamespaceReader::~NamespaceReader() {
  if (!shared_->thread.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->woken.notify_all();
  // Whoever opens or reads what is behind a path that is lost may sit in the kernel for minutes.
  const bool ended = shared_->woken.wait_for(lock, std::chrono::seconds(1), [&] { return shared_->ended; });
  lock.unlock();
  if (ended)
    shared_->thread.join();
  else
    shared_->thread.detach();
}

const std::string& NamespaceReader::wanted() const { return shared_->wanted; }

NamespaceReader::State NamespaceReader::state() const {
  State out;
  {
    const std::lock_guard lock(shared_->mutex);
    out.found = shared_->found;
  }
  out.latency = shared_->latency.snapshot();
  out.reads = shared_->reads.load();
  out.skipped = shared_->skipped.load();
  for (std::size_t i = 0; i < out.failures.size(); ++i) out.failures[i] = shared_->failures[i].load();
  out.shut_out = shared_->shut_out.load();
  if (const std::uint64_t begun = shared_->begun.load(); begun != 0) {
    const std::uint64_t now = now_ns();
    out.in_flight_seconds = now > begun ? static_cast<double>(now - begun) * 1e-9 : 0;
  } else if (shared_->not_open.load()) {
    out.in_flight_seconds.reset();
  }
  return out;
}

bool should_start_anew(const std::vector<NamespaceReader::State>& states) {
  const auto hangs = [](const NamespaceReader::State& state) { return state.in_flight_seconds.value_or(0) > 1; };
  const auto shut_out = [](const NamespaceReader::State& state) { return state.shut_out; };
  return std::any_of(states.begin(), states.end(), shut_out) && std::none_of(states.begin(), states.end(), hangs);
}

}  // namespace roce::probe

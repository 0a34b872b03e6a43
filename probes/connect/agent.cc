// SPDX-License-Identifier: Apache-2.0
#include "probes/connect/agent.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include "probes/connect/wire.h"
#include "probes/connect/worker.h"

namespace roce::probe {
namespace {

constexpr std::size_t kSigned = 20;
constexpr std::uint32_t kGreetingMagic = 0x526f436e;  // "RoCn"

int errno_or(int fallback) { return errno != 0 ? errno : fallback; }

std::array<std::uint8_t, 16> code_of(const Key& key, std::span<const std::uint8_t> head, const Gid& from,
                                     const Gid& to) {
  std::array<std::uint8_t, kSigned + 32> text{};
  std::copy_n(head.begin(), kSigned, text.begin());
  std::copy(from.raw.begin(), from.raw.end(), text.begin() + kSigned);
  std::copy(to.raw.begin(), to.raw.end(), text.begin() + kSigned + 16);
  std::array<std::uint8_t, 32> full{};
  std::array<std::uint8_t, 16> code{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.secret.data(), static_cast<int>(key.secret.size()), text.data(), text.size(), full.data(),
           &length) != nullptr)
    std::copy_n(full.begin(), code.size(), code.begin());
  return code;
}

// How long a killed process may take to end. One that hangs in the kernel does not, and keeps its devices.
constexpr std::chrono::milliseconds kEndTime{2000};
// Within which the forked process answers.
constexpr std::chrono::milliseconds kAnswerTime = kEndTime + std::chrono::milliseconds(1000);
// Within which the worker is ready.
constexpr std::chrono::milliseconds kReadyTime{10000};

// Kills a child and waits for its end; false when it does not come.
bool end_child(pid_t child) {
  (void)kill(child, SIGKILL);
  for (std::chrono::milliseconds waited{0}; waited < kEndTime; ++waited) {
    const pid_t ended = waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    const timespec millisecond{0, 1'000'000};
    (void)nanosleep(&millisecond, nullptr);
  }
  return false;
}

bool readable_within(int fd, std::chrono::milliseconds time) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(time.count())) == 1;
}

// The forked process that forks: no thread, no lock, nothing but this loop.
[[noreturn]] void serve(int control) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Nothing of the parent is kept: no listener, no device, no signal mask.
  if (control > 3) (void)close_range(3, static_cast<unsigned>(control) - 1, 0);
  (void)close_range(static_cast<unsigned>(control) + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) (void)signal(number, SIG_DFL);
  pid_t worker = -1;
  for (;;) {
    int fd = -1;
    char command = 0;
    if (!receive_command(control, command, fd)) break;
    // There is one worker at most, also where one hangs.
    if (worker > 0 && end_child(worker)) worker = -1;
    bool good = worker < 0;
    if (good && command == kStartWorker && fd >= 0) {
      worker = fork();
      if (worker == 0) {
        (void)::close(control);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_connect_worker(fd);
        _exit(0);
      }
      good = worker > 0;
    }
    if (fd >= 0) (void)::close(fd);
    const char answer = good ? 1 : 0;
    if (send(control, &answer, 1, MSG_NOSIGNAL) != 1) break;
  }
  if (worker > 0) (void)kill(worker, SIGKILL);
  _exit(0);
}

}  // namespace

std::vector<std::uint8_t> make_greeting(const Key& key, std::uint64_t number, std::uint32_t epoch, const Gid& from,
                                        const Gid& to) {
  std::vector<std::uint8_t> out(kGreetingBytes);
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) out[at + i] = static_cast<std::uint8_t>(value >> (8 * (bytes - 1 - i)));
  };
  put(0, kGreetingMagic, 4);
  out[4] = 1;
  out[5] = key.id;
  put(8, number, 8);
  put(16, epoch, 4);
  const auto code = code_of(key, out, from, to);
  std::copy(code.begin(), code.end(), out.begin() + kSigned);
  return out;
}

bool greeting_good(std::span<const std::uint8_t> bytes, std::span<const Key> keys, std::uint32_t epoch, const Gid& from,
                   const Gid& to, std::chrono::system_clock::time_point now) {
  // The kernel pads private data with zeros.
  if (bytes.size() < kGreetingBytes) return false;
  const auto get = [&](std::size_t at, std::size_t n) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < n; ++i) value = value << 8 | bytes[at + i];
    return value;
  };
  if (get(0, 4) != kGreetingMagic || bytes[4] != 1 || bytes[6] != 0 || bytes[7] != 0 || get(16, 4) != epoch)
    return false;
  for (const Key& key : keys.first(std::min<std::size_t>(keys.size(), 2))) {
    if (key.id != bytes[5] || now > key.not_after || key.secret.size() < 16) continue;
    const auto code = code_of(key, bytes, from, to);
    return CRYPTO_memcmp(code.data(), bytes.data() + kSigned, code.size()) == 0;
  }
  return false;
}

Result<std::unique_ptr<ConnectAgent>> ConnectAgent::start() {
  std::unique_ptr<ConnectAgent> agent(new ConnectAgent);
  ROCE_TRY_VOID(agent->begin());
  return agent;
}

// Later than at the start there are other threads, whose locks the child finds as they were. It takes none but those of
// malloc, which the C library puts right, and of libraries that this process does not use otherwise.
Result<void> ConnectAgent::begin() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno(errno, "socket pair");
  const pid_t pid = fork();
  if (pid < 0) {
    const int err = errno;
    (void)::close(pair[0]);
    (void)::close(pair[1]);
    return fail_errno(err, "fork");
  }
  if (pid == 0) {
    (void)::close(pair[0]);
    serve(pair[1]);
  }
  (void)::close(pair[1]);
  control_ = pair[0];
  process_ = pid;
  return {};
}

// The child, dead or not what it should be, goes, and its worker with it.
void ConnectAgent::abandon() {
  if (control_ < 0) return;
  (void)::close(std::exchange(control_, -1));
  (void)end_child(process_.exchange(-1));
}

std::optional<bool> ConnectAgent::ask(char command, int fd) {
  char answer = 0;
  if (control_ >= 0 && send_command(control_, command, fd) && readable_within(control_, kAnswerTime) &&
      recv(control_, &answer, 1, MSG_DONTWAIT) == 1)
    return answer == 1;
  abandon();
  return std::nullopt;
}

ConnectAgent::~ConnectAgent() {
  (void)close();
  const std::lock_guard lock(mutex_);
  abandon();
}

bool ConnectAgent::close() {
  // Whoever waits for the worker finds it gone, and gives the mutex back.
  {
    const std::lock_guard lock(socket_mutex_);
    if (const int fd = worker_.load(); fd >= 0) (void)shutdown(fd, SHUT_RDWR);
  }
  const std::lock_guard lock(mutex_);
  return close_locked();
}

bool ConnectAgent::close_locked() {
  if (worker_ < 0 && !hangs_) return true;
  {
    const std::lock_guard lock(socket_mutex_);
    if (const int fd = worker_.exchange(-1); fd >= 0) (void)::close(fd);
  }
  const auto gone = ask(kStopWorker, -1);
  hangs_ = gone.has_value() && !*gone;
  return gone.value_or(false);
}

Result<std::vector<std::uint16_t>> ConnectAgent::open(std::span<const Gid> listen_on, std::span<const Key> keys,
                                                      std::uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  (void)close_locked();
  if (hangs_) return fail(ErrorKind::kBusy, "the last process of rdma_cm hangs in the kernel");
  // A child that is dead is found out by asking it.
  for (int attempt = 0;; ++attempt) {
    if (control_ < 0) ROCE_TRY_VOID(begin());
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno(errno, "socket pair");
    const auto started = ask(kStartWorker, pair[1]);
    (void)::close(pair[1]);
    if (started == true) {
      worker_ = pair[0];
      break;
    }
    (void)::close(pair[0]);
    if (started.has_value() || attempt > 0) return fail(ErrorKind::kIo, "the process of rdma_cm did not start");
  }
  WorkerSetup setup{};
  setup.epoch = epoch;
  put_keys(setup, keys);
  for (const Gid& gid : listen_on.first(std::min<std::size_t>(listen_on.size(), kMaxListeners)))
    setup.listen_on[setup.listener_count++] = gid;
  WorkerPorts ports{};
  errno = 0;
  if (send(worker_, &setup, sizeof setup, MSG_NOSIGNAL) != sizeof setup || !readable_within(worker_, kReadyTime) ||
      recv(worker_, &ports, sizeof ports, MSG_DONTWAIT) != sizeof ports) {
    const int err = errno_or(EIO);
    (void)close_locked();
    return fail_errno(err, "the process of rdma_cm");
  }
  const std::uint32_t listeners = setup.listener_count;
  OPENSSL_cleanse(&setup, sizeof setup);
  return std::vector<std::uint16_t>(ports.port, ports.port + listeners);
}

Result<ConnectOutcome> ConnectAgent::connect(const Gid& from, const Gid& to, std::uint16_t port, std::uint32_t epoch,
                                             std::chrono::milliseconds deadline) {
  const std::lock_guard lock(mutex_);
  if (worker_ < 0) return fail(ErrorKind::kBusy, "rdma_cm: closed");
  const WorkerRequest request{from, to, port, epoch, static_cast<std::uint32_t>(deadline.count())};
  if (send(worker_, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return fail_errno(errno, "rdma_cm");
  // Answering is the worker's; a call of it that hangs in the kernel must not hang this.
  WorkerAnswer answer{};
  if (!readable_within(worker_, deadline + std::chrono::milliseconds(2000)) ||
      recv(worker_, &answer, sizeof answer, MSG_DONTWAIT) != sizeof answer) {
    (void)close_locked();
    return fail(ErrorKind::kTimeout, "rdma_cm: no answer");
  }
  return ConnectOutcome{answer.connected != 0, answer.nanoseconds, static_cast<Failure>(answer.failure)};
}

}  // namespace roce::probe

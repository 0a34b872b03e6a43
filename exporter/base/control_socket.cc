// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/control_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace roce {
namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return fail_errno(ENAMETOOLONG, path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int connect_to(int fd, const sockaddr_un& address) {
  const auto* any = reinterpret_cast<const sockaddr*>(&address);  // NOLINT: what the socket calls take
  return ::connect(fd, any, sizeof address) == 0 ? 0 : errno;
}

// Waits until the descriptor is ready; false at the deadline or on an error.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd entry{fd, events, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(std::min<long long>(left, 60000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

bool send_all(int fd, std::string_view text, std::chrono::milliseconds patience) {
  while (!text.empty()) {
    if (!wait_for(fd, POLLOUT, Clock::now() + patience)) return false;
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// A socket file that nobody answers on is left over and goes away; anything else stays.
Result<void> make_room(const std::string& path, const sockaddr_un& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Result<void>() : fail_errno(errno, path);
  if (!S_ISSOCK(info.st_mode)) return fail_errno(EEXIST, path);
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return fail_errno(errno, path);
  const int err = connect_to(probe.get(), address);
  if (err != ECONNREFUSED) return fail(ErrorKind::kBusy, path, err == 0 ? EADDRINUSE : err);
  if (::unlink(path.c_str()) != 0) return fail_errno(errno, path);
  return {};
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& path, Handler handler,
                                                            unsigned threads) {
  Form form;
  form.end = "\n";
  form.too_long = "error the request is longer than 4096 bytes\n";
  form.answer = [handler = std::move(handler)](std::string_view line) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const auto result = handler(line.substr(0, blank), line.substr(std::min(line.size(), blank + 1)));
    return result ? "ok\n" + *result : "error " + result.error() + "\n";
  };
  return start(path, std::move(form), threads);
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(const std::string& path, Form form, unsigned threads) {
  ROCE_TRY(const sockaddr_un address, address_of(path));
  ROCE_TRY_VOID(make_room(path, address));
  Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener.get() < 0) return fail_errno(errno, path);
  const auto* any = reinterpret_cast<const sockaddr*>(&address);  // NOLINT
  if (::bind(listener.get(), any, sizeof address) != 0) return fail_errno(errno, path);
  std::unique_ptr<ControlServer> server(new ControlServer());
  server->path_ = path;
  server->form_ = std::move(form);
  // Nobody can connect before listen(), so that the mode holds from the first client on.
  if (::chmod(path.c_str(), 0660) != 0 || ::listen(listener.get(), 16) != 0) return fail_errno(errno, path);
  server->stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->stop_ < 0) return fail_errno(errno, path);
  server->listener_ = listener.release();
  for (unsigned i = 0; i < std::max(threads, 1U); ++i)
    server->threads_.emplace_back([s = server.get()] { s->serve(); });
  return server;
}

ControlServer::~ControlServer() {
  if (stop_ >= 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(stop_, &one, sizeof one);
  }
  for (std::thread& thread : threads_) thread.join();
  if (listener_ >= 0) ::close(listener_);
  if (stop_ >= 0) ::close(stop_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

void ControlServer::serve() {
  for (;;) {
    pollfd entries[2] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    const int n = ::poll(entries, 2, -1);
    if (n < 0 && errno != EINTR) return;
    if (n <= 0) continue;
    if (entries[1].revents != 0) return;
    const Descriptor client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client.get() >= 0) {
      answer(client.get());
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      // The connection stays in the queue; asking again at once would only spin.
      pollfd stop{stop_, POLLIN, 0};
      ::poll(&stop, 1, 100);
    }
  }
}

void ControlServer::answer(int client) {
  std::string request;
  const auto deadline = Clock::now() + kPatience;
  while (request.find(form_.end) == std::string::npos) {
    if (request.size() > kMaxRequest) {
      send_all(client, form_.too_long, kPatience);
      return;
    }
    if (!wait_for(client, POLLIN, deadline)) return;
    char buffer[1024];
    const ssize_t n = ::recv(client, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return;
    request.append(buffer, static_cast<std::size_t>(n));
  }
  send_all(client, form_.answer(std::string_view(request).substr(0, request.find(form_.end))), kPatience);
}

Result<std::string> ask_control(const std::string& path, std::string_view request, std::chrono::milliseconds timeout,
                                std::size_t max_answer) {
  ROCE_TRY(const sockaddr_un address, address_of(path));
  const auto deadline = Clock::now() + timeout;
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return fail_errno(errno, path);
  if (const int err = connect_to(socket.get(), address); err != 0)
    return err == ECONNREFUSED ? fail(ErrorKind::kAbsent, path, err) : fail_errno(err, path);
  const std::string line = std::string(request) + "\n";
  if (!send_all(socket.get(), line, timeout)) return fail(ErrorKind::kTimeout, path);
  std::string answer;
  for (;;) {
    if (!wait_for(socket.get(), POLLIN, deadline)) return fail(ErrorKind::kTimeout, path);
    char buffer[65536];
    const ssize_t n = ::recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return fail_errno(errno, path);
    if (n == 0) break;
    answer.append(buffer, static_cast<std::size_t>(n));
    if (answer.size() > max_answer) return fail(ErrorKind::kMalformed, path);
  }
  if (answer.starts_with("ok\n")) return answer.substr(3);
  if (answer.starts_with("error ")) {
    while (!answer.empty() && answer.back() == '\n') answer.pop_back();
    return fail(ErrorKind::kUnsupported, answer.substr(6));
  }
  return fail(ErrorKind::kMalformed, path);
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/uevents.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "exporter/base/log.h"

namespace roce {
namespace {

constexpr std::uint32_t kKernelGroup = 1;
// An event is at most 2 KiB of variables and a path before them.
constexpr std::size_t kMessageSize = 8192;

std::string_view last_component(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Sent by the kernel, and by nobody who only says so: no port number, credentials of uid 0 filled in by the kernel.
bool is_from_kernel(msghdr& header, const sockaddr_nl& sender) {
  if (header.msg_namelen != sizeof sender || sender.nl_family != AF_NETLINK || sender.nl_pid != 0) return false;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    if (control->cmsg_len < CMSG_LEN(sizeof credentials)) return false;
    std::memcpy(&credentials, CMSG_DATA(control), sizeof credentials);
    return credentials.uid == 0;
  }
  return false;
}

}  // namespace

std::optional<Uevent> parse_uevent(std::string_view message) {
  // "add@/devices/...", NUL, then NAME=value variables, each ended by NUL.
  const std::string_view head = message.substr(0, message.find('\0'));
  if (head.size() == message.size() || head.find("@/") == std::string_view::npos) return std::nullopt;
  Uevent event;
  std::string_view rest = message.substr(head.size() + 1);
  while (!rest.empty()) {
    const std::string_view variable = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(variable.size() + 1, rest.size()));
    const auto equal = variable.find('=');
    if (equal == std::string_view::npos) continue;
    const std::string_view key = variable.substr(0, equal);
    const std::string_view value = variable.substr(equal + 1);
    if (key == "ACTION") event.action = value;
    if (key == "DEVPATH") event.devpath = value;
    if (key == "SUBSYSTEM") event.subsystem = value;
    if (key == "NVME_EVENT") event.nvme_event = value;
    if (key == "DEVPATH_OLD") event.old_name = last_component(value);
  }
  if (event.action.empty() || event.devpath.empty() || event.devpath.front() != '/') return std::nullopt;
  event.name = last_component(event.devpath);
  return event;
}

Result<std::unique_ptr<UeventMonitor>> UeventMonitor::start(std::function<void(const Uevent&)> callback,
                                                            int queue_bytes) {
  const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  if (socket < 0) return fail_errno(errno, "uevent socket");
  const int on = 1;
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = kKernelGroup;
  // Without privilege the kernel grants up to its own maximum.
  if (setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &queue_bytes, sizeof queue_bytes) != 0)
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &queue_bytes, sizeof queue_bytes);
  if (setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int err = errno;
    close(socket);
    return fail_errno(err, "uevent socket");
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int err = errno;
    close(socket);
    return fail_errno(err, "uevent socket");
  }
  std::unique_ptr<UeventMonitor> monitor(new UeventMonitor(socket, wake, std::move(callback)));
  try {
    monitor->thread_ = std::thread([self = monitor.get()] { self->run(); });
  } catch (const std::system_error& error) {
    return fail_errno(error.code().value(), "uevent thread");
  }
  return monitor;
}

UeventMonitor::UeventMonitor(int socket, int wake, std::function<void(const Uevent&)> callback)
    : socket_(socket), wake_(wake), callback_(std::move(callback)) {}

UeventMonitor::~UeventMonitor() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);  // cannot fail: the counter is 0
    thread_.join();
  }
  close(wake_);
  close(socket_);
}

void UeventMonitor::run() {
  std::array<pollfd, 2> wait{{{socket_, POLLIN, 0}, {wake_, POLLIN, 0}}};
  for (;;) {
    if (poll(wait.data(), wait.size(), -1) < 0) {
      if (errno == EINTR) continue;
      log::error("uevents are no longer watched", {{"err", std::strerror(errno)}});
      return;
    }
    if (wait[1].revents != 0) return;
    if (wait[0].revents != 0 && !receive()) return;
  }
}

bool UeventMonitor::receive() {
  std::array<char, kMessageSize> buffer;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  sockaddr_nl sender{};
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_name = &sender;
  header.msg_namelen = sizeof sender;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket_, &header, 0);
  if (size < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    if (errno == ENOBUFS) {
      call(Uevent{"overrun", {}, {}, {}, {}, {}});
      return true;
    }
    log::error("uevents are no longer watched", {{"err", std::strerror(errno)}});
    return false;
  }
  if ((header.msg_flags & MSG_TRUNC) != 0 || !is_from_kernel(header, sender)) return true;
  if (const auto event = parse_uevent({buffer.data(), static_cast<std::size_t>(size)})) call(*event);
  return true;
}

void UeventMonitor::call(const Uevent& event) {
  try {
    callback_(event);
  } catch (const std::exception& error) {
    log::error("a uevent was not handled", {{"action", event.action}, {"err", error.what()}});
  }
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/listen.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace roce::web {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool has_ipv6() {
  // Switched off at boot, or forbidden to this process, the family is not there; otherwise every host can bind "::".
  const Descriptor fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  return fd.get() >= 0 && bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

std::string quoted(std::string_view text) { return "listen address \"" + std::string(text) + "\""; }

}  // namespace

int ListenAddress::port() const {
  return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void ListenAddress::set_port(int port) {
  const auto value = htons(static_cast<std::uint16_t>(port));
  if (address.any.sa_family == AF_INET6)
    address.v6.sin6_port = value;
  else
    address.v4.sin_port = value;
}

socklen_t ListenAddress::size() const {
  return address.any.sa_family == AF_INET6 ? sizeof(address.v6) : sizeof(address.v4);
}

std::string ListenAddress::numeric() const {
  char host[INET6_ADDRSTRLEN] = "";
  if (address.any.sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof host);
    return "[" + std::string(host) + "]:" + std::to_string(port());
  }
  inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof host);
  return std::string(host) + ":" + std::to_string(port());
}

std::string ListenAddress::url(std::string_view scheme) const {
  ListenAddress reached = *this;
  if (address.any.sa_family == AF_INET && address.v4.sin_addr.s_addr == htonl(INADDR_ANY)) {
    reached.address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else if (dual_stack) {
    reached.address.v4 = sockaddr_in{};
    reached.address.v4.sin_family = AF_INET;
    reached.address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    reached.set_port(port());
  }
  return std::string(scheme) + "://" + reached.numeric();
}

Result<ListenAddress> resolve_listen_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::string_view port_text = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (error != std::errc{} || end != port_text.data() + port_text.size() || port > 65535)
    return fail(ErrorKind::kMalformed, quoted(text) + " is not HOST:PORT with a port of 0 to 65535");

  ListenAddress result;
  result.text = text;
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed)
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return fail(ErrorKind::kMalformed, quoted(text) + " needs brackets around its IPv6 address");

  if (host.empty() || host == "*" || (bracketed && host == "::")) {
    if (bracketed && host.empty()) return fail(ErrorKind::kMalformed, quoted(text) + " has an empty pair of brackets");
    if (has_ipv6()) {
      result.address.v6.sin6_family = AF_INET6;
      result.dual_stack = true;
    } else if (bracketed) {
      return fail_errno(EAFNOSUPPORT, std::string(text));
    } else {
      result.address.v4.sin_family = AF_INET;
    }
  } else {
    addrinfo hints{};
    hints.ai_family = bracketed ? AF_INET6 : AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | (bracketed ? AI_NUMERICHOST : 0);
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found);
    if (failed == EAI_SYSTEM) return fail_errno(errno, std::string(text));
    if (failed != 0) return fail(ErrorKind::kAbsent, quoted(text) + " (" + gai_strerror(failed) + ")");
    const addrinfo* best = nullptr;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
      if (best == nullptr || (best->ai_family != AF_INET && one->ai_family == AF_INET)) best = one;
    }
    if (best != nullptr) std::memcpy(&result.address, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(found);
    if (best == nullptr) return fail(ErrorKind::kAbsent, quoted(text) + " has no IP address");
    if (result.address.any.sa_family == AF_INET6 && result.address.v6.sin6_scope_id != 0)
      return fail(ErrorKind::kUnsupported, quoted(text) + " is a link-local address with a zone");
  }
  result.set_port(static_cast<int>(port));
  return result;
}

Result<void> probe(const std::vector<ListenAddress>& addresses) {
  std::vector<Descriptor> held;
  for (const ListenAddress& one : addresses) {
    Descriptor fd(socket(one.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd.get() < 0) return fail_errno(errno, one.text);
    const int on = 1;
    const int only_v6 = one.dual_stack ? 0 : 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (one.address.any.sa_family == AF_INET6)
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
    // Listening too: with SO_REUSEADDR two sockets may be bound to one address as long as neither listens.
    if (bind(fd.get(), &one.address.any, one.size()) != 0 || listen(fd.get(), 1) != 0)
      return fail_errno(errno, one.text);
    held.push_back(std::move(fd));
  }
  return {};
}

void refuse_clients(const std::vector<ListenAddress>& addresses) {
  const Descriptor silent(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  DIR* directory = opendir("/proc/self/fd");
  if (silent.get() < 0 || directory == nullptr) {
    if (directory != nullptr) closedir(directory);
    return;
  }
  while (const dirent* entry = readdir(directory)) {  // NOLINT(concurrency-mt-unsafe): a stream of our own
    int fd = -1;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
    int listens = 0;
    socklen_t size = sizeof listens;
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    ListenAddress bound;
    size = sizeof bound.address;
    if (getsockname(fd, &bound.address.any, &size) != 0) continue;
    for (const ListenAddress& one : addresses) {
      if (bound.address.any.sa_family != one.address.any.sa_family || bound.numeric() != one.numeric()) continue;
      shutdown(fd, SHUT_RDWR);  // also ends a poll() that still holds the socket
      dup3(silent.get(), fd, O_CLOEXEC);
      break;
    }
  }
  closedir(directory);
}

}  // namespace roce::web

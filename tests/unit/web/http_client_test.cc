// SPDX-License-Identifier: Apache-2.0
//
// The client that the tests of this folder share.
#include "tests/unit/web/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>

#include "exporter/web/http.h"

namespace roce::web {

std::string Reply::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_ignoring_case(key, name)) return value;
  return {};
}

int Reply::count(std::string_view name) const {
  int count = 0;
  for (const auto& header : headers) count += equal_ignoring_case(header.first, name) ? 1 : 0;
  return count;
}

Client::Client(int port, const std::string& host) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(static_cast<std::uint16_t>(port));
  const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1;
  if (!is_v4) inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr);
  fd_ = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* address = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  if (fd_ >= 0 && connect(fd_, address, is_v4 ? sizeof v4 : sizeof v6) != 0) {
    close(fd_);
    fd_ = -1;
  }
}

Client::~Client() {
  if (fd_ >= 0) close(fd_);
}

Client::Client(Client&& other) noexcept : fd_(other.fd_), buffer_(std::move(other.buffer_)) { other.fd_ = -1; }

void Client::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool Client::fill() {
  pollfd waiting{fd_, POLLIN, 0};
  char piece[65536];
  if (poll(&waiting, 1, 10000) <= 0) return false;
  const ssize_t got = recv(fd_, piece, sizeof piece, 0);
  if (got <= 0) return false;
  buffer_.append(piece, static_cast<std::size_t>(got));
  return true;
}

Reply Client::read(bool to_head) {
  Reply reply;
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
    if (!fill()) return reply;
  reply.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  std::string_view lines = reply.head;
  lines.remove_prefix(lines.find("\r\n") + 2);
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find("\r\n"));
    lines.remove_prefix(line.size() + 2);
    const std::size_t colon = line.find(": ");
    reply.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  const std::size_t length = to_head ? 0 : std::strtoul(reply.header("Content-Length").c_str(), nullptr, 10);
  while (buffer_.size() < length)
    if (!fill()) return reply;
  reply.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  reply.status = std::atoi(reply.head.c_str() + 9);
  return reply;
}

bool Client::ended() {
  pollfd waiting{fd_, POLLIN, 0};
  char byte = 0;
  return buffer_.empty() && poll(&waiting, 1, 10000) > 0 && recv(fd_, &byte, 1, 0) <= 0;
}

Reply fetch(int port, std::string_view method, std::string_view target, std::string_view headers,
            std::string_view body) {
  Client client(port);
  if (!client.connected()) return {};
  std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n";
  text += headers;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  client.send(text + "\r\n" + std::string(body));
  return client.read(method == "HEAD");
}

std::string gunzip(std::string_view packed) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "?";
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  char piece[65536];
  int state = Z_OK;
  while (state == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(piece, sizeof piece - stream.avail_out);
  }
  const bool whole = state == Z_STREAM_END && stream.avail_in == 0;
  inflateEnd(&stream);
  return whole ? out : "?";
}

}  // namespace roce::web

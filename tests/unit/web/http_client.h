// SPDX-License-Identifier: Apache-2.0
//
// A blunt HTTP client for tests: sends the bytes it is given, on one connection. Waits at most 10 s for anything.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roce::web {

struct Reply {
  int status = 0;  // 0: the connection ended first
  std::string head;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  std::string header(std::string_view name) const;  // empty when absent
  int count(std::string_view name) const;
};

class Client {
 public:
  explicit Client(int port, const std::string& host = "127.0.0.1");
  ~Client();
  Client(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  Client& operator=(Client&&) = delete;

  bool connected() const { return fd_ >= 0; }
  void send(std::string_view bytes) const;
  Reply read(bool to_head = false);
  bool ended();  // the server has closed the connection, within the wait

 private:
  bool fill();
  int fd_ = -1;
  std::string buffer_;
};

// One request on a connection of its own. `headers` in full lines.
Reply fetch(int port, std::string_view method, std::string_view target, std::string_view headers = "",
            std::string_view body = "");

// What a gzip stream holds; "?" where it is none.
std::string gunzip(std::string_view packed);

}  // namespace roce::web

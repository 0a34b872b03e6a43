// SPDX-License-Identifier: Apache-2.0
//
// HTTP on a Unix socket, for tools of this host: curl --unix-socket PATH -X POST
// 'http://localhost/-/release?seconds=60'. Who may write to the socket may ask: its mode is 0660. One client at a time,
// each at most a second.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exporter/web/server.h"

namespace roce::probe {

class ControlSocket {
 public:
  // A socket that a dead program left there is replaced; one that answers is not (kBusy).
  static Result<std::unique_ptr<ControlSocket>> open(const std::string& path, std::vector<web::Route> routes);
  ~ControlSocket();  // removes it
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

 private:
  ControlSocket() = default;
  void serve();
  void answer(int client) const;

  std::string path_;
  std::vector<web::Route> routes_;
  int listener_ = -1;
  int stop_ = -1;
  std::thread thread_;
};

// The whole answer to the head of a request (up to its empty line), as it is written.
std::string control_answer(std::string_view head, const std::vector<web::Route>& routes);

}  // namespace roce::probe

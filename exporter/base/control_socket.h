// SPDX-License-Identifier: Apache-2.0
//
// A control socket: a Unix socket on which tools of the same host ask a running program. One request a connection:
// "VERB [ARGUMENT]\n", at most 4096 bytes; the answer is "ok\n" and a body, or "error WHY\n", and the end of the
// stream. Or requests and answers of another form. Who may write to the socket may ask: its mode is 0660.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exporter/base/result.h"

namespace roce {

class ControlServer {
 public:
  static constexpr std::size_t kMaxRequest = 4096;
  // A client that sends nothing, or takes nothing, for so long is left.
  static constexpr std::chrono::milliseconds kPatience{1000};

  // The body of the answer, or why there is none, in one line. Called from several threads; must not throw.
  using Handler =
      std::function<tl::expected<std::string, std::string>(std::string_view verb, std::string_view argument)>;

  // Another form of requests.
  struct Form {
    std::string_view end;  // of a request; a constant
    // All that is sent back to a request, which is given up to its end. Called from several threads; must not throw.
    std::function<std::string(std::string_view request)> answer;
    std::string too_long;  // to a request of more than kMaxRequest
  };

  // Listens on `path`, whose directory must exist; a socket that a dead program left there is replaced, one that
  // answers is not (kBusy). Serves on `threads` threads of its own, so many clients at a time.
  static Result<std::unique_ptr<ControlServer>> start(const std::string& path, Handler handler, unsigned threads = 2);
  static Result<std::unique_ptr<ControlServer>> start(const std::string& path, Form form, unsigned threads = 2);

  // Ends the threads, those after their client, and removes the socket.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer() = default;
  void serve();
  void answer(int client);

  std::string path_;
  Form form_;
  int listener_ = -1;
  int stop_ = -1;  // eventfd
  std::vector<std::thread> threads_;
};

// Asks the program behind `path`: the body of its answer. kAbsent where nobody listens, kTimeout after `timeout`; an
// answer "error WHY" is kUnsupported with the text as the object.
Result<std::string> ask_control(const std::string& path, std::string_view request, std::chrono::milliseconds timeout,
                                std::size_t max_answer = std::size_t{4} << 20U);

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The web configuration file, in the format of the Prometheus exporter toolkit: TLS, client certificates, users,
// headers. Thread-safe (no state).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "exporter/config/flags.h"

struct ssl_ctx_st;

namespace roce::web {

struct WebUser {
  std::string name;
  std::string hash;  // bcrypt: $2a$, $2b$ or $2y$
};

struct WebConfig {
  std::shared_ptr<ssl_ctx_st> tls;  // none: plain HTTP
  double certificate_expires = 0;   // Unix time; 0 without TLS
  bool verifies_clients = false;    // a client certificate that came was checked against client_ca
  std::vector<std::pair<std::string, std::string>> headers;  // for every answer
  std::vector<WebUser> users;                                // none: nobody is asked
  std::vector<std::string> remarks;  // what is taken but has no effect, or is of doubtful use; one line each
};

// Reads a file whole; the error is the end of "found ...".
using ReadFile = std::function<tl::expected<std::string, std::string>(const std::string& path)>;

// `file` names the text in messages, and its folder is where relative paths begin. The paths that the text names are
// appended to `*files`, also on failure. A failure is one line without its end: "FILE:LINE: key `x`: found ...,
// allowed ...".
tl::expected<WebConfig, std::string> parse_web_config(std::string_view text, const std::string& file,
                                                      const ReadFile& read, std::vector<std::string>* files);

// The same from the disk.
tl::expected<WebConfig, std::string> load_web_config(const std::string& file, std::vector<std::string>* files);

// What the command check-config says of a file that has a key at its top which only a web configuration has; nothing
// for other files.
std::optional<Exit> check_web_config(const std::string& file);

}  // namespace roce::web

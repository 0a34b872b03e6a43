// SPDX-License-Identifier: Apache-2.0
//
// The web configuration file, and the credentials of a request. Whatever comes in, a refusal is one printable line that
// names the file, and no user gets in whose hash is none of bcrypt.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/web/users.h"
#include "exporter/web/web_config.h"
#include "tests/fuzz/require.h"

namespace {}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roce::web;
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  // Every file that it names holds the configuration itself: PEM or not, as the fuzzer has it.
  const auto read = [&](const std::string& path) -> tl::expected<std::string, std::string> {
    if (path.ends_with("absent")) return tl::unexpected(std::string("no such file"));
    return std::string(text);
  };
  std::vector<std::string> files;
  const auto config = parse_web_config(text, "/etc/fuzz.yml", read, &files);
  if (config) {
    for (const WebUser& user : config->users) {
      require(user.hash.size() == 60 && user.hash.starts_with("$2"), user.hash);
      require(!user.name.empty() && user.name.find(':') == std::string::npos, user.name);
    }
    for (const auto& [name, value] : config->headers)
      require(value.find('\n') == std::string::npos && value.find('\r') == std::string::npos, name);
  } else {
    require(config.error().starts_with("/etc/fuzz.yml:"), config.error());
    for (const char c : config.error()) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, config.error());
  }
  for (const std::string& file : files) require(file.starts_with('/'), file);

  std::string name, password;
  if (parse_basic(text, name, password)) {
    require(name.find(':') == std::string::npos, name);
    require(name.find('\0') == std::string::npos && password.find('\0') == std::string::npos, name);
  }
  return 0;
}

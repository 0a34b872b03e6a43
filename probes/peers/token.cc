// SPDX-License-Identifier: Apache-2.0
#include "probes/peers/token.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "exporter/base/parse.h"

namespace roce::probe {

Result<std::string> read_token(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail_errno(errno, file);
  std::array<char, 2048> buffer{};
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  const int err = errno;
  ::close(fd);
  if (n < 0) return fail_errno(err, file);
  std::string_view text(buffer.data(), static_cast<std::size_t>(n));
  text = trim(text.substr(0, text.find('\n')));
  const bool good = text.size() >= 16 && text.size() <= 1024 &&
                    std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!good) return fail(ErrorKind::kMalformed, file + ": no token of 16 to 1024 printable characters");
  return std::string(text);
}

bool same_token(std::string_view a, std::string_view b) {
  // Digests have one length whatever the tokens have.
  std::array<unsigned char, SHA256_DIGEST_LENGTH> da{};
  std::array<unsigned char, SHA256_DIGEST_LENGTH> db{};
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), da.data());
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), db.data());
  return CRYPTO_memcmp(da.data(), db.data(), da.size()) == 0;
}

std::string_view bearer_of(std::string_view header) {
  constexpr std::string_view kScheme = "bearer ";
  if (header.size() <= kScheme.size()) return {};
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((static_cast<unsigned char>(header[i]) | 0x20U) != static_cast<unsigned char>(kScheme[i])) return {};
  return trim(header.substr(kScheme.size()));
}

}  // namespace roce::probe

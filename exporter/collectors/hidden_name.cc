// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/hidden_name.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <systemd/sd-id128.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>

namespace roce {
namespace {

constexpr sd_id128_t kApplication = SD_ID128_ARRAY(8c, 41, 0e, b2, 67, 9d, 4f, 05, a3, 1b, 5e, d0, 72, c6, 38, f9);

// Derived from the kernel's boot ID in a way that does not tell it. Where that cannot be read, the names hold for this
// process alone.
sd_id128_t make_key() {
  sd_id128_t key{};
  if (sd_id128_get_boot_app_specific(kApplication, &key) >= 0) return key;
  std::random_device random;
  for (std::uint8_t& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
  return key;
}

}  // namespace

std::string hidden_name(std::string_view kind, std::string_view name) {
  static const sd_id128_t key = make_key();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), key.bytes, sizeof key.bytes, reinterpret_cast<const unsigned char*>(name.data()), name.size(),
       digest.data(), &size);
  std::uint64_t shown = 0;
  std::memcpy(&shown, digest.data(), sizeof shown);
  return fmt::format("{}-{:016x}", kind, shown);
}

}  // namespace roce

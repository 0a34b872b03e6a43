// SPDX-License-Identifier: Apache-2.0
#include "probes/wire/authenticator.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <string>

#include "probes/wire/packet.h"

namespace roce::probe {
namespace {

constexpr std::size_t kMinSecret = 16;
constexpr std::size_t kKeys = 2;

std::uint64_t nanoseconds(std::chrono::system_clock::time_point time) {
  using Limit = std::chrono::duration<double, std::nano>;
  // A date beyond what fits is "never".
  const double ns = Limit(time.time_since_epoch()).count();
  if (ns <= 0) return 0;
  if (ns >= 1.8e19) return ~std::uint64_t{0};
  return static_cast<std::uint64_t>(ns);
}

}  // namespace

Result<std::unique_ptr<Authenticator>> Authenticator::create(std::span<const Key> keys) {
  auto out = std::make_unique<Authenticator>();
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  if (mac == nullptr) return fail(ErrorKind::kUnsupported, "HMAC of OpenSSL");
  const std::unique_ptr<EVP_MAC, void (*)(EVP_MAC*)> owner(mac, EVP_MAC_free);
  for (const Key& key : keys.first(std::min(keys.size(), kKeys))) {
    if (key.secret.size() < kMinSecret)
      return fail(ErrorKind::kMalformed, fmt::format("key {}: secret of {} bytes, at least {} are needed", key.id,
                                                     key.secret.size(), kMinSecret));
    Entry entry;
    entry.id = key.id;
    entry.not_after = nanoseconds(key.not_after);
    entry.context.reset(EVP_MAC_CTX_new(mac));
    std::string digest = "SHA256";
    const std::array<OSSL_PARAM, 2> parameters = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0), OSSL_PARAM_construct_end()};
    if (!entry.context ||
        EVP_MAC_init(entry.context.get(), key.secret.data(), key.secret.size(), parameters.data()) != 1)
      return fail(ErrorKind::kUnsupported, "HMAC-SHA-256 of OpenSSL");
    out->entries_.push_back(std::move(entry));
  }
  return out;
}

int Authenticator::signing_key(std::uint64_t realtime) const {
  for (const Entry& entry : entries_)
    if (realtime <= entry.not_after) return entry.id;
  return -1;
}

Authenticator::Entry* Authenticator::in_force(std::uint8_t id, std::uint64_t realtime) {
  for (Entry& entry : entries_)
    if (entry.id == id && realtime <= entry.not_after) return &entry;
  return nullptr;
}

bool Authenticator::compute(Entry& entry, std::span<const std::uint8_t> packet, const Gid& sender, const Gid& receiver,
                            std::span<std::uint8_t, 32> out) {
  EVP_MAC_CTX* context = entry.context.get();
  std::size_t length = 0;
  // Without a key the context starts again with the one that it has. The code itself is left out.
  return EVP_MAC_init(context, nullptr, 0, nullptr) == 1 && EVP_MAC_update(context, packet.data(), kMacOffset) == 1 &&
         EVP_MAC_update(context, packet.data() + kPacketBytes, packet.size() - kPacketBytes) == 1 &&
         EVP_MAC_update(context, sender.raw.data(), sender.raw.size()) == 1 &&
         EVP_MAC_update(context, receiver.raw.data(), receiver.raw.size()) == 1 &&
         EVP_MAC_final(context, out.data(), &length, out.size()) == 1 && length == out.size();
}

bool Authenticator::sign(std::span<std::uint8_t> packet, const Gid& sender, const Gid& receiver,
                         std::uint64_t realtime) {
  if (packet.size() < kPacketBytes) return false;
  Entry* entry = in_force(packet[7], realtime);
  std::array<std::uint8_t, 32> code{};
  if (entry == nullptr || !compute(*entry, packet, sender, receiver, code)) return false;
  std::copy_n(code.begin(), kMacBytes, packet.begin() + kMacOffset);
  return true;
}

bool Authenticator::verify(std::span<const std::uint8_t> packet, const Gid& sender, const Gid& receiver,
                           std::uint64_t realtime) {
  if (packet.size() < kPacketBytes) return false;
  Entry* entry = in_force(packet[7], realtime);
  std::array<std::uint8_t, 32> code{};
  return entry != nullptr && compute(*entry, packet, sender, receiver, code) &&
         CRYPTO_memcmp(code.data(), packet.data() + kMacOffset, kMacBytes) == 0;
}

}  // namespace roce::probe

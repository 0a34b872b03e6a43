// SPDX-License-Identifier: Apache-2.0
//
// The message authentication code of a probe: HMAC-SHA-256, the first 128 bits, over the packet without the code,
// followed by the GIDs of its sender and its receiver. The class of service is a field of the packet.
#pragma once

#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "probes/engine.h"

namespace roce::probe {

// One thread uses an Authenticator; contexts are made when it is, so that signing and checking are without new ones.
class Authenticator {
 public:
  Authenticator() = default;
  // The first two keys count. A key whose secret is shorter than 16 bytes is an error.
  static Result<std::unique_ptr<Authenticator>> create(std::span<const Key> keys);

  // The id of the key that signs at this time (ns of CLOCK_REALTIME), or -1 when none is in force.
  int signing_key(std::uint64_t realtime) const;
  // Writes the code into a packet whose key id is that of a key in force. False: it is not.
  bool sign(std::span<std::uint8_t> packet, const Gid& sender, const Gid& receiver, std::uint64_t realtime);
  // Constant time in the bytes of the code.
  bool verify(std::span<const std::uint8_t> packet, const Gid& sender, const Gid& receiver, std::uint64_t realtime);

 private:
  struct FreeMac {
    void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  };
  struct Entry {
    std::uint8_t id = 0;
    std::uint64_t not_after = 0;  // ns of CLOCK_REALTIME
    std::unique_ptr<EVP_MAC_CTX, FreeMac> context;
  };
  bool compute(Entry& entry, std::span<const std::uint8_t> packet, const Gid& sender, const Gid& receiver,
               std::span<std::uint8_t, 32> out);
  Entry* in_force(std::uint8_t id, std::uint64_t realtime);

  std::vector<Entry> entries_;
};

}  // namespace roce::probe

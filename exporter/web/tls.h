// SPDX-License-Identifier: Apache-2.0
//
// TLS contexts of the web servers, on OpenSSL 3. Thread-safe (no state). Nothing is asked on a terminal.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

struct ssl_ctx_st;
struct ssl_st;

namespace roce::web {

// As Go's crypto/tls names them; the last two check what comes against client_ca.
enum class ClientAuth { kNone, kRequest, kRequireAny, kVerifyIfGiven, kRequireAndVerify };

struct TlsSettings {
  std::string certificate;  // PEM: the server's own first, then those between it and the root
  std::string key;          // PEM, without a passphrase
  std::string client_ca;    // PEM: roots that client certificates are checked against
  ClientAuth client_auth = ClientAuth::kNone;
  bool tls13_only = false;
  bool tls12_only = false;
  std::vector<std::string> ciphers;  // IANA names, of TLS 1.2 and 1.3; empty: those of OpenSSL with forward secrecy
  std::vector<std::string> groups;   // OpenSSL names; empty: OpenSSL's
  bool server_chooses = true;        // the cipher, by the server's order of preference
  std::vector<std::string> allowed_sans;  // one of these names stands in a checked client certificate; empty: any
};

// Which setting is at fault, and what was found there.
struct TlsProblem {
  enum class Part { kCertificate, kKey, kClientCa, kCiphers, kGroups, kOther } part = Part::kOther;
  std::string found;
};

struct TlsContext {
  std::shared_ptr<ssl_ctx_st> context;
  double expires = 0;  // Unix time at which the server's certificate does
};

tl::expected<TlsContext, TlsProblem> make_tls_context(const TlsSettings& settings);

// True when OpenSSL knows the cipher suite by this IANA name and it may be offered: forward secrecy, no 3DES, no RC4.
bool known_cipher(std::string_view name);

// No session of the context can be gone on with: it would bring a client certificate that was checked by the rules of
// another time.
void forbid_resumption(ssl_ctx_st* context);

// Makes a connection whose handshake has just begun go on under another context, with all its rules.
bool adopt_context(ssl_st* connection, ssl_ctx_st* context);

}  // namespace roce::web

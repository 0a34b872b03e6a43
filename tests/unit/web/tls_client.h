// SPDX-License-Identifier: Apache-2.0
//
// Certificates made on the spot, and a client that talks TLS, for the tests of this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/unit/web/http_client.h"

struct ssl_session_st;

namespace roce::web {

struct Identity {
  std::string certificate, key;  // PEM
};

// A certificate for `name`, signed by `issuer` or by itself; P-256, valid from yesterday for `days`.
Identity make_identity(const std::string& name, const Identity* issuer = nullptr, const std::string& sans = "",
                       int days = 30);

struct TlsClientOptions {
  Identity identity;    // empty: no client certificate
  int version = 0;      // TLS1_1_VERSION, ...: this one alone; 0: any
  std::string trust;    // PEM: the server's certificate is checked against it; empty: not checked
  std::string ciphers;  // of TLS 1.2, OpenSSL's names
  // A session to go on with; the newest one that the server gave stands there afterwards.
  std::shared_ptr<ssl_session_st>* session = nullptr;
};

struct TlsReply {
  Reply reply;
  bool handshake = false;  // it succeeded (with TLS 1.3 a client learns of its refusal only afterwards)
  bool resumed = false;    // it went on with a session
  std::string protocol, cipher;
  std::string server_name;  // common name of the certificate that was served
};

// One GET on a connection of its own. `headers` in full lines.
TlsReply tls_get(int port, const std::string& path, const TlsClientOptions& options = {},
                 const std::string& headers = "");

// A file in a folder of its own, gone with the object.
class Folder {
 public:
  std::string write(const std::string& name, const std::string& text) const;  // returns the path
  std::string path() const { return directory_.path().string(); }

 private:
  TempDirectory directory_;
};

// "user:password" as the line of a request.
std::string basic_line(const std::string& credentials);

}  // namespace roce::web

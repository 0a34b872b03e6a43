// SPDX-License-Identifier: Apache-2.0
//
// The TLS client and the certificates that the tests of this folder share.
#include "tests/unit/web/tls_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

namespace roce::web {
namespace {

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(length));
  BIO_free(bio);
  return out;
}

X509* certificate_of(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  X509* out = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return out;
}

EVP_PKEY* key_of(const std::string& pem) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* out = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  return out;
}

void add_extension(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

Identity make_identity(const std::string& name, const Identity* issuer, const std::string& sans, int days) {
  static std::atomic<long> serial{1};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 86400L * days);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                             0);
  X509* parent = issuer == nullptr ? nullptr : certificate_of(issuer->certificate);
  EVP_PKEY* parent_key = issuer == nullptr ? nullptr : key_of(issuer->key);
  X509_set_issuer_name(certificate, parent == nullptr ? subject : X509_get_subject_name(parent));
  if (issuer == nullptr) add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (!sans.empty()) add_extension(certificate, NID_subject_alt_name, sans);
  X509_sign(certificate, parent_key == nullptr ? key : parent_key, EVP_sha256());
  Identity out;
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  out.certificate = text_of(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  out.key = text_of(bio);
  X509_free(parent);
  EVP_PKEY_free(parent_key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return out;
}

TlsReply tls_get(int port, const std::string& path, const TlsClientOptions& options, const std::string& headers) {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT: the server may close first
  TlsReply out;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_security_level(context.get(), 0);  // so that the client offers what the server shall refuse
  if (options.version != 0) {
    SSL_CTX_set_min_proto_version(context.get(), options.version);
    SSL_CTX_set_max_proto_version(context.get(), options.version);
  } else {
    SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  }
  SSL_CTX_set_cipher_list(context.get(), options.ciphers.empty() ? "ALL:@SECLEVEL=0" : options.ciphers.c_str());
  if (!options.identity.certificate.empty()) {
    X509* certificate = certificate_of(options.identity.certificate);
    EVP_PKEY* key = key_of(options.identity.key);
    SSL_CTX_use_certificate(context.get(), certificate);
    SSL_CTX_use_PrivateKey(context.get(), key);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  if (!options.trust.empty()) {
    X509* root = certificate_of(options.trust);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), root);
    X509_free(root);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  timeval wait{10, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  if (options.session != nullptr && *options.session != nullptr) SSL_set_session(ssl.get(), options.session->get());
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    SSL_set_fd(ssl.get(), fd);
    out.handshake = SSL_connect(ssl.get()) == 1;
  }
  if (out.handshake) {
    out.resumed = SSL_session_reused(ssl.get()) == 1;
    out.protocol = SSL_get_version(ssl.get());
    out.cipher = SSL_get_cipher_name(ssl.get());
    if (X509* served = SSL_get1_peer_certificate(ssl.get()); served != nullptr) {
      char name[256] = "";
      X509_NAME_get_text_by_NID(X509_get_subject_name(served), NID_commonName, name, sizeof name);
      out.server_name = name;
      X509_free(served);
    }
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + "\r\n";
    SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    std::string text;
    char piece[65536];
    for (int got = 0; (got = SSL_read(ssl.get(), piece, sizeof piece)) > 0;) {
      text.append(piece, static_cast<std::size_t>(got));
      // With TLS 1.3 a session comes before the answer. A copy: the end of the stream spoils the original.
      if (options.session != nullptr)
        *options.session = {SSL_SESSION_dup(SSL_get0_session(ssl.get())), SSL_SESSION_free};
    }
    if (text.starts_with("HTTP/1.1 ")) {
      out.reply.status = std::atoi(text.c_str() + 9);
      const std::size_t end = text.find("\r\n\r\n");
      out.reply.head = text.substr(0, end + 2);
      out.reply.body = text.substr(end + 4);
      std::string_view lines = out.reply.head;
      lines.remove_prefix(lines.find("\r\n") + 2);
      while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find("\r\n"));
        lines.remove_prefix(line.size() + 2);
        const std::size_t colon = line.find(": ");
        out.reply.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
      }
    }
  }
  ERR_clear_error();
  close(fd);
  return out;
}

std::string Folder::write(const std::string& name, const std::string& text) const {
  // As editors and Kubernetes do it: a new file takes the place of the old one.
  const std::string path = (directory_.path() / name).string();
  std::ofstream(path + ".new", std::ios::binary) << text;
  std::filesystem::rename(path + ".new", path);
  return path;
}

std::string basic_line(const std::string& credentials) {
  std::string encoded(credentials.size() * 2 + 8, '\0');
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                      reinterpret_cast<const unsigned char*>(credentials.data()), static_cast<int>(credentials.size()));
  encoded.resize(static_cast<std::size_t>(length));
  return "Authorization: Basic " + encoded + "\r\n";
}

}  // namespace roce::web

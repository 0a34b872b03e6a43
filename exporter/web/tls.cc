// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>

namespace roce::web {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

constexpr int kMaxCertificates = 1000;  // in one file

// Suites of TLS 1.2 with forward secrecy that Go offers too; of TLS 1.3 all.
constexpr std::string_view kTls13[] = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                       "TLS_CHACHA20_POLY1305_SHA256"};
constexpr std::string_view kTls12[] = {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                                       "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                                       "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                                       "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                                       "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                                       "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
                                       "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
                                       "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
                                       "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
                                       "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"};
constexpr const char* kDefaultTls12 = "ECDHE+AESGCM:ECDHE+CHACHA20";

// Go also takes these without the hash.
std::string full_name(std::string_view name) {
  std::string out(name);
  if (out.ends_with("CHACHA20_POLY1305")) out += "_SHA256";
  return out;
}

bool is_one_of(std::string_view name, const auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

tl::unexpected<TlsProblem> problem(TlsProblem::Part part, std::string found) {
  ERR_clear_error();
  return tl::unexpected(TlsProblem{part, std::move(found)});
}

// The newest entry of OpenSSL's error queue, as the end of "found ... (...)".
std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "" : std::string(" (") + text + ")";
}

Bio memory(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// OpenSSL's own callback would ask on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

std::vector<Certificate> read_certificates(const std::string& text) {
  std::vector<Certificate> out;
  const Bio bio = memory(text);
  while (bio != nullptr && out.size() < kMaxCertificates) {
    Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
    if (certificate == nullptr) break;
    out.push_back(std::move(certificate));
  }
  return out;
}

// Names of a certificate as Go compares them: DNS names, mail addresses, addresses, URIs.
std::vector<std::string> subject_alternative_names(X509* certificate) {
  std::vector<std::string> out;
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  if (names == nullptr) return out;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
    if (type != GEN_DNS && type != GEN_EMAIL && type != GEN_URI && type != GEN_IPADD) continue;
    const auto* text = static_cast<const ASN1_STRING*>(value);
    const unsigned char* bytes = ASN1_STRING_get0_data(text);
    const auto length = static_cast<std::size_t>(ASN1_STRING_length(text));
    if (type == GEN_IPADD) {
      char buffer[INET6_ADDRSTRLEN] = "";
      if (length == 4) inet_ntop(AF_INET, bytes, buffer, sizeof buffer);
      if (length == 16) inet_ntop(AF_INET6, bytes, buffer, sizeof buffer);
      out.emplace_back(buffer);
    } else {
      out.emplace_back(reinterpret_cast<const char*>(bytes), length);
    }
  }
  GENERAL_NAMES_free(names);
  return out;
}

// What OpenSSL does not keep for us hangs on the context, and goes with it.
struct Extra {
  std::vector<std::string> allowed_sans;
  std::string groups;
};
void free_extra(void*, void* extra, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Extra*>(extra); }
int extra_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_extra);
  return index;
}
const Extra* extra_of(const SSL_CTX* context) {
  return static_cast<const Extra*>(SSL_CTX_get_ex_data(context, extra_index()));
}

int accept_any(int, X509_STORE_CTX*) { return 1; }

int check_names(int good, X509_STORE_CTX* store) {
  if (good != 1 || X509_STORE_CTX_get_error_depth(store) != 0) return good;
  try {
    const auto* connection = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    const Extra* extra = extra_of(SSL_get_SSL_CTX(connection));
    if (extra != nullptr && extra->allowed_sans.empty()) return 1;
    for (const std::string& name : subject_alternative_names(X509_STORE_CTX_get_current_cert(store)))
      if (extra != nullptr && is_one_of(name, extra->allowed_sans)) return 1;
  } catch (...) {
  }
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

tl::expected<double, TlsProblem> use_certificate(SSL_CTX* context, const TlsSettings& settings) {
  using Part = TlsProblem::Part;
  const auto certificates = read_certificates(settings.certificate);
  if (certificates.empty()) return problem(Part::kCertificate, "no certificate in PEM" + reason());
  if (SSL_CTX_use_certificate(context, certificates[0].get()) != 1)
    return problem(Part::kCertificate, "a certificate that OpenSSL refuses" + reason());
  for (std::size_t i = 1; i < certificates.size(); ++i)
    if (SSL_CTX_add1_chain_cert(context, certificates[i].get()) != 1)
      return problem(Part::kCertificate, "a certificate of the chain that OpenSSL refuses" + reason());
  const Bio bio = memory(settings.key);
  const Key key(bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    const bool locked = settings.key.find("ENCRYPTED") != std::string::npos;
    return problem(Part::kKey, locked ? "a key under a passphrase" : "no private key in PEM" + reason());
  }
  if (X509_check_private_key(certificates[0].get(), key.get()) != 1)
    return problem(Part::kKey, "a key that is not the certificate's");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    return problem(Part::kKey, "a key that OpenSSL refuses" + reason());
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificates[0].get()), &end) != 1) return 0;
  return static_cast<double>(timegm(&end));
}

tl::expected<void, TlsProblem> use_client_ca(SSL_CTX* context, const TlsSettings& settings) {
  const auto roots = read_certificates(settings.client_ca);
  if (roots.empty()) return problem(TlsProblem::Part::kClientCa, "no certificate in PEM" + reason());
  for (const Certificate& root : roots)
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get()) != 1 ||
        SSL_CTX_add_client_CA(context, root.get()) != 1)
      return problem(TlsProblem::Part::kClientCa, "a certificate that OpenSSL refuses" + reason());
  return {};
}

tl::expected<void, TlsProblem> use_ciphers(SSL_CTX* context, const std::vector<std::string>& names) {
  std::string tls12, tls13;
  for (const std::string& name : names) {
    const std::string full = full_name(name);
    const bool of_13 = is_one_of(full, kTls13);
    std::string& list = of_13 ? tls13 : tls12;
    list += list.empty() ? "" : ":";
    list += of_13 ? full : OPENSSL_cipher_name(full.c_str());
  }
  // Where only suites of one version are named, those of the other one stay as they are by default.
  if (SSL_CTX_set_cipher_list(context, tls12.empty() ? kDefaultTls12 : tls12.c_str()) != 1 ||
      (!tls13.empty() && SSL_CTX_set_ciphersuites(context, tls13.c_str()) != 1))
    return problem(TlsProblem::Part::kCiphers, "cipher suites that OpenSSL refuses" + reason());
  return {};
}

}  // namespace

bool known_cipher(std::string_view name) {
  const std::string full = full_name(name);
  return is_one_of(full, kTls12) || is_one_of(full, kTls13);
}

tl::expected<TlsContext, TlsProblem> make_tls_context(const TlsSettings& settings) {
  using Part = TlsProblem::Part;
  ERR_clear_error();
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return problem(Part::kOther, "no memory");
  SSL_CTX* raw = context.get();
  SSL_CTX_set_min_proto_version(raw, settings.tls13_only ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(raw, settings.tls12_only ? TLS1_2_VERSION : TLS1_3_VERSION);
  forbid_resumption(raw);
  SSL_CTX_set_options(raw, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  if (settings.server_chooses) SSL_CTX_set_options(raw, SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_default_passwd_cb(raw, no_passphrase);
  constexpr unsigned char kId[] = "roce";
  SSL_CTX_set_session_id_context(raw, kId, sizeof kId - 1);

  const auto expires = use_certificate(raw, settings);
  if (!expires) return tl::unexpected(expires.error());
  if (auto used = use_ciphers(raw, settings.ciphers); !used) return tl::unexpected(used.error());
  std::string groups;
  for (const std::string& group : settings.groups) groups += (groups.empty() ? "" : ":") + group;
  if (!groups.empty() && SSL_CTX_set1_groups_list(raw, groups.c_str()) != 1)
    return problem(Part::kGroups, "curves that OpenSSL refuses" + reason());

  const bool verifies =
      settings.client_auth == ClientAuth::kVerifyIfGiven || settings.client_auth == ClientAuth::kRequireAndVerify;
  if (!settings.client_ca.empty())
    if (auto used = use_client_ca(raw, settings); !used) return tl::unexpected(used.error());
  const bool requires_one =
      settings.client_auth == ClientAuth::kRequireAny || settings.client_auth == ClientAuth::kRequireAndVerify;
  if (settings.client_auth == ClientAuth::kNone)
    SSL_CTX_set_verify(raw, SSL_VERIFY_NONE, nullptr);
  else
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | (requires_one ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       verifies ? check_names : accept_any);
  auto extra = std::make_unique<Extra>(Extra{settings.allowed_sans, groups});
  if (SSL_CTX_set_ex_data(raw, extra_index(), extra.get()) != 1) return problem(Part::kOther, "no memory");
  static_cast<void>(extra.release());
  ERR_clear_error();
  return TlsContext{context, *expires};
}

void forbid_resumption(SSL_CTX* context) {
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
}

bool adopt_context(SSL* connection, SSL_CTX* context) {
  if (SSL_set_SSL_CTX(connection, context) == nullptr) return false;
  // Certificate, ciphers and trusted roots came with it; these are copied when a connection is made.
  SSL_set_verify(connection, SSL_CTX_get_verify_mode(context), SSL_CTX_get_verify_callback(context));
  SSL_clear_options(connection, SSL_get_options(connection));
  SSL_set_options(connection, SSL_CTX_get_options(context));
  if (SSL_set_num_tickets(connection, 0) != 1) return false;
  const Extra* extra = extra_of(context);
  if (extra != nullptr && !extra->groups.empty() && SSL_set1_groups_list(connection, extra->groups.c_str()) != 1)
    return false;
  return SSL_set_min_proto_version(connection, static_cast<int>(SSL_CTX_get_min_proto_version(context))) == 1 &&
         SSL_set_max_proto_version(connection, static_cast<int>(SSL_CTX_get_max_proto_version(context))) == 1;
}

}  // namespace roce::web

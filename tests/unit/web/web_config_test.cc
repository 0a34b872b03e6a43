// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/web_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <map>

#include "tests/unit/web/tls_client.h"

namespace roce::web {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kHash = "$2y$04$abcdefghijklmnopqrstuuHzWsPIhNqvJQkUO2KyJkOhWNfcjgR5m";

// Files by path; any other is absent.
const std::map<std::string, std::string>& disk() {
  static const std::map<std::string, std::string> kDisk = [] {
    const Identity ca = make_identity("ca");
    const Identity server = make_identity("server", &ca);
    return std::map<std::string, std::string>{{"/etc/roce/server.pem", server.certificate + ca.certificate},
                                              {"/etc/roce/server.key", server.key},
                                              {"/etc/roce/ca.pem", ca.certificate},
                                              {"/other/ca.pem", ca.certificate},
                                              {"/etc/roce/other.key", ca.key},
                                              {"/etc/roce/old.pem", make_identity("old", &ca, "", 0).certificate},
                                              {"/etc/roce/empty", ""}};
  }();
  return kDisk;
}

tl::expected<std::string, std::string> read(const std::string& path) {
  const auto file = disk().find(path);
  if (file == disk().end()) return tl::unexpected(std::string("no such file"));
  return file->second;
}

tl::expected<WebConfig, std::string> parse(std::string_view text, std::vector<std::string>* files = nullptr) {
  return parse_web_config(text, "/etc/roce/web.yml", read, files);
}

std::string error_of(std::string_view text) {
  const auto config = parse(text);
  return config ? "accepted" : config.error();
}

const std::string kTlsSection = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";

TEST(WebConfigTest, AnEmptyFileAsksForNothing) {
  for (const char* text : {"", "# nothing\n", "tls_server_config:\n", "tls_server_config: {}\n", "basic_auth_users:\n",
                           "http_server_config:\n"}) {
    const auto config = parse(text);
    ASSERT_TRUE(config) << config.error();
    EXPECT_EQ(config->tls, nullptr);
    EXPECT_THAT(config->users, IsEmpty());
    EXPECT_THAT(config->headers, IsEmpty());
  }
}

TEST(WebConfigTest, ReadsEverything) {
  std::vector<std::string> files;
  const auto config = parse(kTlsSection +
                                "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: /other/ca.pem\n"
                                "  client_allowed_sans: [prometheus.example, 'spiffe://x/y']\n"
                                "  min_version: TLS12\n  max_version: TLS13\n"
                                "  cipher_suites:\n    - TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\n"
                                "    - TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305\n    - TLS_AES_256_GCM_SHA384\n"
                                "  curve_preferences: [X25519, CurveP384]\n  prefer_server_cipher_suites: false\n"
                                "http_server_config:\n  http2: true\n  headers:\n"
                                "    Strict-Transport-Security: max-age=63072000\n    X-Frame-Options: deny\n"
                                "basic_auth_users:\n  alice: " +
                                std::string(kHash) + "\n  bob: '" + kHash + "'\n",
                            &files);
  ASSERT_TRUE(config) << config.error();
  EXPECT_THAT(files, ElementsAre("/etc/roce/server.pem", "/etc/roce/server.key", "/other/ca.pem"));
  ASSERT_NE(config->tls, nullptr);
  EXPECT_TRUE(config->verifies_clients);
  EXPECT_GT(config->certificate_expires, 1.7e9);
  EXPECT_EQ(SSL_CTX_get_verify_mode(config->tls.get()), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  EXPECT_EQ(config->users.size(), 2u);
  EXPECT_EQ(config->users[1].name, "bob");
  EXPECT_THAT(config->headers, ElementsAre(std::pair("Strict-Transport-Security", "max-age=63072000"),
                                           std::pair("X-Frame-Options", "deny")));
  EXPECT_THAT(config->remarks, ElementsAre(HasSubstr("http2")));
}

TEST(WebConfigTest, RemarksOnWhatIsOfDoubtfulUse) {
  EXPECT_THAT(parse("basic_auth_users: {a: " + std::string(kHash) + "}")->remarks,
              ElementsAre(HasSubstr("users without TLS")));
  EXPECT_THAT(parse(kTlsSection + "  client_auth_type: RequireAnyClientCert\n")->remarks,
              ElementsAre(HasSubstr("not checked (RequireAnyClientCert)")));
  EXPECT_THAT(parse(kTlsSection + "  client_auth_type: NoClientCert\n")->remarks, IsEmpty());
}

TEST(WebConfigTest, TakesPemInTheFileItself) {
  std::string text = "tls_server_config:\n";
  for (const auto& [key, path] :
       {std::pair{"cert", "/etc/roce/server.pem"}, std::pair{"key", "/etc/roce/server.key"}}) {
    text += std::string("  ") + key + ": |\n";
    std::string_view pem = disk().at(path);
    while (!pem.empty()) {
      text += "    " + std::string(pem.substr(0, pem.find('\n') + 1));
      pem.remove_prefix(pem.find('\n') + 1);
    }
  }
  const auto config = parse(text);
  ASSERT_TRUE(config) << config.error();
  EXPECT_NE(config->tls, nullptr);
}

TEST(WebConfigTest, NamesFileLineAndKeyOfWhatIsWrong) {
  const std::string begin = "/etc/roce/web.yml:";
  EXPECT_EQ(error_of("a: 1\n"),
            begin +
                "1: key `a`: found an unknown key, allowed tls_server_config, http_server_config or "
                "basic_auth_users");
  EXPECT_THAT(error_of("\nbasic_auth_user: {}\n"), HasSubstr("did you mean `basic_auth_users`?"));
  EXPECT_THAT(error_of("basic_auth_users: {}\nbasic_auth_users: {}\n"),
              StartsWith(begin + "2: key `basic_auth_users`: found it again (first in line 1)"));
  EXPECT_THAT(error_of("[]"), StartsWith(begin + "1: found a list, allowed a mapping"));
  EXPECT_THAT(error_of("tls_server_config: x"), StartsWith(begin + "1: key `tls_server_config`: found `x`"));
  EXPECT_THAT(error_of("tls_server_config:\n  cert_file: server.pem\n"),
              StartsWith(begin + "2: key `tls_server_config`: found no key_file"));
  EXPECT_THAT(error_of("tls_server_config:\n  min_version: TLS12\n"), HasSubstr("found no cert_file"));
  EXPECT_EQ(
      error_of("tls_server_config:\n  cert_file: absent.pem\n  key_file: server.key\n"),
      begin + "2: key `tls_server_config.cert_file`: found no such file (/etc/roce/absent.pem), allowed a file in PEM");
  EXPECT_THAT(error_of("tls_server_config:\n  cert_file: empty\n  key_file: server.key\n"),
              StartsWith(begin + "2: key `tls_server_config.cert_file`: found no certificate in PEM"));
  EXPECT_THAT(error_of("tls_server_config:\n  cert_file: server.pem\n  key_file: server.pem\n"),
              StartsWith(begin + "3: key `tls_server_config.key_file`: found no private key in PEM"));
  EXPECT_THAT(error_of("tls_server_config:\n  cert_file: server.pem\n  key_file: other.key\n"),
              StartsWith(begin + "3: key `tls_server_config.key_file`: found a key that is not the certificate's"));
  EXPECT_THAT(error_of(kTlsSection + "  cert: x\n"),
              StartsWith(begin + "4: key `tls_server_config.cert`: found it beside `tls_server_config.cert_file`"));
  EXPECT_THAT(error_of(kTlsSection + "  min_version: TLS11\n"),
              StartsWith(begin + "4: key `tls_server_config.min_version`: found `TLS11`, allowed TLS12 or TLS13"));
  EXPECT_THAT(error_of(kTlsSection + "  min_version: TLS13\n  max_version: TLS12\n"),
              HasSubstr("min_version above max_version"));
  EXPECT_THAT(error_of(kTlsSection + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n"),
              HasSubstr("cipher_suites`: found `TLS_RSA_WITH_RC4_128_SHA`"));
  EXPECT_THAT(error_of(kTlsSection + "  cipher_suites: []\n"), HasSubstr("found an empty list"));
  EXPECT_THAT(error_of(kTlsSection + "  curve_preferences: [P-256]\n"), HasSubstr("found `P-256`, allowed CurveP256"));
  EXPECT_THAT(error_of(kTlsSection + "  client_auth_type: requireAndVerifyClientCert\n"),
              HasSubstr("did you mean `RequireAndVerifyClientCert`?"));
  EXPECT_THAT(error_of(kTlsSection + "  client_auth_type: RequireAndVerifyClientCert\n"),
              HasSubstr("without client_ca_file"));
  EXPECT_THAT(error_of(kTlsSection + "  client_ca_file: ca.pem\n"), HasSubstr("found it without client_auth_type"));
  EXPECT_THAT(error_of(kTlsSection + "  client_allowed_sans: [a]\n"), HasSubstr("where certificates are not checked"));
  EXPECT_THAT(error_of(kTlsSection + "  prefer_server_cipher_suites: 1\n"),
              HasSubstr("found `1`, allowed true or false"));
  EXPECT_THAT(error_of("http_server_config:\n  headers:\n    X-Powered-By: x\n"),
              StartsWith(begin + "3: key `http_server_config.headers.X-Powered-By`: found an unknown key"));
  EXPECT_THAT(error_of("http_server_config:\n  headers:\n    X-Frame-Options: maybe\n"),
              HasSubstr("found `maybe`, allowed deny or sameorigin"));
  EXPECT_THAT(error_of("http_server_config:\n  headers:\n    Content-Security-Policy: \"a\\nb\"\n"),
              HasSubstr("one line"));
}

TEST(WebConfigTest, TakesBcryptOnlyAndNeverRepeatsAHash) {
  const std::string good = kHash;
  for (const char* version : {"2a", "2b", "2y"}) {
    std::string hash = good;
    hash.replace(1, 2, version);
    EXPECT_EQ(error_of("basic_auth_users:\n  a: " + hash + "\n"), "accepted");
  }
  std::vector<std::string> bad = {"secret-password",
                                  good.substr(0, 59),
                                  good + "a",
                                  "$2x$" + good.substr(4),
                                  "$5$salt$abcdefghijklmnopqrstuuHzWsPIhNqvJQkUO2KyJkOhWNfcjgR5",
                                  "$2y$03$" + good.substr(7),
                                  "$2y$16$" + good.substr(7),
                                  "$2y$0x$" + good.substr(7),
                                  good.substr(0, 59) + "!"};
  for (const std::string& hash : bad) {
    const std::string error = error_of("basic_auth_users:\n  a: '" + hash + "'\n");
    EXPECT_THAT(error, HasSubstr(":2: key `basic_auth_users.a`: found ")) << hash;
    EXPECT_THAT(error, testing::Not(HasSubstr(hash.substr(0, 12)))) << error;
  }
  EXPECT_THAT(error_of("basic_auth_users:\n  'a:b': " + good + "\n"), HasSubstr("names without a colon"));
  EXPECT_THAT(error_of("basic_auth_users:\n  a: " + good + "\n  a: " + good + "\n"), HasSubstr("it again"));
  EXPECT_THAT(error_of("basic_auth_users: [a]\n"), HasSubstr("found a list, allowed a mapping"));
}

TEST(WebConfigTest, NamesEveryProblemOfAFileInOneLine) {
  const std::string error = error_of("a: 1\nb: 2\nbasic_auth_users:\n  c: d\n");
  EXPECT_THAT(error,
              HasSubstr("; and 2 more: line 2: key `b`: found an unknown key; line 4: key `basic_auth_users.c`"));
  EXPECT_THAT(error, testing::Not(HasSubstr("\n")));
}

TEST(WebConfigTest, CheckConfigKnowsAWebConfigurationByItsKeys) {
  const Folder folder;
  const auto check = [&](const std::string& text) { return check_web_config(folder.write("x.yml", text)); };
  const auto good = check("# comment\nbasic_auth_users:\n  #a: b\nhttp_server_config:\n  http2: true\n");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->code, 0);
  EXPECT_EQ(good->out, folder.path() + "/x.yml: ok (web configuration)\n" + folder.path() +
                           "/x.yml: http2 has no effect: HTTP/1.1 is served\n");
  for (const char* text : {"tls_server_config:\n  cert_file: absent.pem\n  key_file: absent.pem\n",
                           "log:\n  level: info\ntls_server_config: {}\n", "tls_server_config: {\n"}) {
    const auto bad = check(text);
    ASSERT_TRUE(bad) << text;
    EXPECT_EQ(bad->code, 2) << text;
    EXPECT_THAT(bad->err, StartsWith(folder.path() + "/x.yml:"));
    EXPECT_EQ(std::count(bad->err.begin(), bad->err.end(), '\n'), 1) << bad->err;
  }
  for (const char* text : {"", "log:\n  level: info\n", "web: {config_file: web.yml}\n", "  tls_server_config: {}\n"})
    EXPECT_FALSE(check(text)) << text;
  EXPECT_FALSE(check_web_config("/no/such.yml"));
}

TEST(WebConfigTest, ReadsRegularFilesOnly) {
  const Folder folder;
  EXPECT_THAT(load_web_config(folder.path(), nullptr).error(), HasSubstr("no regular file"));
  EXPECT_THAT(load_web_config("/no/such.yml", nullptr).error(),
              StartsWith("/no/such.yml: found no way to read it (No such file"));
  EXPECT_TRUE(load_web_config(folder.write("web.yml", "# nothing\n"), nullptr));
  EXPECT_THAT(load_web_config(folder.write("big.yml", std::string(2 << 20, '#')), nullptr).error(),
              HasSubstr("more than 1 MiB"));
}

}  // namespace
}  // namespace roce::web

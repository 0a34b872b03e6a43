// SPDX-License-Identifier: Apache-2.0
//
// The server under a web configuration: TLS, client certificates, users, headers, and files that change under it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <thread>

#include "exporter/web/server.h"
#include "tests/unit/web/tls_client.h"

namespace roce::web {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kTls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";

int port_of(const std::string& url) { return std::atoi(url.c_str() + url.rfind(':') + 1); }

Response describe(const Request& request) {
  Response response;
  response.body = std::string(request.tls ? "tls" : "plain") + (request.client_certificate ? " certificate" : "") +
                  (request.authenticated() ? " authenticated" : "") + " user=" + request.user + "\n";
  return response;
}

class TlsServerTest : public testing::Test {
 protected:
  TlsServerTest() {
    folder_.write("server.pem", server_.certificate);
    folder_.write("server.key", server_.key);
    folder_.write("ca.pem", ca_.certificate);
  }

  // Starts on this configuration.
  void serve(const std::string& config) {
    ServerOptions options;
    options.listen_addresses = {"127.0.0.1:0"};
    options.config_file = folder_.write("web.yml", config);
    options.config_interval = milliseconds{0};
    options.counters = &counters_;
    std::vector<Route> routes;
    routes.push_back({"/", {"GET"}, describe});
    routes.push_back({"/own", {"GET"}, describe, true});
    routes.push_back({"/policy", {"GET"}, [](const Request&) {
                        Response response;
                        response.headers = {{"Content-Security-Policy", "default-src 'none'"}, {"X-Other", "1"}};
                        return response;
                      }});
    auto started = Server::start(options, std::move(routes));
    ASSERT_TRUE(started) << started.error().message();
    instance_ = std::move(*started);
    port_ = port_of(instance_->urls().at(0));
  }
  void change(const std::string& config) { folder_.write("web.yml", config); }

  TlsReply get(const TlsClientOptions& options = {}, const std::string& headers = "") const {
    return tls_get(port_, "/", options, headers);
  }
  static TlsClientOptions with(const Identity& identity) {
    TlsClientOptions options;
    options.identity = identity;
    return options;
  }
  static TlsClientOptions version(int wanted) {
    TlsClientOptions options;
    options.version = wanted;
    return options;
  }

  const Identity ca_ = make_identity("ca");
  const Identity server_ = make_identity("server-1", &ca_, "DNS:localhost,IP:127.0.0.1");
  const Identity client_ = make_identity("client", &ca_, "DNS:prometheus.example");
  const Identity stranger_ = make_identity("stranger");
  const Folder folder_;
  GuardCounters counters_;
  std::unique_ptr<Server> instance_;
  int port_ = 0;
};

TEST_F(TlsServerTest, ServesTlsAndSaysSo) {
  serve(kTls);
  EXPECT_THAT(instance_->urls().at(0), StartsWith("https://127.0.0.1:"));
  TlsClientOptions options;
  options.trust = ca_.certificate;
  const TlsReply reply = get(options);
  EXPECT_EQ(reply.reply.status, 200);
  EXPECT_EQ(reply.reply.body, "tls user=\n");
  EXPECT_EQ(reply.protocol, "TLSv1.3");
  options.trust = stranger_.certificate;
  EXPECT_FALSE(get(options).handshake);
}

TEST_F(TlsServerTest, PlainHttpGetsNothingFromATlsPort) {
  serve(kTls);
  EXPECT_EQ(fetch(port_, "GET", "/").status, 0);
  EXPECT_EQ(get().reply.status, 200);
}

TEST_F(TlsServerTest, RefusesWhatIsOlderThanTls12) {
  serve(kTls);
  EXPECT_FALSE(get(version(TLS1_VERSION)).handshake);
  EXPECT_FALSE(get(version(TLS1_1_VERSION)).handshake);
  EXPECT_EQ(get(version(TLS1_2_VERSION)).protocol, "TLSv1.2");
  EXPECT_EQ(get(version(TLS1_3_VERSION)).protocol, "TLSv1.3");
}

TEST_F(TlsServerTest, OffersTheConfiguredVersionsAndCiphers) {
  serve(std::string(kTls) + "  min_version: TLS13\n");
  EXPECT_FALSE(get(version(TLS1_2_VERSION)).handshake);
  EXPECT_TRUE(get(version(TLS1_3_VERSION)).handshake);
  change(std::string(kTls) + "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n");
  EXPECT_FALSE(get(version(TLS1_3_VERSION)).handshake);
  EXPECT_EQ(get().cipher, "ECDHE-ECDSA-AES256-GCM-SHA384");
  TlsClientOptions other;
  other.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256";
  EXPECT_FALSE(get(other).handshake);
  change(std::string(kTls) + "  max_version: TLS12\n");
  EXPECT_EQ(get(other).cipher, "ECDHE-ECDSA-AES128-GCM-SHA256");
  other.ciphers = "ECDHE-ECDSA-AES128-SHA";  // not offered unless it is named
  EXPECT_FALSE(get(other).handshake);
}

TEST_F(TlsServerTest, RequiresACheckedClientCertificate) {
  serve(std::string(kTls) + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n");
  for (const int tls : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options = with(client_);
    options.version = tls;
    EXPECT_EQ(get(options).reply.body, "tls certificate authenticated user=\n");
    options.identity = stranger_;
    EXPECT_EQ(get(options).reply.status, 0);
    options.identity = make_identity("expired", &ca_, "", -1);
    EXPECT_EQ(get(options).reply.status, 0);
    options.identity = {};
    EXPECT_EQ(get(options).reply.status, 0);
  }
}

TEST_F(TlsServerTest, ChecksACertificateOnlyWhereOneIsGiven) {
  serve(std::string(kTls) + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n");
  EXPECT_EQ(get().reply.body, "tls user=\n");
  EXPECT_EQ(get(with(client_)).reply.body, "tls certificate authenticated user=\n");
  EXPECT_EQ(get(with(stranger_)).reply.status, 0);
}

TEST_F(TlsServerTest, AnUncheckedCertificateProvesNothing) {
  for (const char* type : {"RequestClientCert", "RequireAnyClientCert"}) {
    serve(std::string(kTls) + "  client_auth_type: " + type + "\n");
    EXPECT_EQ(get(with(stranger_)).reply.body, "tls user=\n") << type;
    EXPECT_EQ(get(with(client_)).reply.body, "tls user=\n") << type;
    EXPECT_EQ(get().reply.status, std::string_view(type) == "RequestClientCert" ? 200 : 0) << type;
  }
}

TEST_F(TlsServerTest, TakesOnlyNamedClients) {
  const std::string begin =
      std::string(kTls) + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
  serve(begin + "  client_allowed_sans: [other.example, prometheus.example]\n");
  EXPECT_EQ(get(with(client_)).reply.status, 200);
  EXPECT_EQ(get(with(make_identity("prometheus.example", &ca_))).reply.status, 0) << "a common name is no SAN";
  EXPECT_EQ(get(with(make_identity("x", &ca_, "DNS:prometheus.example.evil"))).reply.status, 0);
  EXPECT_EQ(get(with(make_identity("x", nullptr, "DNS:prometheus.example"))).reply.status, 0) << "not by the CA";
  change(begin + "  client_allowed_sans: ['10.1.2.3', 'spiffe://x/y', 'a@b', 'fd00::1']\n");
  EXPECT_EQ(get(with(client_)).reply.status, 0);
  for (const char* san : {"IP:10.1.2.3", "URI:spiffe://x/y", "email:a@b", "IP:fd00::1"})
    EXPECT_EQ(get(with(make_identity("x", &ca_, san))).reply.status, 200) << san;
  EXPECT_EQ(get(with(make_identity("x", &ca_, "IP:10.1.2.4"))).reply.status, 0);
}

std::string users_section() {
  return "basic_auth_users:\n  alice: $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";  // secret
}

TEST_F(TlsServerTest, AsksForAUser) {
  serve(std::string(kTls) + users_section());
  const TlsReply refused = get();
  EXPECT_EQ(refused.reply.status, 401);
  EXPECT_THAT(refused.reply.header("WWW-Authenticate"), StartsWith("Basic realm="));
  EXPECT_EQ(get({}, basic_line("alice:secret")).reply.body, "tls authenticated user=alice\n");
  EXPECT_EQ(get({}, basic_line("alice:wrong")).reply.status, 401);
  EXPECT_EQ(get({}, basic_line("bob:secret")).reply.status, 401);
  EXPECT_EQ(get({}, "Authorization: Bearer secret\r\n").reply.status, 401);
  EXPECT_EQ(tls_get(port_, "/no/such/path").reply.status, 401) << "what there is, is not told either";
  EXPECT_EQ(counters_.unauthorized, 5u);
  EXPECT_EQ(counters_.password_checks, 3u);
}

TEST_F(TlsServerTest, AFloodOfPasswordsIsTurnedAwayWithoutBeingHashed) {
  serve(users_section());
  EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:secret")).body, "plain authenticated user=alice\n");
  int statuses[600] = {};
  for (int i = 0; i < 200; ++i) ++statuses[fetch(port_, "GET", "/", basic_line("alice:" + std::to_string(i))).status];
  EXPECT_EQ(statuses[401] + statuses[429], 200);
  EXPECT_GT(statuses[429], 0);
  EXPECT_EQ(counters_.password_checks, 1u + static_cast<unsigned>(statuses[401])) << "no hash for a 429";
  EXPECT_EQ(counters_.limited, static_cast<unsigned>(statuses[429]));
  EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:secret")).status, 200);
}

TEST_F(TlsServerTest, ARouteMayJudgeForItself) {
  serve(std::string(kTls) + users_section());
  EXPECT_EQ(tls_get(port_, "/own").reply.body, "tls user=\n");
  EXPECT_EQ(tls_get(port_, "/own", {}, "Authorization: Bearer x\r\n").reply.body, "tls user=\n");
  EXPECT_EQ(tls_get(port_, "/own", {}, basic_line("alice:secret")).reply.body, "tls authenticated user=alice\n");
  EXPECT_EQ(tls_get(port_, "/own", {}, basic_line("alice:wrong")).reply.status, 401);
}

TEST_F(TlsServerTest, SendsTheConfiguredHeadersOnce) {
  serve(
      "http_server_config:\n  headers:\n    Content-Security-Policy: default-src 'self'\n"
      "    X-Content-Type-Options: nosniff\n    X-Frame-Options: deny\n");
  for (const char* path : {"/", "/policy", "/no/such"}) {
    const Reply reply = fetch(port_, "GET", path);
    EXPECT_EQ(reply.header("Content-Security-Policy"), "default-src 'self'") << path;
    for (const char* name : {"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options"})
      EXPECT_EQ(reply.count(name), 1) << path << name;
  }
  EXPECT_EQ(fetch(port_, "GET", "/policy").header("X-Other"), "1");
  Client garbage(port_);
  garbage.send("GET / HTTP/9.9\r\n\r\n");
  EXPECT_EQ(garbage.read().header("X-Frame-Options"), "deny");
}

TEST_F(TlsServerTest, TakesANewCertificateWithoutARestart) {
  serve(kTls);
  EXPECT_EQ(get().server_name, "server-1");
  const Identity next = make_identity("server-2", &ca_);
  folder_.write("server.pem", next.certificate);
  // The key is still the old one: what was served before is served on.
  EXPECT_EQ(get().server_name, "server-1");
  EXPECT_FALSE(counters_.last_load_good);
  folder_.write("server.key", next.key);
  EXPECT_EQ(get().server_name, "server-2");
  EXPECT_TRUE(counters_.last_load_good);
}

TEST_F(TlsServerTest, TakesNewUsersAndKeepsTheOldOnesOfABadFile) {
  serve(users_section());
  const auto status = [&](const std::string& credentials) {
    return fetch(port_, "GET", "/", basic_line(credentials)).status;
  };
  EXPECT_EQ(status("alice:secret"), 200);
  change("basic_auth_users:\n  alice: secret\n");
  EXPECT_EQ(status("alice:secret"), 200);
  EXPECT_FALSE(counters_.last_load_good);
  change("basic_auth_users:\n  bob: $2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n");
  EXPECT_EQ(status("bob:secret"), 200);
  EXPECT_EQ(status("alice:secret"), 401) << "what was remembered of another file must not count";
  EXPECT_TRUE(counters_.last_load_good);
  std::remove((folder_.path() + "/web.yml").c_str());
  EXPECT_EQ(status("bob:secret"), 200) << "a file that is gone opens nothing";
  EXPECT_FALSE(counters_.last_load_good);
}

TEST_F(TlsServerTest, TlsStaysAsItWasAtTheStart) {
  serve(kTls);
  change("# no TLS any more\n");
  EXPECT_EQ(get().reply.status, 200);
  EXPECT_FALSE(counters_.last_load_good);
  serve(users_section());
  change(std::string(kTls) + users_section());
  EXPECT_EQ(fetch(port_, "GET", "/").status, 401);
}

TEST_F(TlsServerTest, AConnectionKeepsWhatItsHandshakeProved) {
  serve(std::string(kTls) + "  client_auth_type: RequestClientCert\n");
  EXPECT_EQ(get(with(client_)).reply.body, "tls user=\n");
  change(std::string(kTls) + "  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.pem\n");
  EXPECT_EQ(get(with(client_)).reply.body, "tls certificate authenticated user=\n");
  const Identity other_ca = make_identity("other-ca");
  folder_.write("ca.pem", other_ca.certificate);
  EXPECT_EQ(get(with(client_)).reply.status, 0);
  EXPECT_EQ(get(with(make_identity("new", &other_ca))).reply.status, 200);
}

TEST_F(TlsServerTest, ASessionIsNotGoneOnWithUnderOtherRules) {
  const std::string rules =
      std::string(kTls) + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
  for (const int tls : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    folder_.write("ca.pem", ca_.certificate);
    serve(rules);
    std::shared_ptr<SSL_SESSION> session;
    TlsClientOptions options = with(client_);
    options.version = tls;
    options.session = &session;
    ASSERT_EQ(get(options).reply.status, 200);
    ASSERT_NE(session, nullptr);
    EXPECT_FALSE(SSL_SESSION_is_resumable(session.get())) << "the server gives no session away";
    EXPECT_FALSE(get(options).resumed);
    folder_.write("ca.pem", stranger_.certificate);
    const TlsReply reply = get(options);
    EXPECT_FALSE(reply.resumed);
    EXPECT_EQ(reply.reply.status, 0) << "the certificate is of a CA that is trusted no more";
  }
}

TEST_F(TlsServerTest, WhatWasRememberedOfAUserOutlivesAReload) {
  serve(users_section());
  EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:secret")).status, 200);
  EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:wrong")).status, 401);
  EXPECT_EQ(counters_.password_checks, 2u);
  for (int i = 0; i < 20; ++i) {
    change(users_section() + "# change " + std::string(static_cast<std::size_t>(i), '.') + "\n");
    EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:secret")).status, 200);
    EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:wrong")).status, 401);
  }
  EXPECT_EQ(counters_.password_checks, 2u);
  // Another hash for the same name: what was right before has to be checked again.
  change("basic_auth_users:\n  alice: $2y$04$abcdefghijklmnopqrstuuSgB9nvSEJjdcWxaofZh7vGv3zEPKMZy\n");
  EXPECT_EQ(fetch(port_, "GET", "/", basic_line("alice:secret")).status, 401);
  EXPECT_EQ(counters_.password_checks, 3u);
}

TEST_F(TlsServerTest, SurvivesGarbageBeforeAndInTheHandshake) {
  serve(kTls);
  for (const std::string& bytes :
       {std::string("\x16\x03\x01\x02\x00\x01", 6), std::string("\x16\x03\x01\xff\xff", 5) + std::string(70000, 'x'),
        std::string(300, '\0'), std::string("\x80\x2e\x01\x00\x02", 5), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    Client client(port_);
    client.send(bytes);
    client.read();
  }
  EXPECT_EQ(get().reply.status, 200);
}

TEST_F(TlsServerTest, ManyHandshakesWhileTheFilesChange) {
  serve(kTls);
  const Identity other = make_identity("server-2", &ca_);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; !done; ++i) {
      const Identity& now = i % 2 == 0 ? other : server_;
      folder_.write("server.key", now.key);
      folder_.write("server.pem", now.certificate);
    }
  });
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int c = 0; c < 4; ++c)
    clients.emplace_back([&] {
      for (int i = 0; i < 10; ++i) good += get().reply.status == 200 ? 1 : 0;
    });
  for (std::thread& client : clients) client.join();
  done = true;
  writer.join();
  EXPECT_EQ(good, 40);
}

TEST(WebConfigStartTest, ABadFileIsNoStart) {
  const Folder folder;
  ServerOptions options;
  options.listen_addresses = {"127.0.0.1:0"};
  options.config_file = folder.write("web.yml", "tls_server_config:\n  cert_file: absent.pem\n  key_file: x\n");
  const auto server = Server::start(options, {});
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message(),
              StartsWith(options.config_file + ":2: key `tls_server_config.cert_file`: found "));
  EXPECT_THAT(server.error().message(), testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace roce::web

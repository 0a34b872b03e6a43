// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <future>
#include <stdexcept>
#include <thread>

#include "exporter/web/http.h"
#include "tests/unit/web/http_client.h"

namespace roce::web {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

int port_of(const std::string& url) { return std::atoi(url.c_str() + url.rfind(':') + 1); }

const std::string& page_text() {
  static const std::string kText = [] {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "roce_port_state{device=\"rxe0\",port=\"" + std::to_string(i) + "\"} 4\n";
    return text;
  }();
  return kText;
}

Route route(std::string path, std::vector<std::string> methods, Handler handler) {
  return {std::move(path), std::move(methods), std::move(handler)};
}

Response text_response(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

// Shows a handler's view of the request.
Response echo(const Request& request) {
  std::string text = request.method + " " + request.path + " from " + request.remote_address +
                     (request.from_loopback ? " (loopback)" : "") + "\n";
  for (const auto& [name, value] : request.query) text += name + "=" + value + "\n";
  text += "agent " + std::string(request.header("USER-agent")) + "\n";
  return text_response(text);
}

std::vector<Route> usual_routes() {
  const auto page = [](const Request&) {
    Response response = text_response(page_text());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.compress = true;
    return response;
  };
  return {
      route("/", {"GET"}, echo),
      route("/metrics", {"GET"}, page),
      route("/echo", {"GET"}, echo),
      route("/-/reload", {"POST"}, echo),
      route("/both", {"GET", "POST"}, echo),
      route("/throw", {"GET"}, [](const Request&) -> Response { throw std::runtime_error("broken"); }),
      route("/throw-number", {"GET"}, [](const Request&) -> Response { throw 7; }),
      route("/no-memory", {"GET"}, [](const Request&) -> Response { throw std::bad_alloc(); }),
      route("/empty", {"GET"},
            [](const Request&) {
              Response response;
              response.status = 204;
              response.body = "never sent";
              return response;
            }),
      route("/headers", {"GET"},
            [](const Request&) {
              Response response = text_response("x");
              response.status = 503;
              response.headers = {{"X-Good", "1"}, {"X-Bad", "1\r\nX-Injected: 1"}};
              return response;
            }),
      route("/large", {"GET"}, [](const Request&) { return text_response(std::string(16 << 20, 'x')); }),
  };
}

ServerOptions local_options() {
  ServerOptions options;
  options.listen_addresses = {"127.0.0.1:0"};
  return options;
}

std::unique_ptr<Server> start(const ServerOptions& options, std::vector<Route> routes = usual_routes()) {
  auto server = Server::start(options, std::move(routes));
  EXPECT_TRUE(server) << server.error().message();
  return server ? std::move(*server) : nullptr;
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = start(local_options());
    ASSERT_NE(server_, nullptr);
    port_ = port_of(server_->urls().at(0));
  }
  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_EQ(fetch(port_, "GET", "/metrics").status, 200) << "the server has suffered";
  }

  std::unique_ptr<Server> server_;
  int port_ = 0;
};

TEST_F(ServerTest, AnswersExactPathsOnly) {
  EXPECT_EQ(fetch(port_, "GET", "/metrics").body, page_text());
  EXPECT_EQ(fetch(port_, "GET", "/").status, 200);
  EXPECT_EQ(fetch(port_, "GET", "/%6detrics").status, 200);
  EXPECT_EQ(fetch(port_, "GET", "http://any.host:" + std::to_string(port_) + "/metrics").status, 200);
  for (const char* target : {"/metricsfoo",
                             "/metrics/",
                             "/Metrics",
                             "/met",
                             "//metrics",
                             "//",
                             "/metrics%00",
                             "/metrics%2f",
                             "/./metrics",
                             "/x/../metrics",
                             "/../etc/passwd",
                             "/..%2f..%2fetc/passwd",
                             "/%2e%2e/%2e%2e/etc/passwd",
                             "/%2e/metrics",
                             "/..\\metrics",
                             "/metrics;x=1",
                             "/etc/passwd",
                             "/index.html",
                             "/metrics%20",
                             "/metrics.",
                             "/%25%36%64etrics"})
    EXPECT_EQ(fetch(port_, "GET", target).status, 404) << target;
  for (const char* target : {"/%", "/%zz", "/metrics%1"}) EXPECT_EQ(fetch(port_, "GET", target).status, 400) << target;
}

TEST_F(ServerTest, SaysNothingOfItselfAndForbidsSniffing) {
  for (const char* target : {"/metrics", "/nothing", "/throw"}) {
    const Reply reply = fetch(port_, "GET", target);
    EXPECT_EQ(reply.header("X-Content-Type-Options"), "nosniff") << target;
    EXPECT_EQ(reply.count("Server"), 0) << target;
    EXPECT_NE(reply.header("Date"), "") << target;
    EXPECT_EQ(reply.header("Content-Length"), std::to_string(reply.body.size())) << target;
  }
  Client client(port_);
  client.send("no request at all\r\n\r\n");
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.header("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(reply.header("Connection"), "close");
  EXPECT_EQ(reply.body, "Bad Request\n");
  EXPECT_TRUE(client.ended());
}

TEST_F(ServerTest, AnswersHeadAsGetWithoutTheBody) {
  const Reply get = fetch(port_, "GET", "/metrics", "Accept-Encoding: gzip\r\n");
  Client client(port_);
  client.send(
      "HEAD /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  const Reply head = client.read(true);
  EXPECT_EQ(head.status, 200);
  for (const char* name : {"Content-Length", "Content-Type", "Content-Encoding", "Vary", "X-Content-Type-Options"})
    EXPECT_EQ(head.header(name), get.header(name)) << name;
  EXPECT_EQ(head.header("Content-Length"), std::to_string(get.body.size()));
  EXPECT_THAT(client.read().body, StartsWith("GET /echo"));  // nothing stood in between
  EXPECT_EQ(fetch(port_, "HEAD", "/nothing").status, 404);
  EXPECT_EQ(fetch(port_, "HEAD", "/-/reload").status, 405);
}

TEST_F(ServerTest, NamesTheAllowedMethods) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const Reply reply = fetch(port_, method, "/metrics");
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(reply.header("Allow"), "GET, HEAD") << method;
  }
  EXPECT_EQ(fetch(port_, "GET", "/-/reload").header("Allow"), "POST");
  EXPECT_EQ(fetch(port_, "PUT", "/both").header("Allow"), "GET, HEAD, POST");
  EXPECT_EQ(fetch(port_, "POST", "/-/reload").status, 200);
  EXPECT_EQ(fetch(port_, "POST", "/nothing").status, 404);
  // A preflight of a browser gets no promise.
  const Reply preflight =
      fetch(port_, "OPTIONS", "/metrics", "Origin: http://x\r\nAccess-Control-Request-Method: GET\r\n");
  EXPECT_EQ(preflight.status, 405);
  EXPECT_EQ(preflight.count("Access-Control-Allow-Origin"), 0);
}

TEST_F(ServerTest, ShowsTheRequestToTheHandler) {
  EXPECT_EQ(fetch(port_, "GET", "/echo?collect[]=a&collect%5B%5D=b+c%26&x", "User-Agent: me\r\n").body,
            "GET /echo from 127.0.0.1 (loopback)\ncollect[]=a\ncollect[]=b c&\nx=\nagent me\n");
  EXPECT_EQ(fetch(port_, "GET", "/echo?").body, "GET /echo from 127.0.0.1 (loopback)\nagent \n");
  EXPECT_EQ(fetch(port_, "GET", "/echo?a=%").status, 400);
  std::string many = "/echo?";
  for (std::size_t i = 0; i <= kMaxParameters; ++i) many += "a&";
  EXPECT_EQ(fetch(port_, "GET", many).status, 400);
}

TEST_F(ServerTest, CompressesWhereTheClientWants) {
  const Reply packed = fetch(port_, "GET", "/metrics", "Accept-Encoding: deflate, gzip;q=0.8\r\n");
  EXPECT_EQ(packed.header("Content-Encoding"), "gzip");
  EXPECT_EQ(packed.header("Vary"), "Accept-Encoding");
  EXPECT_EQ(packed.header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(gunzip(packed.body), page_text());
  for (const char* headers : {"", "Accept-Encoding: gzip;q=0\r\n", "Accept-Encoding: \r\n",
                              "Accept-Encoding: gzip;q=x\r\n", "Accept-Encoding: *\r\nAccept-Encoding: gzip;q=0\r\n"}) {
    const Reply plain = fetch(port_, "GET", "/metrics", headers);
    EXPECT_EQ(plain.count("Content-Encoding"), 0) << headers;
    EXPECT_EQ(plain.header("Vary"), "Accept-Encoding") << headers;
    EXPECT_EQ(plain.body, page_text()) << headers;
  }
  EXPECT_EQ(
      fetch(port_, "GET", "/metrics", "Accept-Encoding: br\r\naccept-encoding: GZIP\r\n").count("Content-Encoding"), 1);
  const Reply never = fetch(port_, "GET", "/echo", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(never.count("Content-Encoding"), 0);
  EXPECT_EQ(never.count("Vary"), 0);
}

TEST_F(ServerTest, KeepsAConnectionAsTheClientWants) {
  Client client(port_);
  for (const char* target : {"/echo", "/nothing", "/metrics", "/throw", "/echo"}) {
    client.send("GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    const Reply reply = client.read();
    EXPECT_NE(reply.status, 0) << target;
    EXPECT_EQ(reply.header("Connection"), "keep-alive") << target;
  }
  client.send("GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n");
  EXPECT_EQ(client.read().header("Connection"), "close");
  EXPECT_TRUE(client.ended());

  Client old(port_);
  old.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(old.read().header("Connection"), "keep-alive");
  old.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read().header("Connection"), "close");
  EXPECT_TRUE(old.ended());
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  Client client(port_);
  std::string requests;
  for (int i = 0; i < 20; ++i) requests += "GET /echo?n=" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(requests);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(client.read().body, HasSubstr("n=" + std::to_string(i) + "\n"));
}

TEST_F(ServerTest, ThrowsSmallBodiesAway) {
  Client client(port_);
  for (int i = 0; i < 2; ++i) {
    client.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 8192\r\n\r\n" + std::string(8192, 'G'));
    EXPECT_EQ(client.read().status, 200);
  }
  client.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send("abcGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_THAT(client.read().body, StartsWith("GET /echo"));
}

TEST_F(ServerTest, ReadsNoLargeBody) {
  for (const char* length : {"8193", "9223372036854775807"}) {
    Client client(port_);
    client.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " + std::string(length) +
                "\r\n\r\n");
    EXPECT_EQ(client.read().status, 413) << length;
    EXPECT_TRUE(client.ended()) << length;
  }
  Client chunked(port_);
  chunked.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(chunked.read().status, 411);
  EXPECT_TRUE(chunked.ended());
  for (const char* length : {"-1", "x"}) {
    Client client(port_);
    client.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::string(length) + "\r\n\r\n");
    EXPECT_EQ(client.read().status, 411) << length;
    EXPECT_TRUE(client.ended()) << length;
  }
}

// Each of these a proxy may understand otherwise; the second request then is somebody else's.
TEST_F(ServerTest, TakesNoRequestWhoseEndIsInDoubt) {
  const std::string inner = "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string length = std::to_string(inner.size());
  std::string many;
  for (int i = 0; i < 63; ++i) many += "X: 1\r\n";
  for (const std::string& headers :
       {"Content-Length: 0\r\nContent-Length: " + length + "\r\n", "Content-Length: 0, " + length + "\r\n",
        std::string("Content-Length: +0\r\n"), std::string("Content-Length: 0x22\r\n"),
        std::string("Content-Length: 0 x\r\n"), std::string("Transfer-Encoding: identity\r\n"),
        std::string("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
        "X: 1\r\n 2\r\nContent-Length: " + length + "\r\n", ": 1\r\nContent-Length: " + length + "\r\n",
        "\xa0: 1\r\nContent-Length: " + length + "\r\n", "Content-Length : " + length + "\r\n",
        "X: 1\nContent-Length: " + length + "\r\n", many + "Content-Length: " + length + "\r\n",
        std::string("Host: y\r\n")}) {
    Client client(port_);
    client.send("POST /-/reload HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + inner);
    EXPECT_THAT(client.read().status, AnyOf(400, 411, 431)) << headers;
    EXPECT_EQ(client.read().status, 0) << headers;
  }
  for (const char* head : {"GET /echo HTTP/1.1\r\n\r\n", "GET /echo HTTP/1.1\r\n Host: x\r\n\r\n",
                           "GET \r\n/echo HTTP/1.1\r\nHost: x\r\n\r\n", "GET /echo HTTP/1.1\nHost: x\n\n"}) {
    Client client(port_);
    client.send(head);
    EXPECT_EQ(client.read().status, 400) << head;
  }
  Client good(port_);
  good.send("POST /-/reload HTTP/1.1\r\nhost:x\r\nX:\r\nY: \r\nCONTENT-LENGTH:  2 \r\n\r\nab" + inner);
  EXPECT_EQ(good.read().status, 200);
  EXPECT_EQ(good.read().status, 200);
}

TEST_F(ServerTest, ChangesNothingForPagesOfOtherSites) {
  for (const char* origin : {"https://evil.example", "null", "http://x.evil.example"})
    EXPECT_EQ(fetch(port_, "POST", "/-/reload", "Origin: " + std::string(origin) + "\r\n").status, 403) << origin;
  EXPECT_EQ(fetch(port_, "POST", "/-/reload", "Origin: http://localhost\r\n").status, 200);
}

TEST_F(ServerTest, TurnsExceptionsIntoAnswers) {
  const Reply broken = fetch(port_, "GET", "/throw");
  EXPECT_EQ(broken.status, 500);
  EXPECT_EQ(broken.body, "internal error\n");
  EXPECT_EQ(fetch(port_, "GET", "/throw-number").status, 500);
  EXPECT_EQ(fetch(port_, "GET", "/no-memory").status, 503);
}

TEST_F(ServerTest, SendsHandlersHeadersButNoneThatBreakTheLine) {
  const Reply reply = fetch(port_, "GET", "/headers");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.header("X-Good"), "1");
  EXPECT_EQ(reply.count("X-Bad"), 0);
  EXPECT_EQ(reply.count("X-Injected"), 0);
}

TEST_F(ServerTest, SendsNoBodyWhereThereIsNone) {
  Client client(port_);
  client.send("GET /empty HTTP/1.1\r\nHost: x\r\n\r\nGET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
  const Reply empty = client.read();
  EXPECT_EQ(empty.status, 204);
  EXPECT_EQ(empty.count("Content-Length"), 0);
  EXPECT_THAT(client.read().body, StartsWith("GET /echo"));
}

// CVE-2025-55763: a long path of slashes with a query overran a buffer.
TEST_F(ServerTest, SurvivesLongTargets) {
  for (const std::size_t size :
       {1000U, 4095U, 4096U, 4097U, 8000U, 8191U, 8192U, 8193U, 12000U, 16000U, 17000U, 70000U}) {
    for (const std::string& target :
         {std::string(size, '/') + "?" + std::string(200, '/'), "/metrics?" + std::string(size, 'a'),
          "/" + std::string(size, 'a'), "/metrics" + std::string(size, '/') + "?a"}) {
      Client client(port_);
      client.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
      const int status = client.read().status;
      if (target.size() > 17000)
        EXPECT_THAT(status, AnyOf(400, 413, 0)) << size;  // 0: cut off while it was still sending
      else if (target.size() > kMaxTarget)
        EXPECT_THAT(status, AnyOf(414, 400)) << size;
      else
        EXPECT_THAT(status, AnyOf(200, 404)) << size;
    }
  }
}

TEST_F(ServerTest, SurvivesGarbage) {
  const std::string many_headers = [] {
    std::string text = "GET /metrics HTTP/1.1\r\n";
    for (int i = 0; i < 200; ++i) text += "X-" + std::to_string(i) + ": 1\r\n";
    return text + "\r\n";
  }();
  for (const std::string& bytes :
       {std::string("\r\n\r\n\r\n\r\n"), std::string(100, '\0'),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), std::string("GET\r\n\r\n"),
        std::string("GET /metrics\r\n\r\n"), std::string("GET /metrics HTTP/9.9\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("FOO /metrics HTTP/1.1\r\n\r\n"), std::string("GET metrics HTTP/1.1\r\n\r\n"),
        std::string("GET http://[ HTTP/1.1\r\n\r\n"), std::string("GET ? HTTP/1.1\r\n\r\n"),
        std::string("CONNECT host:443 HTTP/1.1\r\n\r\n"), std::string("GET /\x80\xff HTTP/1.1\r\n\r\n"),
        std::string("GET /metrics HTTP/1.1\r\nno colon\r\n\r\n"), std::string("GET /metrics HTTP/1.1\r\n: x\r\n\r\n"),
        many_headers}) {
    Client client(port_);
    client.send(bytes);
    EXPECT_THAT(client.read().status, AnyOf(0, 200, 400, 404, 405, 431, 505)) << bytes;
    EXPECT_EQ(fetch(port_, "GET", "/echo").status, 200) << bytes;
  }
}

TEST_F(ServerTest, ServesManyClientsAtOnce) {
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      for (int n = 0; n < 25; ++n)
        good += gunzip(fetch(port_, "GET", "/metrics", "Accept-Encoding: gzip\r\n").body) == page_text() ? 1 : 0;
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 200);
}

TEST_F(ServerTest, SlowClientsStarveNoScrape) {
  std::vector<Client> slow;
  for (int i = 0; i < 64; ++i) {
    slow.emplace_back(port_);
    if (i % 2 == 0) slow.back().send("GET /metrics HT");
  }
  for (int i = 0; i < 16; ++i) {  // these ask for much and read nothing
    slow.emplace_back(port_);
    slow.back().send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  const auto begin = Clock::now();
  EXPECT_EQ(fetch(port_, "GET", "/metrics").body, page_text());
  EXPECT_LT(Clock::now() - begin, seconds(5));
}

TEST_F(ServerTest, AnswersALargePageWhole) {
  const Reply reply = fetch(port_, "GET", "/large");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.size(), std::size_t{16} << 20);
}

TEST(ServerLimitsTest, EndsClientsThatDoNotSendTheirRequest) {
  ServerOptions options = local_options();
  options.request_timeout = milliseconds(300);
  const auto server = start(options);
  const int port = port_of(server->urls().at(0));
  const auto begin = Clock::now();
  Client silent(port);
  Client halting(port);
  Client stalled(port);
  halting.send("GET /metrics HTTP/1.1\r\nHos");
  stalled.send("POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(silent.ended());
  EXPECT_EQ(halting.read().status, 400);
  EXPECT_TRUE(halting.ended());
  EXPECT_EQ(stalled.read().status, 408);
  EXPECT_TRUE(stalled.ended());
  EXPECT_LT(Clock::now() - begin, seconds(5));

  // Byte after byte, each in time: the whole request is late all the same.
  Client dribbling(port);
  std::atomic<bool> done{false};
  std::thread feeder([&] {
    for (int i = 0; i < 200 && !done; ++i) {
      dribbling.send("x");
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  const auto since = Clock::now();
  dribbling.read();
  EXPECT_LT(Clock::now() - since, seconds(4));
  done = true;
  feeder.join();
}

TEST(ServerLimitsTest, MoreClientsThanThreadsWaitInTurn) {
  ServerOptions options = local_options();
  options.request_timeout = milliseconds(300);
  options.threads = 2;
  options.max_connections = 2;
  const auto server = start(options);
  const int port = port_of(server->urls().at(0));
  std::vector<Client> silent;
  for (int i = 0; i < 8; ++i) silent.emplace_back(port);
  const auto begin = Clock::now();
  EXPECT_EQ(fetch(port, "GET", "/echo").status, 200);
  EXPECT_LT(Clock::now() - begin, seconds(5));
}

TEST(ServerLimitsTest, EndsConnectionsAfterTheirAnswerWhenThereAreMany) {
  ServerOptions options = local_options();
  options.threads = 8;
  options.max_connections = 8;
  const auto server = start(options);
  const int port = port_of(server->urls().at(0));
  std::vector<Client> clients;
  int kept = 0;
  for (int i = 0; i < 12; ++i) {  // more than there are threads: none may be held by an idle one for long
    clients.emplace_back(port);
    clients.back().send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    const Reply reply = clients.back().read();
    EXPECT_EQ(reply.status, 200);
    const bool stays = reply.header("Connection") == "keep-alive";
    kept += stays ? 1 : 0;
    EXPECT_TRUE(stays || clients.back().ended());
  }
  EXPECT_EQ(kept, 2);
}

TEST(ServerListenTest, NamesTheAddressInUse) {
  const auto server = start(local_options());
  const std::string address = server->urls().at(0).substr(7);
  ServerOptions options;
  options.listen_addresses = {"127.0.0.1:0", address};
  const auto second = Server::start(options, usual_routes());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), address + ": Address already in use");
  EXPECT_EQ(fetch(port_of(address), "GET", "/echo").status, 200);
}

TEST(ServerListenTest, NamesAnAddressGivenTwice) {
  int port = 0;
  {
    const auto server = start(local_options());
    port = port_of(server->urls().at(0));
  }
  ServerOptions options;
  options.listen_addresses = {"127.0.0.1:" + std::to_string(port), "127.0.0.1:" + std::to_string(port)};
  const auto server = Server::start(options, usual_routes());
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().message(), options.listen_addresses[1] + ": Address already in use");
}

TEST(ServerListenTest, ServesSeveralAddresses) {
  ServerOptions options;
  options.listen_addresses = {"127.0.0.1:0", "localhost:0", "127.0.0.2:0"};
  const auto server = start(options);
  ASSERT_EQ(server->urls().size(), 3U);
  for (const std::string& url : server->urls()) {
    EXPECT_THAT(url, StartsWith("http://127.0.0."));
    Client client(port_of(url), url.substr(7, url.rfind(':') - 7));
    client.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read().status, 200) << url;
  }
}

bool host_has_ipv6() {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST(ServerListenTest, AnEmptyHostServesBothFamilies) {
  ServerOptions options;
  options.listen_addresses = {":0"};
  const auto server = start(options);
  const int port = port_of(server->urls().at(0));
  EXPECT_EQ(server->urls().at(0), "http://127.0.0.1:" + std::to_string(port));
  EXPECT_THAT(fetch(port, "GET", "/echo").body, HasSubstr("from 127.0.0.1 (loopback)"));
  Client client(port, "::1");
  EXPECT_EQ(client.connected(), host_has_ipv6());
  if (client.connected()) {
    client.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.read().body, HasSubstr("from ::1 (loopback)"));
  }
}

TEST(ServerListenTest, AnIpv6AddressServesThatFamilyOrNamesTheLack) {
  ServerOptions options;
  options.listen_addresses = {"[::1]:0"};
  const auto server = Server::start(options, usual_routes());
  ASSERT_EQ(server.has_value(), host_has_ipv6());
  if (!server) {
    EXPECT_THAT(server.error().message(), StartsWith("[::1]:0: "));
    return;
  }
  const int port = port_of((*server)->urls().at(0));
  EXPECT_EQ((*server)->urls().at(0), "http://[::1]:" + std::to_string(port));
  EXPECT_FALSE(Client(port, "127.0.0.1").connected());
  EXPECT_TRUE(Client(port, "::1").connected());
}

// From here on this process has no IPv6, as on a host that was booted without.
bool forbid_ipv6() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ServerListenTest, StartsWithoutIpv6) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!forbid_ipv6() || host_has_ipv6()) _exit(10);
    ServerOptions options;
    options.listen_addresses = {":0"};
    auto server = Server::start(options, usual_routes());
    if (!server) _exit(11);
    const Reply reply = fetch(port_of((*server)->urls().at(0)), "GET", "/echo");
    options.listen_addresses = {"[::]:0"};
    if (reply.status != 200) _exit(12);
    const auto none = Server::start(options, usual_routes());
    if (none || none.error().message() != "[::]:0: Address family not supported by protocol") _exit(13);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ServerListenTest, NeedsAnAddress) {
  ServerOptions options;
  options.listen_addresses = {};
  EXPECT_FALSE(Server::start(options, usual_routes()));
}

// A handler that waits until the test lets it go.
struct Gate {
  std::promise<void> entered;
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();

  Route route(const std::shared_ptr<Gate>& self) {
    return {"/wait", {"GET"}, [self](const Request&) {
              self->entered.set_value();
              self->opened.wait();
              return text_response(std::string(1 << 20, 'y'));
            }};
  }
};

TEST(ServerStopTest, FinishesTheAnswerInFlightAndTakesNothingNew) {
  auto gate = std::make_shared<Gate>();
  auto server = start(local_options(), {gate->route(gate)});
  const int port = port_of(server->urls().at(0));
  Client client(port);
  client.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  gate->entered.get_future().wait();
  auto stopped = std::async(std::launch::async, [&] { return server->stop(seconds(10)); });
  // The listener is gone soon, while the answer is still in the making.
  const auto deadline = Clock::now() + seconds(5);
  while (Client(port).connected() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(Client(port).connected());
  EXPECT_EQ(stopped.wait_for(seconds(0)), std::future_status::timeout);
  gate->open.set_value();
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.size(), std::size_t{1} << 20);
  EXPECT_TRUE(client.ended());
  EXPECT_TRUE(stopped.get());
  EXPECT_TRUE(server->stop(seconds(1)));  // again: nothing left to do
}

TEST(ServerStopTest, WaitsForNoIdleConnection) {
  auto server = start(local_options());
  const int port = port_of(server->urls().at(0));
  std::vector<Client> idle;
  for (int i = 0; i < 4; ++i) {
    idle.emplace_back(port);
    idle.back().send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(idle.back().read().header("Connection"), "keep-alive");
  }
  const auto begin = Clock::now();
  EXPECT_TRUE(server->stop(seconds(10)));
  EXPECT_LT(Clock::now() - begin, seconds(3));
  for (Client& client : idle) EXPECT_TRUE(client.ended());
}

TEST(ServerStopTest, GivesUpOnAnAnswerThatNeverComes) {
  auto gate = std::make_shared<Gate>();
  const std::weak_ptr<Gate> alive = gate;
  auto server = start(local_options(), {gate->route(gate)});
  Client client(port_of(server->urls().at(0)));
  client.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  gate->entered.get_future().wait();
  const auto begin = Clock::now();
  EXPECT_FALSE(server->stop(milliseconds(200)));
  EXPECT_LT(Clock::now() - begin, seconds(3));
  server.reset();
  gate->open.set_value();
  gate.reset();
  const auto deadline = Clock::now() + seconds(10);  // what the handler uses goes with the last thread
  while (!alive.expired() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_TRUE(alive.expired());
}

TEST(ServerStopTest, FreesItsPort) {
  ServerOptions options = local_options();
  int port = 0;
  for (int i = 0; i < 5; ++i) {
    const auto server = start(options);
    ASSERT_NE(server, nullptr);
    port = port_of(server->urls().at(0));
    options.listen_addresses = {"127.0.0.1:" + std::to_string(port)};
    EXPECT_EQ(fetch(port, "GET", "/echo").status, 200);
  }
  EXPECT_FALSE(Client(port).connected());
}

}  // namespace
}  // namespace roce::web

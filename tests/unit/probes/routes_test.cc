// SPDX-License-Identifier: Apache-2.0
//
// What the prober answers, over an engine that is played.
#include "probes/web/routes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "probes/web/control.h"
#include "tests/support/temp_directory.h"

namespace roce::probe {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class PlayedEngine final : public Engine {
 public:
  EngineStats now;
  std::vector<Peer> peers;

  void set_peers(std::vector<Peer> next) override { peers = std::move(next); }
  void set_keys(std::vector<Key>) override {}
  void set_settings(const EngineSettings&) override {}
  std::vector<Endpoint> endpoints() const override { return {}; }
  Result<ReadGrant> accept_read(const ReadRequest&) override { return fail(ErrorKind::kAbsent, "no"); }
  EngineStats stats() const override { return now; }
  Result<BurstResult> burst(const BurstSpec& spec) override {
    BurstResult result;
    result.sent = result.received = spec.count;
    return result;
  }
  Result<void> release(std::chrono::seconds) override { return {}; }
  std::string save_baselines() const override { return {}; }
  void restore_baselines(std::string_view) override {}
};

class RoutesTest : public testing::Test {
 protected:
  RoutesTest() {
    context_.engine = &engine_;
    context_.own = &own_;
    context_.source = &source_;
    context_.rotating = &rotating_;
    context_.adhoc = &adhoc_;
    context_.discovery = [this] { return discovery_; };
    context_.options = [this] { return std::make_shared<const Options>(options_); };
  }
  std::string page() {
    std::string type;
    return metrics_page(context_, false, type);
  }
  web::Response ask(const std::string& path, const web::Request& request) {
    for (const web::Route& route : prober_routes(context_))
      if (route.path == path) return route.handler(request);
    return {};
  }

  PlayedEngine engine_;
  OwnMetrics own_;
  HttpsSource source_;
  RotatingTotals rotating_;
  AdhocProbes adhoc_{engine_};
  DiscoveryState discovery_;
  Options options_;
  RouteContext context_;
};

TEST_F(RoutesTest, TellsEveryPeerThatIsLeftOut) {
  engine_.now.refused_peers = 6;
  discovery_.refused = 3;
  EXPECT_THAT(page(), HasSubstr("\nroce_prober_peers_refused 9\n"));
}

TEST_F(RoutesTest, ATokenThatCannotBeReadIsToldOnce) {
  const TempDirectory directory;
  options_.exchange.bearer_token_file = (directory.path() / "token").string();
  web::Request request;
  request.method = "GET";
  request.tls = true;
  request.headers = {{"Authorization", "Bearer 0123456789abcdef"}};
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask("/rdma/endpoint", request).status, 403);
  EXPECT_EQ(context_.exchange_refused, 5u);
  std::string log = testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("the bearer token cannot be read");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("the bearer token cannot be read", first + 1), std::string::npos) << log;

  FILE* const file = std::fopen(options_.exchange.bearer_token_file.c_str(), "we");
  ASSERT_NE(file, nullptr);
  std::fputs("0123456789abcdef\n", file);
  std::fclose(file);
  EXPECT_EQ(ask("/rdma/endpoint", request).status, 200);
  std::filesystem::remove(options_.exchange.bearer_token_file);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ask("/rdma/endpoint", request).status, 403);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the bearer token cannot be read"));
}

TEST_F(RoutesTest, AProbeWithoutAThreadFreesItsPlace) {
  bool none = true;
  AdhocProbes probes(engine_, [&](const std::function<void()>& work) {
    if (none) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    work();
  });
  BurstSpec spec;
  spec.peer = "node2";
  for (int i = 0; i < 6; ++i) {
    const auto answer = probes.run(spec, std::chrono::milliseconds(2000));
    EXPECT_EQ(answer.kind, AdhocProbes::Answer::Kind::kDone);
    EXPECT_FALSE(answer.success);
    EXPECT_THAT(answer.failure, HasSubstr("unavailable"));
  }
  none = false;
  EXPECT_TRUE(probes.run(spec, std::chrono::milliseconds(2000)).success);
}

TEST_F(RoutesTest, RotatingPeersAreGivenOverInOneStep) {
  PeerStats leaver;
  leaver.peer.name = "node5";
  leaver.peer.device = "mlx5_0";
  leaver.peer.rotating = true;
  leaver.classes.resize(1);
  leaver.classes[0].sent = 40;
  engine_.now.peers = {leaver};
  Peer next = leaver.peer;
  next.name = "node6";
  rotating_.change(engine_, {next});
  EXPECT_EQ(engine_.peers, std::vector<Peer>{next});
  engine_.now.peers[0].peer = next;
  engine_.now.peers[0].classes[0].sent = 2;
  const auto reading = rotating_.read(engine_);
  ASSERT_EQ(reading.published.size(), 1u);
  EXPECT_EQ(reading.published[0].classes[0].sent, 42u);
  // Another device of the same node is another peer: the engine begins to count anew.
  next.remote_device = "mlx5_1";
  rotating_.change(engine_, {next});
  engine_.now.peers[0].peer = next;
  engine_.now.peers[0].classes[0].sent = 1;
  EXPECT_EQ(rotating_.read(engine_).published[0].classes[0].sent, 43u);
}

// ---- the control socket ----

class Socket {
 public:
  Socket() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  bool connect(const std::string& path) const {
    const sockaddr_un address = to(path);
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool listen(const std::string& path, int backlog) const {
    const sockaddr_un address = to(path);
    return ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(fd_, backlog) == 0;
  }
  // What comes until the end of the stream.
  std::string rest() const {
    ::fcntl(fd_, F_SETFL, 0);
    std::string text;
    char piece[1024];
    for (ssize_t n = 0; (n = ::recv(fd_, piece, sizeof piece, 0)) > 0;) text.append(piece, static_cast<std::size_t>(n));
    return text;
  }

 private:
  static sockaddr_un to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
  }
  int fd_;
};

class ProberControl : public RoutesTest {
 protected:
  Result<std::unique_ptr<ControlServer>> open() {
    return open_control(
        path_,
        {{"/-/release", {"POST"}, [this](const web::Request& request) { return answer_release(context_, request); }}});
  }
  std::string ask_raw(const std::string& text) const {
    const Socket client;
    if (!client.connect(path_)) return "no connection";
    EXPECT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return client.rest();
  }
  const TempDirectory directory_;
  const std::string path_ = (directory_.path() / "control").string();
};

TEST_F(ProberControl, TakesARequestOfHttp) {
  const auto server = open();
  ASSERT_TRUE(server) << server.error().message();
  EXPECT_THAT(ask_raw("POST /-/release?seconds=9 HTTP/1.1\r\nHost: x\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), testing::EndsWith("\r\n\r\nClosed for 9 s.\n")));
  EXPECT_THAT(ask_raw("POST /-/release?seconds=0 HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask_raw(std::string(5000, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask_raw("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ProberControl, AClientThatDribblesIsLeft) {
  const auto server = open();
  ASSERT_TRUE(server) << server.error().message();
  const Socket slow;
  ASSERT_TRUE(slow.connect(path_));
  bool left = false;
  for (int i = 0; i < 600 && !left; ++i) {
    left = ::send(slow.get(), "x", 1, MSG_NOSIGNAL) < 0;
    ::usleep(20'000);
  }
  EXPECT_TRUE(left) << "a byte each 20 ms, for 12 s";
  EXPECT_THAT(ask_raw("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(ProberControl, ALiveSocketIsNotTakenAway) {
  const Socket live;
  ASSERT_TRUE(live.listen(path_, 0));
  // Nobody accepts, and its queue is full: connecting is refused for now, as it is not where nobody listens.
  std::vector<std::unique_ptr<Socket>> clients;
  do {
    clients.push_back(std::make_unique<Socket>());
    ASSERT_LT(clients.size(), 100u);
  } while (clients.back()->connect(path_));
  const auto server = open();
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace roce::probe

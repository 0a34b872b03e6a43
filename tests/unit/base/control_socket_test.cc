// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace roce {
namespace {

using std::chrono::milliseconds;

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() { path_ = (directory_.path() / "control.sock").string(); }

  std::unique_ptr<ControlServer> start(unsigned threads = 2) {
    auto server = ControlServer::start(
        path_,
        [this](std::string_view verb, std::string_view argument) -> tl::expected<std::string, std::string> {
          ++requests_;
          if (verb == "echo") return std::string(argument);
          if (verb == "large") return std::string(2000000, 'x');
          return tl::unexpected(std::string("no such request"));
        },
        threads);
    EXPECT_TRUE(server.has_value()) << (server ? "" : server.error().message());
    return server ? std::move(*server) : nullptr;
  }

  int connect_raw() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);  // NOLINT
    return fd;
  }

  TempDirectory directory_;
  std::string path_;
  std::atomic<int> requests_{0};
};

TEST_F(ControlSocketTest, AnswersRequestsWithTheirArgument) {
  const auto server = start();
  const auto answer = ask_control(path_, "echo two words", milliseconds(10000));
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_EQ(*answer, "two words");
  const auto large = ask_control(path_, "large", milliseconds(10000));
  ASSERT_TRUE(large.has_value());
  EXPECT_EQ(large->size(), 2000000U);
  const auto refused = ask_control(path_, "other", milliseconds(10000));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().object, "no such request");
}

TEST_F(ControlSocketTest, ItsModeLetsOwnerAndGroupInAlone) {
  const auto server = start();
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0660U);
}

TEST_F(ControlSocketTest, TakesTheAnswerUpToItsLimitOnly) {
  const auto server = start();
  const auto answer = ask_control(path_, "large", milliseconds(10000), 1000);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().kind, ErrorKind::kMalformed);
}

TEST_F(ControlSocketTest, ARequestThatIsTooLongIsRefused) {
  const auto server = start();
  const auto answer = ask_control(path_, "echo " + std::string(10000, 'x'), milliseconds(10000));
  EXPECT_FALSE(answer.has_value());
  EXPECT_EQ(requests_, 0);
  EXPECT_TRUE(ask_control(path_, "echo x", milliseconds(10000)).has_value());
}

TEST_F(ControlSocketTest, ClientsThatSayNothingHoldUpNobodyForLong) {
  const auto server = start(1);
  const int idle = connect_raw();
  const int gone = connect_raw();
  ::close(gone);
  EXPECT_TRUE(ask_control(path_, "echo x", milliseconds(20000)).has_value());
  ::close(idle);
}

TEST_F(ControlSocketTest, NobodyThereIsAbsent) {
  EXPECT_EQ(ask_control(path_, "echo", milliseconds(1000)).error().kind, ErrorKind::kAbsent);
  {
    const auto server = start();
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ControlSocketTest, ALeftOverSocketIsReplacedALivingOneIsNot) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);  // NOLINT
  ::close(fd);
  const auto server = start();
  ASSERT_NE(server, nullptr);
  const auto second = ControlServer::start(
      path_, [](std::string_view, std::string_view) { return tl::expected<std::string, std::string>(""); });
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(ask_control(path_, "echo x", milliseconds(10000)).has_value());
}

TEST_F(ControlSocketTest, AFileThatIsNoSocketStays) {
  std::ofstream(path_) << "mine";
  EXPECT_FALSE(ControlServer::start(path_, nullptr).has_value());
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
}

TEST_F(ControlSocketTest, NoDirectoryAndALongPathAreErrors) {
  EXPECT_EQ(ControlServer::start((directory_.path() / "no/x").string(), nullptr).error().kind, ErrorKind::kAbsent);
  EXPECT_FALSE(ControlServer::start("/" + std::string(200, 'x'), nullptr).has_value());
  EXPECT_FALSE(ask_control("", "x", milliseconds(10)).has_value());
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/base/leftovers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_directory.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

class LeftoversTest : public testing::Test {
 protected:
  std::string make(const std::string& name) {
    const fs::path path = top_.path() / name;
    const auto made = make_leftover([&]() -> Result<std::string> {
      if (name.ends_with(".part")) {
        std::ofstream(path) << "x";
      } else {
        fs::create_directories(path / "deep/er");
        std::ofstream(path / "deep/er/file") << "x";
      }
      return path.string();
    });
    EXPECT_TRUE(made);
    return made.value_or("");
  }
  bool is_empty() const { return fs::is_empty(top_.path()); }

  TempDirectory top_;
};

TEST_F(LeftoversTest, AreRemovedOrKept) {
  const std::string folder = make("folder");
  const std::string file = make("x.part");
  remove_leftover(folder);
  remove_leftover(file);
  EXPECT_TRUE(is_empty());
  const std::string kept = make("y.part");
  keep_leftover(kept);
  remove_leftover(kept);
  remove_leftover(top_.path().string());
  EXPECT_TRUE(fs::exists(kept)) << "only what was made as one is removed";
}

TEST_F(LeftoversTest, OneThatCannotBeMadeIsNone) {
  const auto made = make_leftover([] { return Result<std::string>(fail_errno(EACCES, "/x")); });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().err, EACCES);
}

TEST_F(LeftoversTest, GoWithTheProgramThatASignalEnds) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::signal(signal, SIG_DFL);  // NOLINT: under nohup(1) it is not
          remove_leftovers_on_signals();
          make("folder");
          make("x.part");
          keep_leftover(make("kept.part"));
          kill(getpid(), signal);
          for (;;) pause();
        },
        testing::KilledBySignal(signal), "");
    EXPECT_TRUE(fs::remove(top_.path() / "kept.part")) << signal;
    EXPECT_TRUE(is_empty()) << signal;
  }
}

TEST_F(LeftoversTest, AnIgnoredSignalStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        remove_leftovers_on_signals();
        kill(getpid(), SIGHUP);
        usleep(100'000);
        _exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace roce

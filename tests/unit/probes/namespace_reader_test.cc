// SPDX-License-Identifier: Apache-2.0
#include "probes/storage/namespace_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/temp_directory.h"

namespace roce::probe {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(FindNamespace, ByNameOrByIdentityAndNothingElse) {
  const TempDirectory top;
  const fs::path sys = top.path();
  write(sys / "block/nvme0n1/wwid", "uuid.11111111-2222-3333-4444-555555555555\n");
  write(sys / "block/nvme0n1/device/subsysnqn", "nqn.2024-01.org.example:a\n");
  write(sys / "block/nvme0c0n1/wwid", "uuid.11111111-2222-3333-4444-555555555555\n");
  write(sys / "block/nvme1n12/wwid", "eui.0025\n");
  write(sys / "block/sda/wwid", "naa.5000\n");
  const auto by_name = find_namespace(sys, "/dev", "nvme0n1");
  ASSERT_TRUE(by_name) << by_name.error().message();
  EXPECT_EQ(by_name->device, "/dev/nvme0n1");
  EXPECT_EQ(by_name->subsystem, "nqn.2024-01.org.example:a");
  EXPECT_EQ(find_namespace(sys, "/dev", "uuid.11111111-2222-3333-4444-555555555555")->name, "nvme0n1");
  EXPECT_EQ(find_namespace(sys, "/dev", "eui.0025")->name, "nvme1n12");
  for (const char* other : {"sda", "naa.5000", "nvme0c0n1", "nvme0", "nvme2n1", "", "../sda", "nvme0n1p1"})
    EXPECT_EQ(find_namespace(sys, "/dev", other).error().kind, ErrorKind::kAbsent) << other;
}

fs::path file_for_direct_reads() {  // a file system in memory takes no O_DIRECT
  return fs::path(::testing::TempDir()) / ("roce-namespace-" + std::to_string(getpid()));
}

template <class Holds>
bool soon(Holds holds) {
  for (int i = 0; i < 500; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Without the rights of root, which may open everything; of this thread and those that it begins.
class Nobody {
 public:
  Nobody() { become(geteuid() == 0 ? 65534U : geteuid()); }
  ~Nobody() { become(getuid()); }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;

 private:
  static void become(uid_t user) { EXPECT_EQ(syscall(SYS_setresuid, -1, user, -1), 0); }
};

// One whose namespace is this file, whatever it asks for.
NamespaceReader reader_of(const fs::path& file) {
  static std::string device;
  device = file.string();
  return {"n", "", "", std::chrono::milliseconds(5),
          [](const std::string&, const std::string&, std::string_view) -> Result<Namespace> {
            return Namespace{"n", device, "s"};
          }};
}

void start_as_nobody(NamespaceReader& reader) {
  const Nobody nobody;
  reader.start();
}

TEST(NamespaceReader, ReadsAndTellsFailuresApart) {
  const fs::path file = file_for_direct_reads();
  write(file, std::string(64 * 4096, 'x'));
  NamespaceReader reader = reader_of(file);
  reader.start();
  EXPECT_TRUE(soon([&] { return reader.state().latency.count >= 5; }));
  const auto state = reader.state();
  EXPECT_TRUE(state.in_flight_seconds);
  EXPECT_EQ(state.found.subsystem, "s");
  EXPECT_GE(state.reads, state.latency.count);
  for (const auto n : state.failures) EXPECT_EQ(n, 0U);
  // It shrank under the reader: short reads fail, and then the name is looked up anew and is gone.
  fs::resize_file(file, 0);
  fs::remove(file);
  EXPECT_TRUE(soon([&] { return reader.state().failures[static_cast<std::size_t>(ReadFailure::kAbsent)] > 0; }));
  EXPECT_TRUE(soon([&] { return !reader.state().in_flight_seconds; }));
  write(file, std::string(64 * 4096, 'x'));
  const auto before = reader.state().latency.count;
  EXPECT_TRUE(soon([&] { return reader.state().latency.count > before; })) << "it came back";
  EXPECT_TRUE(reader.state().in_flight_seconds);
  fs::remove(file);
}

TEST(NamespaceReader, OneThatCameBackAndMayNotBeOpenedIsTold) {
  const fs::path file = file_for_direct_reads();
  write(file, std::string(64 * 4096, 'x'));
  fs::permissions(file, fs::perms::all);
  NamespaceReader reader = reader_of(file);
  start_as_nobody(reader);
  EXPECT_TRUE(soon([&] { return reader.state().latency.count >= 2; }));
  EXPECT_FALSE(reader.state().shut_out);
  const int before = open(file.c_str(), O_RDWR | O_CLOEXEC);
  // The open file goes on; what comes in its place is for others.
  const fs::path next = file.string() + ".next";
  write(next, std::string(64 * 4096, 'y'));
  fs::permissions(next, fs::perms::none);
  fs::rename(next, file);
  const std::uint64_t reads = reader.state().latency.count;
  EXPECT_TRUE(soon([&] { return reader.state().latency.count >= reads + 2; })) << "what is open stays open";
  EXPECT_FALSE(reader.state().shut_out);
  ASSERT_EQ(ftruncate(before, 0), 0);  // reads of it fail
  EXPECT_EQ(close(before), 0);
  EXPECT_TRUE(soon([&] { return reader.state().shut_out; }));
  fs::remove(file);
  EXPECT_TRUE(soon([&] { return !reader.state().shut_out; })) << "nothing is there to be kept from";
  write(next, std::string(64 * 4096, 'z'));
  fs::permissions(next, fs::perms::none);
  fs::rename(next, file);
  EXPECT_TRUE(soon([&] { return reader.state().shut_out; })) << "it was absent before";
  fs::remove(file);
}

TEST(NamespaceReader, OpeningThatHangsIsSeenAndLeftBehind) {
  static std::atomic<bool> hangs, left;
  hangs = true;
  left = false;
  const auto begun = std::chrono::steady_clock::now();
  {
    NamespaceReader reader("n", "", "", std::chrono::milliseconds(5),
                           [](const std::string&, const std::string&, std::string_view) -> Result<Namespace> {
                             while (hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                             left = true;
                             return fail(ErrorKind::kAbsent, "");
                           });
    reader.start();
    EXPECT_TRUE(soon([&] { return reader.state().in_flight_seconds.value_or(0) > 0.1; }));
    EXPECT_EQ(reader.state().reads, 0U);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "nobody waits for it";
  hangs = false;
  EXPECT_TRUE(soon([&] { return left.load(); }));
}

TEST(NamespaceReader, OneThatWasNeverOpenIsDeniedAndNoMore) {
  const fs::path file = file_for_direct_reads();
  write(file, std::string(64 * 4096, 'x'));
  fs::permissions(file, fs::perms::none);
  NamespaceReader reader = reader_of(file);
  start_as_nobody(reader);
  EXPECT_TRUE(soon([&] { return reader.state().failures[static_cast<std::size_t>(ReadFailure::kDenied)] >= 2; }));
  EXPECT_FALSE(reader.state().shut_out);
  fs::remove(file);
}

TEST(NamespaceReader, OneThatIsNotThereIsCountedAndLookedForAgain) {
  NamespaceReader reader("nvme9n9", "/nonexistent", "/dev", std::chrono::milliseconds(5));
  reader.start();
  EXPECT_TRUE(soon([&] { return reader.state().failures[static_cast<std::size_t>(ReadFailure::kAbsent)] >= 3; }));
  EXPECT_EQ(reader.state().reads, 0U);
  EXPECT_TRUE(soon([&] { return !reader.state().in_flight_seconds; })) << "a 0 would say that all is well";
}

TEST(ShouldStartAnew, WhereOneIsShutOutAndNoneHangs) {
  NamespaceReader::State well, out, slow, hangs;
  out.shut_out = true;
  out.in_flight_seconds.reset();
  slow.in_flight_seconds = 0.5;
  hangs.in_flight_seconds = 1.5;
  EXPECT_FALSE(should_start_anew({}));
  EXPECT_FALSE(should_start_anew({well, hangs}));
  EXPECT_TRUE(should_start_anew({well, out}));
  EXPECT_TRUE(should_start_anew({slow, out}));
  EXPECT_FALSE(should_start_anew({out, hangs}));
  EXPECT_FALSE(should_start_anew({hangs, well, out}));
}

}  // namespace
}  // namespace roce::probe

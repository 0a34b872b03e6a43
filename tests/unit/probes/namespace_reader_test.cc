// SPDX-License-Identifier: Apache-2.0
#include "probes/storage/namespace_reader.h"

#include <gtest/gtest.h>

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

TEST(NamespaceReader, ReadsAndTellsFailuresApart) {
  const fs::path file = file_for_direct_reads();
  write(file, std::string(64 * 4096, 'x'));
  static std::string device;
  device = file.string();
  NamespaceReader reader("n", "", "", std::chrono::milliseconds(5),
                         [](const std::string&, const std::string&, std::string_view) -> Result<Namespace> {
                           return Namespace{"n", device, "s"};
                         });
  reader.start();
  EXPECT_TRUE(soon([&] { return reader.state().latency.count >= 5; }));
  const auto state = reader.state();
  EXPECT_EQ(state.found.subsystem, "s");
  EXPECT_GE(state.reads, state.latency.count);
  for (const auto n : state.failures) EXPECT_EQ(n, 0U);
  // It shrank under the reader: short reads fail, and then the name is looked up anew and is gone.
  fs::resize_file(file, 0);
  fs::remove(file);
  EXPECT_TRUE(soon([&] { return reader.state().failures[static_cast<std::size_t>(ReadFailure::kAbsent)] > 0; }));
}

TEST(NamespaceReader, OneThatIsNotThereIsCountedAndLookedForAgain) {
  NamespaceReader reader("nvme9n9", "/nonexistent", "/dev", std::chrono::milliseconds(5));
  reader.start();
  EXPECT_TRUE(soon([&] { return reader.state().failures[static_cast<std::size_t>(ReadFailure::kAbsent)] >= 3; }));
  EXPECT_EQ(reader.state().reads, 0U);
  EXPECT_EQ(reader.state().in_flight_seconds, 0);
}

}  // namespace
}  // namespace roce::probe

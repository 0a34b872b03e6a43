// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/recording.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "exporter/kernel/files.h"
#include "tests/support/temp_directory.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

struct Entry {
  Entry(std::string path_of, unsigned type_of = AE_IFREG, std::string text_of = {}, std::string hard_link_of = {})
      : path(std::move(path_of)), type(type_of), text(std::move(text_of)), hard_link(std::move(hard_link_of)) {}

  std::string path;
  unsigned type;
  std::string text;  // content, or target
  std::string hard_link;
};

// A tar file as anybody could write one; nothing is checked.
std::vector<unsigned char> tar_of(const std::vector<Entry>& entries, bool zipped = false) {
  std::vector<unsigned char> out(8 << 20);
  std::size_t used = 0;
  archive* a = archive_write_new();
  archive_write_set_format_pax_restricted(a);
  EXPECT_EQ(archive_write_set_options(a, "hdrcharset=BINARY"), ARCHIVE_OK);
  if (zipped) archive_write_add_filter_gzip(a);
  archive_write_set_bytes_in_last_block(a, 1);
  EXPECT_EQ(archive_write_open_memory(a, out.data(), out.size(), &used), ARCHIVE_OK);
  for (const Entry& entry : entries) {
    archive_entry* e = archive_entry_new();
    archive_entry_set_pathname(e, entry.path.c_str());
    archive_entry_set_filetype(e, entry.type);
    archive_entry_set_perm(e, 0644);
    if (entry.type == AE_IFREG) archive_entry_set_size(e, static_cast<la_int64_t>(entry.text.size()));
    if (entry.type == AE_IFLNK) archive_entry_set_symlink(e, entry.text.c_str());
    if (!entry.hard_link.empty()) archive_entry_set_hardlink(e, entry.hard_link.c_str());
    EXPECT_EQ(archive_write_header(a, e), ARCHIVE_OK) << entry.path;
    if (entry.type == AE_IFREG) archive_write_data(a, entry.text.data(), entry.text.size());
    archive_entry_free(e);
  }
  archive_write_close(a);
  archive_write_free(a);
  out.resize(used);
  return out;
}

class RecordingTest : public testing::Test {
 protected:
  void SetUp() override { setenv("TMPDIR", top_.path().c_str(), 1); }
  void TearDown() override {
    unsetenv("TMPDIR");
    EXPECT_TRUE(fs::is_empty(top_.path())) << "something is left behind";
  }

  static Result<Recording> unpack(const std::vector<Entry>& entries, const RecordingLimits& limits = {}) {
    return Recording::unpack(tar_of(entries), "x.tar", limits);
  }
  static std::string why(const std::vector<Entry>& entries, const RecordingLimits& limits = {}) {
    const auto recording = unpack(entries, limits);
    return recording ? "" : recording.error().message();
  }

  TempDirectory top_;
};

TEST_F(RecordingTest, UnpacksFilesFoldersAndLinksAndRemovesThemAgain) {
  for (const bool zipped : {false, true}) {
    const auto recording = Recording::unpack(tar_of({{"./", AE_IFDIR},
                                                     {"sys/devices/a/state", AE_IFREG, "4: ACTIVE\n"},
                                                     {"./sys/class/net", AE_IFDIR},
                                                     {"sys/class/infiniband/mlx5_0", AE_IFLNK, "../../devices/a"},
                                                     {"sys/class/infiniband/gone", AE_IFLNK, "../../devices/gone"}},
                                                    zipped),
                                             "x.tar");
    ASSERT_TRUE(recording) << recording.error().message();
    EXPECT_TRUE(recording->folder().starts_with(top_.path().string()));
    EXPECT_EQ(read_file(recording->folder() + "/sys/class/infiniband/mlx5_0/state").value_or(""), "4: ACTIVE\n");
    EXPECT_TRUE(list_directory(recording->folder() + "/sys/class/net"));
    EXPECT_EQ(fs::status(recording->folder()).permissions(), fs::perms::owner_all);
  }
}

TEST_F(RecordingTest, NothingGetsOutOfIt) {
  for (const std::string path : {"/etc/x", "../x", "a/../../x", "a/..", "..", "a//../x"})
    EXPECT_THAT(why({{path, AE_IFREG, "x"}}), testing::HasSubstr("leads out of the recording")) << path;
  for (const std::string target : {"/etc", "..", "../..", "../../../../../../etc/passwd", "b/../../../../etc"})
    EXPECT_THAT(why({{"a", AE_IFREG, "x"}, {"l", AE_IFLNK, target}}), testing::HasSubstr("leads out")) << target;
  EXPECT_THAT(why({{"a/l", AE_IFLNK, "../.."}, {"x", AE_IFREG, "x"}}), testing::HasSubstr("leads out"));
  // Link upon link: each within, both together not.
  EXPECT_THAT(why({{"a/b/c/f", AE_IFREG, "x"}, {"l", AE_IFLNK, "a/b/c"}, {"l2", AE_IFLNK, "l/../../../.."}}),
              testing::HasSubstr("leads out"));
  EXPECT_THAT(why({{"a/b/c/f", AE_IFREG, "x"}, {"a/up", AE_IFLNK, ".."}, {"l2", AE_IFLNK, "a/up/.."}}),
              testing::HasSubstr("leads out"));
}

TEST_F(RecordingTest, ALinkToNothingDoesNotGetOutEither) {
  // What is at the end of the second may be made later, and stands outside.
  EXPECT_THAT(why({{"x/y/z", AE_IFREG, "x"}, {"x/y/m", AE_IFLNK, "../.."}, {"x/y/l", AE_IFLNK, "m/../later/file"}}),
              testing::HasSubstr("leads out"));
  EXPECT_THAT(why({{"x/y/z", AE_IFREG, "x"},
                   {"x/y/m", AE_IFLNK, "../.."},
                   {"x/y/l", AE_IFLNK, "m/../later/file"},
                   {"board_id", AE_IFLNK, "x/y/l"}}),
              testing::HasSubstr("leads out"));
  EXPECT_THAT(why({{"a/b", AE_IFREG, "x"}, {"m", AE_IFLNK, "a"}, {"l", AE_IFLNK, "m/../../later"}}),
              testing::HasSubstr("leads out"));
  // Nobody knows where the way up from what is not there leads.
  EXPECT_THAT(why({{"a", AE_IFREG, "x"}, {"l", AE_IFLNK, "gone/../a"}}), testing::HasSubstr("leads out"));
  EXPECT_THAT(why({{"a", AE_IFREG, "x"}, {"l", AE_IFLNK, "m"}, {"m", AE_IFLNK, "l"}}), testing::HasSubstr("leads out"))
      << "round and round";
  // Sysfs is full of these.
  EXPECT_EQ(why({{"sys/devices/a/net/eth0/mtu", AE_IFREG, "1500"},
                 {"sys/devices/a/net/eth0/device", AE_IFLNK, "../.."},
                 {"sys/class/net/eth0", AE_IFLNK, "../../devices/a/net/eth0"},
                 {"sys/class/net/up", AE_IFLNK, "eth0/device/../b/gone"}}),
            "");
}

TEST_F(RecordingTest, AFileThatCouldNotBeReadIsALinkToItself) {
  const auto recording =
      Recording::unpack(tar_of({{"sys/a/state", AE_IFREG, "1"}, {"sys/a/rate", AE_IFLNK, "rate"}}), "x");
  ASSERT_TRUE(recording) << recording.error().message();
  const auto rate = read_attribute(recording->folder() + "/sys/a/rate");
  ASSERT_FALSE(rate);
  EXPECT_EQ(rate.error().kind, ErrorKind::kIo);
  // For the kernel a way over it ends there, wherever the rest would lead.
  const auto over = Recording::unpack(tar_of({{"rate", AE_IFLNK, "rate"}, {"l", AE_IFLNK, "rate/../../x"}}), "x");
  ASSERT_TRUE(over) << over.error().message();
  EXPECT_EQ(read_attribute(over->folder() + "/l").error().kind, ErrorKind::kIo);
}

TEST_F(RecordingTest, NothingIsWrittenThroughALink) {
  const TempDirectory elsewhere;
  const std::string out = elsewhere.path().string();
  EXPECT_NE(why({{"l", AE_IFLNK, out}, {"l/x", AE_IFREG, "x"}}), "");
  EXPECT_NE(why({{"l", AE_IFLNK, "../../../../../../.." + out}, {"l/x", AE_IFREG, "x"}}), "");
  EXPECT_NE(why({{"l", AE_IFLNK, "."}, {"l", AE_IFREG, "x"}, {"l", AE_IFLNK, out}}), "");
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST_F(RecordingTest, OnlyFilesFoldersAndLinks) {
  for (const unsigned type : {AE_IFIFO, AE_IFCHR, AE_IFBLK})
    EXPECT_THAT(why({{"a", type}}), testing::HasSubstr("neither file, folder nor link"));
  EXPECT_THAT(why({{"a", AE_IFREG, "x"}, {"b", AE_IFREG, "", "/etc/passwd"}}), testing::HasSubstr("hard link"));
  EXPECT_NE(why({{"a", AE_IFREG, "x"}, {"a", AE_IFREG, "y"}}), "") << "twice";
  EXPECT_NE(why({{"a/b", AE_IFREG, "x"}, {"a", AE_IFREG, "y"}}), "") << "a file in the place of a folder";
}

TEST_F(RecordingTest, IsBounded) {
  EXPECT_THAT(why({{"a", AE_IFREG, std::string(1000, 'x')}, {"b", AE_IFREG, std::string(1000, 'x')}}, {1500, 10}),
              testing::HasSubstr("too large"));
  EXPECT_THAT(why({{"a"}, {"b"}, {"c"}}, {1500, 2}), testing::HasSubstr("too many files"));
  EXPECT_NE(why({{std::string(3000, 'x')}}), "");
}

TEST_F(RecordingTest, WaysOfLinksAreBounded) {
  std::string dots;
  for (int i = 0; i < 200; ++i) dots += "./";
  EXPECT_EQ(why({{"a/f", AE_IFREG, "x"}, {"l", AE_IFLNK, "./a/./f"}, {"l2", AE_IFLNK, "a//f"}}, {8000, 5}), "");
  EXPECT_THAT(why({{"a/f", AE_IFREG, "x"}, {"l", AE_IFLNK, dots + "a/f"}}, {8000, 5}),
              testing::HasSubstr("too many links"));
  EXPECT_THAT(why({{"a/f", AE_IFREG, "x"}, {"l", AE_IFLNK, "a" + std::string(200, '/') + "f"}}, {8000, 5}),
              testing::HasSubstr("too many links"));
}

TEST_F(RecordingTest, PathsAndTargetsCountAsContentDoes) {
  const std::string part(200, 'p');
  EXPECT_EQ(why({{"1" + part}, {"2" + part}}, {500, 10}), "");
  EXPECT_THAT(why({{"1" + part}, {"2" + part}, {"3" + part}}, {500, 10}), testing::HasSubstr("too large"));
  EXPECT_THAT(why({{"1" + part}, {"2" + part}, {"l", AE_IFLNK, "1" + part}}, {500, 10}),
              testing::HasSubstr("too large"));
  // Links are held in memory, for which there is less room.
  EXPECT_EQ(why({{"l", AE_IFLNK, part}}, {8000, 10}), "");
  EXPECT_THAT(why({{"1", AE_IFLNK, part},
                   {"2", AE_IFLNK, part},
                   {"3", AE_IFLNK, part},
                   {"4", AE_IFLNK, part},
                   {"5", AE_IFLNK, part}},
                  {8000, 10}),
              testing::HasSubstr("too many links"));
  EXPECT_EQ(why({{"l", AE_IFLNK, part + "/" + part}}), "");
  EXPECT_THAT(why({{"l", AE_IFLNK, part + "/" + part + "/" + part}}), testing::HasSubstr("too long"));
}

TEST_F(RecordingTest, FoldersCountAsFilesDo) {
  std::vector<Entry> deep;
  for (int i = 0; i < 20; ++i) {
    std::string path = std::to_string(i);
    for (int k = 0; k < 20; ++k) path += "/" + std::to_string(k);
    deep.emplace_back(path);
  }
  EXPECT_EQ(why(deep), "");
  EXPECT_THAT(why(deep, {1500, 300}), testing::HasSubstr("too many files"));
  std::string path = "a";
  for (int k = 0; k < 400; ++k) path += "/a";
  EXPECT_THAT(why({{path}}), testing::HasSubstr("too many folders in one another"));
  EXPECT_THAT(why({{path, AE_IFDIR}}), testing::HasSubstr("too many folders in one another"));
}

TEST_F(RecordingTest, NamesInLettersOfElsewhere) {
  for (const bool zipped : {false, true}) {
    const auto recording = Recording::unpack(
        tar_of({{"sys/class/net/eth\xc3\xa9/mtu", AE_IFREG, "1500"}, {"sys/l\xff", AE_IFLNK, "class/net/eth\xc3\xa9"}},
               zipped),
        "x.tar");
    ASSERT_TRUE(recording) << recording.error().message();
    EXPECT_EQ(read_file(recording->folder() + "/sys/class/net/eth\xc3\xa9/mtu").value_or(""), "1500");
    EXPECT_EQ(read_file(recording->folder() + "/sys/l\xff/mtu").value_or(""), "1500");
  }
}

TEST_F(RecordingTest, WhatIsNoTarFileIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("hello"), std::string(2000, 'x'), std::string(2000, '\0')}) {
    const std::vector<unsigned char> bytes(text.begin(), text.end());
    EXPECT_FALSE(Recording::unpack(bytes, "x.tar")) << text.substr(0, 5);
  }
  auto cut = tar_of({{"a", AE_IFREG, std::string(5000, 'x')}});
  cut.resize(2000);
  EXPECT_FALSE(Recording::unpack(cut, "x.tar"));
  EXPECT_FALSE(Recording::open("/no/such/file"));
}

TEST_F(RecordingTest, AFolderStays) {
  const TempDirectory folder;
  std::ofstream(folder.path() / "a") << "x";
  {
    const auto recording = Recording::open(folder.path().string());
    ASSERT_TRUE(recording);
    EXPECT_EQ(recording->folder(), folder.path());
  }
  EXPECT_TRUE(fs::exists(folder.path() / "a"));
}

TEST(PathWithinTest, TakesWhatStaysBelow) {
  EXPECT_EQ(path_within("./a//b/./c/").value_or(""), "a/b/c");
  EXPECT_EQ(path_within("..a/b..").value_or(""), "..a/b..");
  for (const std::string bad : {"", "/", ".", "./", "/a", "a/..", "../a"}) EXPECT_FALSE(path_within(bad)) << bad;
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// A directory of a test's own, removed with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace roce {

class TempDirectory {
 public:
  TempDirectory() {
    // The six letters are what mkdtemp(3) replaces.
    std::string name = (std::filesystem::temp_directory_path() / "roce_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Many files of one directory, read without the walk along its path for each of them. Thread-safe, but for moves.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "exporter/base/result.h"

namespace roce {

// A directory that is open as long as this object lives. Its files are opened by their names alone, which spares the
// kernel the walk along the path for each of them.
class Directory {
 public:
  static Result<Directory> open(const std::string& path);
  Directory(Directory&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  Directory& operator=(Directory&&) = delete;
  ~Directory();

  // As the functions of these names in files.h.
  Result<std::uint64_t> read_u64(const std::string& name) const;
  Result<std::string> read_attribute(const std::string& name) const;
  bool exists(const std::string& name) const;

 private:
  Directory(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace roce

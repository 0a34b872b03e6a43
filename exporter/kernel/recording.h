// SPDX-License-Identifier: Apache-2.0
//
// A recording of a host as a folder. One that is a tar file, compressed by gzip or not, is unpacked into a folder of
// its own below TMPDIR, which goes with the object. A tar file comes from somebody else: it can put nothing outside
// that folder, no link of it leads out, and size, number and depth of what is made are bounded. A signal that ends the
// program removes the folder too (base/leftovers.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "exporter/base/result.h"

namespace roce {

struct RecordingLimits {
  std::size_t bytes = std::size_t{512} << 20;  // of all files, unpacked, with their paths and the targets of links
  std::size_t entries = 200000;                // files, links, and folders, named or not
};

class Recording {
 public:
  // A folder stays where it is, and stays afterwards.
  static Result<Recording> open(const std::string& path, const RecordingLimits& limits = {});
  // A tar file in memory; `name` is for messages.
  static Result<Recording> unpack(std::span<const unsigned char> tar, std::string_view name,
                                  const RecordingLimits& limits = {});

  Recording(Recording&& other) noexcept;
  Recording& operator=(Recording&& other) noexcept;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  const std::string& folder() const { return folder_; }

 private:
  Recording(std::string folder, bool own) : folder_(std::move(folder)), own_(own) {}

  std::string folder_;
  bool own_ = false;  // unpacked, so that it is to be removed
};

// "a/b/c" where the path stays below the folder that it starts from, without "." and doubled slashes; nothing for an
// absolute path, one with "..", an empty one, or one that is too long.
Result<std::string> path_within(std::string_view path);

// Makes the folders of a relative path without ".." below `top`, for nobody else's eyes; how many were not there yet.
// One of them being a link is an error.
Result<std::size_t> make_folders(const std::string& top, std::string_view path);

}  // namespace roce

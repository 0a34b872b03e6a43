// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "exporter/base/leftovers.h"
#include "exporter/base/random.h"
#include "exporter/kernel/capture.h"
#include "exporter/kernel/recording.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

// What it made goes with the program, or with the sink, until the recording is whole. A folder that was there before
// stays, and so does what others put there.
class FolderSink : public CaptureSink {
 public:
  explicit FolderSink(std::string top) : top_(std::move(top)) {}
  ~FolderSink() override {
    for (const std::string& path : made_) remove_leftover(path);
  }
  FolderSink(const FolderSink&) = delete;
  FolderSink& operator=(const FolderSink&) = delete;

  Result<void> open() {
    struct stat status{};
    if (::stat(top_.c_str(), &status) != 0) return new_folder(top_);
    std::error_code error;
    if (!S_ISDIR(status.st_mode)) return fail_errno(EEXIST, top_);
    if (!fs::is_empty(top_, error) || error) return fail_errno(ENOTEMPTY, top_);
    return {};
  }

  Result<void> file(const std::string& path, const std::string& text) override {
    const std::string full = top_ + "/" + path;
    int fd = -1;
    ROCE_TRY_VOID(put(path, [&]() -> Result<std::string> {
      fd = ::open(full.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (fd < 0) return fail_errno(errno, full);
      return full;
    }));
    int err = 0;
    for (std::string_view rest = text; err == 0 && !rest.empty();) {
      const ssize_t n = ::write(fd, rest.data(), rest.size());
      if (n >= 0)
        rest.remove_prefix(static_cast<std::size_t>(n));
      else if (errno != EINTR)
        err = errno;
    }
    if (::close(fd) != 0 && err == 0) err = errno;
    if (err != 0) return fail_errno(err, full);
    return {};
  }
  Result<void> link(const std::string& path, const std::string& target) override {
    const std::string full = top_ + "/" + path;
    return put(path, [&]() -> Result<std::string> {
      if (::symlink(target.c_str(), full.c_str()) != 0) return fail_errno(errno, full);
      return full;
    });
  }
  Result<void> folder(const std::string& path) override {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string first = top_ + "/" + path.substr(0, end);
    if (std::find(made_.begin(), made_.end(), first) == made_.end()) ROCE_TRY_VOID(new_folder(first));
    // From there on, so that nothing is made anew of what a signal has removed.
    ROCE_TRY([[maybe_unused]] const std::size_t made, make_folders(first, std::string_view(path).substr(end)));
    return {};
  }
  Result<void> finish() override {
    for (const std::string& path : made_) keep_leftover(path);
    made_.clear();
    return {};
  }

 private:
  using Make = std::function<Result<std::string>()>;

  Result<void> put(const std::string& path, const Make& make) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return own(make);
    ROCE_TRY_VOID(folder(path.substr(0, slash)));
    ROCE_TRY_VOID(make());
    return {};
  }
  Result<void> new_folder(const std::string& path) {
    return own([&path]() -> Result<std::string> {
      if (::mkdir(path.c_str(), 0700) != 0) return fail_errno(errno, path);
      return path;
    });
  }
  Result<void> own(const Make& make) {
    ROCE_TRY(std::string path, make_leftover(make));
    made_.push_back(std::move(path));
    return {};
  }

  const std::string top_;
  std::vector<std::string> made_;  // the folder, or what is new in it
};

class TarSink : public CaptureSink {
 public:
  // Each run has a part of its own: two that write the same file are in nobody's way.
  explicit TarSink(std::string target)
      : target_(std::move(target)),
        part_(fmt::format("{}.{:016x}.part", target_, random_number<std::uint64_t>())),
        tar_(archive_write_new()) {}
  ~TarSink() override {
    if (tar_ != nullptr) archive_write_free(tar_);
    if (fd_ >= 0) ::close(fd_);
    remove_leftover(part_);
  }
  TarSink(const TarSink&) = delete;
  TarSink& operator=(const TarSink&) = delete;

  Result<void> open() {
    // For nobody else's eyes, until its owner has seen what is in it.
    ROCE_TRY_VOID(make_leftover([this]() -> Result<std::string> {
      fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (fd_ < 0) return fail_errno(errno, target_);
      return part_;
    }));
    // Names are bytes, as they are to the kernel. (What pax says of that makes tar complain of each file.)
    if (tar_ == nullptr || archive_write_set_format_gnutar(tar_) != ARCHIVE_OK ||
        archive_write_open_fd(tar_, fd_) != ARCHIVE_OK)
      return failed();
    return {};
  }

  Result<void> file(const std::string& path, const std::string& text) override {
    ROCE_TRY_VOID(entry(path, AE_IFREG, text.size(), {}));
    if (archive_write_data(tar_, text.data(), text.size()) != static_cast<la_ssize_t>(text.size())) return failed();
    return {};
  }
  Result<void> link(const std::string& path, const std::string& target) override {
    return entry(path, AE_IFLNK, 0, target);
  }
  Result<void> folder(const std::string& path) override { return entry(path, AE_IFDIR, 0, {}); }

  Result<void> finish() override {
    if (archive_write_close(tar_) != ARCHIVE_OK) return failed();
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0 || std::rename(part_.c_str(), target_.c_str()) != 0) return fail_errno(errno, target_);
    keep_leftover(part_);
    return {};
  }

 private:
  Result<void> entry(const std::string& path, unsigned type, std::size_t size, const std::string& target) {
    archive_entry* e = archive_entry_new();
    if (e == nullptr) return fail(ErrorKind::kIo, target_ + ": no memory");
    archive_entry_set_pathname(e, path.c_str());
    archive_entry_set_filetype(e, type);
    archive_entry_set_perm(e, type == AE_IFDIR ? 0700 : 0600);
    archive_entry_set_size(e, static_cast<la_int64_t>(size));
    if (type == AE_IFLNK) archive_entry_set_symlink(e, target.c_str());
    const int status = archive_write_header(tar_, e);
    archive_entry_free(e);
    if (status < ARCHIVE_WARN) return failed();
    return {};
  }
  tl::unexpected<Error> failed() const {
    const char* why = tar_ != nullptr ? archive_error_string(tar_) : nullptr;
    return fail(ErrorKind::kIo, target_ + ": " + (why != nullptr ? why : "cannot be written"));
  }

  const std::string target_;
  const std::string part_;
  archive* tar_;
  int fd_ = -1;
};

}  // namespace

Result<std::unique_ptr<CaptureSink>> CaptureSink::open(const std::string& target) {
  if (target.ends_with(".tar")) {
    auto tar = std::make_unique<TarSink>(target);
    ROCE_TRY_VOID(tar->open());
    return std::unique_ptr<CaptureSink>(std::move(tar));
  }
  std::string folder = target;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::error_code error;
  if (const fs::path parent = fs::path(folder).parent_path(); !parent.empty()) fs::create_directories(parent, error);
  if (error) return fail_errno(error.value(), target);
  auto sink = std::make_unique<FolderSink>(folder);
  ROCE_TRY_VOID(sink->open());
  return std::unique_ptr<CaptureSink>(std::move(sink));
}

}  // namespace roce

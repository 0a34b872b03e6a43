// SPDX-License-Identifier: Apache-2.0
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "exporter/base/leftovers.h"
#include "exporter/kernel/capture.h"
#include "exporter/kernel/recording.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

class FolderSink : public CaptureSink {
 public:
  explicit FolderSink(std::string top) : top_(std::move(top)) {}

  Result<void> file(const std::string& path, const std::string& text) override {
    const std::string full = top_ + "/" + path;
    ROCE_TRY_VOID(make(parent_of(path)));
    const int fd = ::open(full.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = fd < 0 ? errno : 0;
    for (std::string_view rest = text; err == 0 && !rest.empty();) {
      const ssize_t n = ::write(fd, rest.data(), rest.size());
      if (n >= 0)
        rest.remove_prefix(static_cast<std::size_t>(n));
      else if (errno != EINTR)
        err = errno;
    }
    if (fd >= 0 && ::close(fd) != 0 && err == 0) err = errno;
    if (err != 0) return fail_errno(err, full);
    return {};
  }
  Result<void> link(const std::string& path, const std::string& target) override {
    ROCE_TRY_VOID(make(parent_of(path)));
    if (::symlink(target.c_str(), (top_ + "/" + path).c_str()) != 0) return fail_errno(errno, top_ + "/" + path);
    return {};
  }
  Result<void> folder(const std::string& path) override { return make(path); }
  Result<void> finish() override { return {}; }

 private:
  static std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
  }
  Result<void> make(const std::string& path) const {
    ROCE_TRY([[maybe_unused]] const std::size_t made, make_folders(top_, path));
    return {};
  }

  const std::string top_;
};

class TarSink : public CaptureSink {
 public:
  explicit TarSink(std::string target)
      : target_(std::move(target)), part_(target_ + ".part"), tar_(archive_write_new()) {}
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
      // One that was left behind has an owner and a mode of its own.
      if (::unlink(part_.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, part_);
      fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (fd_ < 0) return fail_errno(errno, part_);
      return part_;
    }));
    // Names are bytes, as they are to the kernel.
    if (tar_ == nullptr || archive_write_set_format_pax_restricted(tar_) != ARCHIVE_OK ||
        archive_write_set_options(tar_, "hdrcharset=BINARY") != ARCHIVE_OK ||
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
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, target);
  if (!fs::is_directory(folder, error)) return fail_errno(EEXIST, target);
  if (!fs::is_empty(folder, error) || error) return fail_errno(ENOTEMPTY, target);
  return std::unique_ptr<CaptureSink>(std::make_unique<FolderSink>(folder));
}

}  // namespace roce

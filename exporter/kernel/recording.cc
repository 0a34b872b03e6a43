// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/recording.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "exporter/kernel/files.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPath = 2048;
constexpr std::size_t kBlock = 65536;

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using Archive = std::unique_ptr<archive, CloseArchive>;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Link {
  std::string path;    // below the folder
  std::string target;  // as the archive has it
};

bool is_below(const fs::path& path, const fs::path& folder) {
  const auto relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

class Unpacker {
 public:
  Unpacker(std::string folder, std::string name, const RecordingLimits& limits)
      : folder_(std::move(folder)), name_(std::move(name)), limits_(limits) {}

  Result<void> run(archive* tar) {
    std::size_t entries = 0;
    for (;;) {
      archive_entry* entry = nullptr;
      const int status = archive_read_next_header(tar, &entry);
      if (status == ARCHIVE_EOF) break;
      if (status != ARCHIVE_OK) return broken(tar);
      if (++entries > limits_.entries) return fail(ErrorKind::kMalformed, name_ + ": too many files");
      ROCE_TRY_VOID(take(tar, entry));
    }
    if (entries == 0) return fail(ErrorKind::kMalformed, name_ + ": no tar file, or an empty one");
    // After all files, so that none is written through a link.
    for (const Link& link : links_) ROCE_TRY_VOID(make(link));
    for (const Link& link : links_) ROCE_TRY_VOID(check(link));
    return {};
  }

 private:
  tl::unexpected<Error> broken(archive* tar) const {
    const char* why = archive_error_string(tar);
    return fail(ErrorKind::kMalformed, name_ + ": " + (why != nullptr ? why : "cannot be read as a tar file"));
  }

  Result<void> take(archive* tar, archive_entry* entry) {
    const char* raw = archive_entry_pathname(entry);
    if (raw == nullptr) return fail(ErrorKind::kMalformed, name_ + ": an entry without a name");
    const std::string_view text(raw);
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFDIR && (text == "." || text == "./")) return {};
    auto path = path_within(text);
    if (!path) return fail(ErrorKind::kMalformed, name_ + ": " + path.error().object);
    const std::string full = folder_ + "/" + *path;
    std::error_code error;
    fs::create_directories(type == AE_IFDIR ? fs::path(full) : fs::path(full).parent_path(), error);
    if (error) return fail_errno(error.value(), full);
    if (archive_entry_hardlink(entry) != nullptr)
      return fail(ErrorKind::kMalformed, name_ + ": " + *path + " is a hard link");
    if (type == AE_IFDIR) return {};
    if (type == AE_IFLNK) {
      const char* target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0' || *target == '/')
        return fail(ErrorKind::kMalformed, name_ + ": the link " + *path + " leads out of the recording");
      links_.push_back({*path, target});
      return {};
    }
    if (type != AE_IFREG)
      return fail(ErrorKind::kMalformed, name_ + ": " + *path + " is neither file, folder nor link");
    return write(tar, full);
  }

  Result<void> write(archive* tar, const std::string& full) {
    // A file that comes twice is refused, as is one in the place of a folder.
    const File file(::open(full.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return fail_errno(errno, full);
    std::array<char, kBlock> block;
    for (;;) {
      const la_ssize_t n = archive_read_data(tar, block.data(), block.size());
      if (n == 0) return {};
      if (n < 0) return broken(tar);
      bytes_ += static_cast<std::size_t>(n);
      if (bytes_ > limits_.bytes) return fail(ErrorKind::kMalformed, name_ + ": too large");
      for (la_ssize_t done = 0; done < n;) {
        const ssize_t written = ::write(file.get(), block.data() + done, static_cast<std::size_t>(n - done));
        if (written < 0 && errno != EINTR) return fail_errno(errno, full);
        if (written > 0) done += written;
      }
    }
  }

  Result<void> make(const Link& link) {
    const std::string full = folder_ + "/" + link.path;
    // A link that was made before may stand where this one's folder should.
    ROCE_TRY(const std::string parent, resolve(fs::path(full).parent_path()));
    if (parent != folder_ && !is_below(parent, folder_)) return leads_out(link);
    if (::symlink(link.target.c_str(), full.c_str()) != 0) return fail_errno(errno, full);
    return {};
  }

  // Where nothing is at its end, that end has to be within the folder too.
  Result<void> check(const Link& link) {
    const std::string full = folder_ + "/" + link.path;
    std::string end;
    if (auto real = resolve(full)) {
      end = *real;
    } else {
      ROCE_TRY(const std::string parent, resolve(fs::path(full).parent_path()));
      end = (fs::path(parent) / link.target).lexically_normal();
    }
    if (end != folder_ && !is_below(end, folder_)) return leads_out(link);
    return {};
  }

  tl::unexpected<Error> leads_out(const Link& link) const {
    return fail(ErrorKind::kMalformed, name_ + ": the link " + link.path + " leads out of the recording");
  }

  const std::string folder_;
  const std::string name_;
  const RecordingLimits limits_;
  std::size_t bytes_ = 0;
  std::vector<Link> links_;
};

Archive new_archive() {
  Archive tar(archive_read_new());
  if (tar == nullptr) return tar;
  archive_read_support_format_tar(tar.get());
  archive_read_support_filter_gzip(tar.get());
  return tar;
}

Result<std::string> new_folder() {
  const char* top = std::getenv("TMPDIR");
  std::string name = std::string(top != nullptr && *top == '/' ? top : "/tmp") + "/roce_exporter-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return fail_errno(errno, name);
  return resolve(name);
}

}  // namespace

Result<std::string> path_within(std::string_view path) {
  std::string out;
  const auto refuse = [&] {
    return fail(ErrorKind::kMalformed, "`" + std::string(path.substr(0, 200)) + "` leads out of the recording");
  };
  if (path.starts_with('/') || path.size() > kMaxPath || path.find('\0') != std::string_view::npos) return refuse();
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") return refuse();
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return refuse();
  return out;
}

Result<Recording> Recording::open(const std::string& path, const RecordingLimits& limits) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail_errno(errno, path);
  if (S_ISDIR(status.st_mode)) return Recording(path, false);
  const Archive tar = new_archive();
  if (tar == nullptr) return fail(ErrorKind::kIo, path + ": no memory");
  if (archive_read_open_filename(tar.get(), path.c_str(), kBlock) != ARCHIVE_OK)
    return fail(ErrorKind::kMalformed, path + ": neither a folder nor a tar file");
  ROCE_TRY(std::string folder, new_folder());
  Recording recording(folder, true);  // removed again where the rest fails
  ROCE_TRY_VOID(Unpacker(folder, path, limits).run(tar.get()));
  return recording;
}

Result<Recording> Recording::unpack(std::span<const unsigned char> bytes, std::string_view name,
                                    const RecordingLimits& limits) {
  const Archive tar = new_archive();
  if (tar == nullptr || archive_read_open_memory(tar.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return fail(ErrorKind::kMalformed, std::string(name) + ": no tar file");
  ROCE_TRY(std::string folder, new_folder());
  Recording recording(folder, true);
  ROCE_TRY_VOID(Unpacker(folder, std::string(name), limits).run(tar.get()));
  return recording;
}

Recording::Recording(Recording&& other) noexcept
    : folder_(std::move(other.folder_)), own_(std::exchange(other.own_, false)) {}

Recording& Recording::operator=(Recording&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(own_, other.own_);
  return *this;
}

Recording::~Recording() {
  if (!own_) return;
  std::error_code error;  // what cannot be removed is left to whoever cleans TMPDIR
  fs::remove_all(folder_, error);
}

}  // namespace roce

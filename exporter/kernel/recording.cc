// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/recording.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "exporter/base/leftovers.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::size_t kMaxPath = 2048;
constexpr std::size_t kMaxDepth = 32;    // twice as deep as a function behind several PCIe switches
constexpr std::size_t kMaxTarget = 512;  // of a link
constexpr std::size_t kMaxSteps = 8;     // of the way of a link, for each file of the limit
constexpr int kMaxLinks = 40;            // one after the other, as the kernel has it
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

// The first part of a path, which it loses; empty ones are passed over.
std::string_view take_part(std::string_view& path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  const std::string_view part = path.substr(0, path.find('/'));
  path.remove_prefix(part.size());
  return part;
}

std::size_t depth_of(std::string_view path) {
  std::size_t depth = 0;
  while (!take_part(path).empty()) ++depth;
  return depth;
}

class Unpacker {
 public:
  Unpacker(std::string folder, std::string name, const RecordingLimits& limits)
      : folder_(std::move(folder)), name_(std::move(name)), limits_(limits) {}

  Result<void> run(archive* tar) {
    bool empty = true;
    for (;;) {
      archive_entry* entry = nullptr;
      const int status = archive_read_next_header(tar, &entry);
      if (status == ARCHIVE_EOF) break;
      // A warning is of a name that the locale has no letters for; names are bytes here, as they are to the kernel.
      if (status < ARCHIVE_WARN) return broken(tar);
      empty = false;
      ROCE_TRY_VOID(count(1));
      ROCE_TRY_VOID(take(tar, entry));
    }
    if (empty) return fail(ErrorKind::kMalformed, name_ + ": no tar file, or an empty one");
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

  Result<void> count_bytes(std::size_t more) {
    bytes_ += more;
    if (bytes_ > limits_.bytes) return fail(ErrorKind::kMalformed, name_ + ": too large");
    return {};
  }

  // Of files, links and folders, whether the archive names the folder or not.
  Result<void> count(std::size_t more) {
    entries_ += more;
    if (entries_ > limits_.entries) return fail(ErrorKind::kMalformed, name_ + ": too many files");
    return {};
  }

  Result<void> take(archive* tar, archive_entry* entry) {
    const char* raw = archive_entry_pathname(entry);
    if (raw == nullptr) return fail(ErrorKind::kMalformed, name_ + ": an entry without a name");
    const std::string_view text(raw);
    ROCE_TRY_VOID(count_bytes(text.size()));
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFDIR && (text == "." || text == "./")) return {};
    auto path = path_within(text);
    if (!path) return fail(ErrorKind::kMalformed, name_ + ": " + path.error().object);
    if (depth_of(*path) > kMaxDepth) return fail(ErrorKind::kMalformed, name_ + ": too many folders in one another");
    const std::string full = folder_ + "/" + *path;
    const std::size_t slash = path->rfind('/');
    const std::string parent = slash == std::string::npos ? std::string() : path->substr(0, slash);
    ROCE_TRY(const std::size_t made, make_folders(folder_, type == AE_IFDIR ? *path : parent));
    ROCE_TRY_VOID(count(made));
    if (archive_entry_hardlink(entry) != nullptr)
      return fail(ErrorKind::kMalformed, name_ + ": " + *path + " is a hard link");
    if (type == AE_IFDIR) return {};
    if (type == AE_IFLNK) {
      const char* target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0' || *target == '/') return leads_out(*path);
      const std::size_t size = std::string_view(target).size();
      if (size > kMaxTarget)
        return fail(ErrorKind::kMalformed, name_ + ": the target of the link " + *path + " is too long");
      ROCE_TRY_VOID(count_bytes(size));
      // They are held in memory.
      link_bytes_ += path->size() + size;
      if (link_bytes_ > limits_.bytes / 8) return fail(ErrorKind::kMalformed, name_ + ": too many links");
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
      ROCE_TRY_VOID(count_bytes(static_cast<std::size_t>(n)));
      for (la_ssize_t done = 0; done < n;) {
        const ssize_t written = ::write(file.get(), block.data() + done, static_cast<std::size_t>(n - done));
        if (written < 0 && errno != EINTR) return fail_errno(errno, full);
        if (written > 0) done += written;
      }
    }
  }

  // Its folder is there, made before the first link.
  Result<void> make(const Link& link) {
    const std::string full = folder_ + "/" + link.path;
    if (::symlink(link.target.c_str(), full.c_str()) != 0) return fail_errno(errno, full);
    return {};
  }

  // Goes the way that the kernel goes, link after link. No step of it may be outside, whether there is something at its
  // end or not: what is not there today may be tomorrow.
  Result<void> check(const Link& link) {
    const std::size_t slash = link.path.rfind('/');
    if (link.target == link.path.substr(slash + 1)) return {};  // to itself: a file that could not be read
    std::string at = slash == std::string::npos ? std::string() : link.path.substr(0, slash);  // no links on it
    std::string way = link.target;
    int links = 1;
    bool absent = false;
    for (std::string_view rest = way; !rest.empty();) {
      // Parts that lead nowhere take their time too.
      const std::string_view part = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      if (++steps_ > kMaxSteps * limits_.entries) return fail(ErrorKind::kMalformed, name_ + ": too many links");
      if (part.empty() || part == ".") continue;
      if (part == "..") {
        if (absent || at.empty()) return leads_out(link.path);
        at.resize(at.find('/') == std::string::npos ? 0 : at.rfind('/'));
        continue;
      }
      const std::string next = at.empty() ? std::string(part) : at + "/" + std::string(part);
      std::array<char, kMaxPath + 1> target;  // NOLINT: filled by readlink
      const ssize_t size = absent ? -1 : ::readlink((folder_ + "/" + next).c_str(), target.data(), target.size());
      if (size < 0) {
        // EINVAL: there, and no link.
        if (!absent && errno != EINVAL && errno != ENOENT && errno != ENOTDIR) return leads_out(link.path);
        absent = absent || errno != EINVAL;
        at = next;
        continue;
      }
      // Another that cannot be read, as the one for all that may not be read.
      if (std::string_view(target.data(), static_cast<std::size_t>(size)) == part) return {};
      if (++links > kMaxLinks) return leads_out(link.path);
      way = std::string(target.data(), static_cast<std::size_t>(size)) + "/" + std::string(rest);
      rest = way;
    }
    return {};
  }

  tl::unexpected<Error> leads_out(const std::string& path) const {
    return fail(ErrorKind::kMalformed, name_ + ": the link " + path + " leads out of the recording");
  }

  const std::string folder_;
  const std::string name_;
  const RecordingLimits limits_;
  std::size_t bytes_ = 0;
  std::size_t link_bytes_ = 0;
  std::size_t entries_ = 0;
  std::size_t steps_ = 0;  // on the ways of all links
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
  return make_leftover([&]() -> Result<std::string> {
    if (::mkdtemp(name.data()) == nullptr) return fail_errno(errno, name);
    return resolve(name);
  });
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

Result<std::size_t> make_folders(const std::string& top, std::string_view path) {
  std::size_t made = 0;
  std::string full = top;
  for (std::string_view part = take_part(path); !part.empty(); part = take_part(path)) {
    full += '/';
    full += part;
    if (::mkdir(full.c_str(), 0700) == 0) {
      ++made;
      continue;
    }
    struct stat status{};
    if (errno != EEXIST) return fail_errno(errno, full);
    if (::lstat(full.c_str(), &status) != 0) return fail_errno(errno, full);
    if (!S_ISDIR(status.st_mode)) return fail_errno(ENOTDIR, full);
  }
  return made;
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
  if (own_) remove_leftover(folder_);
}

}  // namespace roce

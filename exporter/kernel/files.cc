// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <memory>

#include "exporter/base/parse.h"
#include "exporter/kernel/denied_link.h"
#include "exporter/kernel/directory.h"

namespace roce {
namespace {

// Closes on every way out of a function.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Where a file is: a name below an open directory, or a path.
struct Place {
  int directory;
  const std::string& path_of_directory;
  const std::string& name;
  std::string path() const { return directory == AT_FDCWD ? name : path_of_directory + "/" + name; }
};
Place at(const std::string& path) { return {AT_FDCWD, path, path}; }

// O_NONBLOCK: a made tree may hold a FIFO.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

constexpr std::size_t kAttributeSize = 4096;  // a sysfs attribute is at most one page
using AttributeBuffer = std::array<char, kAttributeSize>;

// The kernel hands an attribute out whole: one read that does not fill the buffer has got it all.
Result<std::size_t> read_into(const Place& place, AttributeBuffer& buffer) {
  const Fd fd(openat(place.directory, place.name.c_str(), kOpenFlags));
  if (fd.get() < 0) return fail_errno(errno_of_open(place.path()), place.path());
  for (;;) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR) return fail_errno(errno, place.path());
  }
}

Result<std::string_view> read_trimmed(const Place& place, AttributeBuffer& buffer) {
  ROCE_TRY(const std::size_t n, read_into(place, buffer));
  std::string_view text(buffer.data(), n);
  // Fields of fixed length come with the NULs that fill them.
  text = text.substr(0, text.find_last_not_of(std::string_view("\0 \t\r\n", 5)) + 1);
  text = trim(text);
  if (text.empty()) return fail(ErrorKind::kUnsupported, place.path());
  return text;
}

Result<std::string> read_text(const Place& place) {
  AttributeBuffer buffer;  // NOLINT: filled by read
  ROCE_TRY(const std::string_view text, read_trimmed(place, buffer));
  return std::string(text);
}

Result<std::uint64_t> read_number(const Place& place) {
  AttributeBuffer buffer;  // NOLINT: filled by read
  ROCE_TRY(const std::string_view text, read_trimmed(place, buffer));
  if (const auto value = parse_u64(text)) return *value;
  const bool words = std::none_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return fail(words ? ErrorKind::kUnsupported : ErrorKind::kMalformed, place.path());
}

}  // namespace

// Room is taken as it is needed: most files are far below the limit of their kind.
Result<std::string> read_file(const std::string& path, std::size_t limit) {
  constexpr std::size_t kFirst = 4096;
  const Fd fd(open(path.c_str(), kOpenFlags));
  if (fd.get() < 0) return fail_errno(errno_of_open(path), path);
  std::string text(std::min(limit + 1, kFirst), '\0');
  std::size_t used = 0;
  for (;;) {
    if (used == text.size()) {
      if (used > limit) return fail(ErrorKind::kMalformed, path);
      text.resize(std::min(limit + 1, 2 * text.size()));
    }
    const ssize_t n = read(fd.get(), text.data() + used, text.size() - used);
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno(errno, path);
    }
    used += static_cast<std::size_t>(n);
  }
  text.resize(used);
  return text;
}

Result<std::string> read_attribute(const std::string& path) { return read_text(at(path)); }

Result<std::uint64_t> read_u64(const std::string& path) { return read_number(at(path)); }

Result<Directory> Directory::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);  // asks for no more rights than a path does
  if (fd < 0) return fail_errno(errno_of_open(path), path);
  return Directory(path, fd);
}

Directory::~Directory() {
  if (fd_ >= 0) close(fd_);
}

Result<std::uint64_t> Directory::read_u64(const std::string& name) const { return read_number({fd_, path_, name}); }

Result<std::string> Directory::read_attribute(const std::string& name) const { return read_text({fd_, path_, name}); }

bool Directory::exists(const std::string& name) const {
  return faccessat(fd_, name.c_str(), F_OK, 0) == 0 || errno == ELOOP;
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (!dir) return fail_errno(errno_of_open(path), path);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) return fail_errno(errno, path);
      break;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

Result<std::string> link_basename(const std::string& path) {
  std::array<char, PATH_MAX> buffer;  // NOLINT: filled by readlink
  const ssize_t n = readlink(path.c_str(), buffer.data(), buffer.size());
  if (n < 0) return fail_errno(errno, path);
  const std::string_view target(buffer.data(), static_cast<std::size_t>(n));
  return std::string(target.substr(target.rfind('/') + 1));
}

Result<std::string> resolve(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (!real) return fail_errno(errno, path);
  return std::string(real.get());
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0 || errno == ELOOP; }

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      std::size_t end_a = i;
      std::size_t end_b = j;
      while (end_a < a.size() && digit(a[end_a])) ++end_a;
      while (end_b < b.size() && digit(b[end_b])) ++end_b;
      while (i + 1 < end_a && a[i] == '0') ++i;
      while (j + 1 < end_b && b[j] == '0') ++j;
      if (end_a - i != end_b - j) return end_a - i < end_b - j;
      const int order = a.substr(i, end_a - i).compare(b.substr(j, end_b - j));
      if (order != 0) return order < 0;
      i = end_a;
      j = end_b;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// Preload library: makes files of a test tree behave as kernel files sometimes do and plain files cannot.
//
//   FAULT_FS_RULES  a file with lines "path <TAB> effect <TAB> parameter"; a path matches when the path of an opened file
//                   or directory ends with it
//   FAULT_FS_KLOG   file that gets one line for each read which would have made a driver write to the kernel log
//   FAULT_FS_OPENS  file that gets one line, the path, for each open of a file or directory under a "/sys/" or "/proc/"
//                   of a test tree (a tree is recognised by FAULT_FS_ROOT, a path prefix)
//
//   FAULT_FS_NO_IPV6  set: socket() says of IPv6 what a kernel without it says
//   FAULT_FS_CLOCK  file with the seconds by which the wall clock is off
//
// Effects: an errno name (reads return it; for a directory, reading the entries); EINVAL+KLOG (EINVAL, and one line in
// the log for each); OPEN+ERRNO (the open itself fails); DELAY milliseconds (each read blocks that long);
// EMPTYDIR (a directory without entries); LISTED-THEN-ENOENT (the directory lists it, opening and stat say ENOENT).
// ONCE+ERRNO (the first read fails only).
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { READ_ERRNO, OPEN_ERRNO, DELAY, EMPTY_DIR, LISTED_ENOENT };

struct rule {
  char path[512];
  enum kind kind;
  int err;
  int klog;
  int once;
  long delay_ms;
  atomic_int used;
};

static struct rule rules[1024];
static int rule_count;
static const char* root;
static const char* klog_file;
static const char* opens_file;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct { const char* name; int err; } errnos[] = {
    {"EIO", EIO},       {"EINVAL", EINVAL}, {"ENOENT", ENOENT},         {"EACCES", EACCES}, {"EPERM", EPERM},
    {"EBUSY", EBUSY},   {"EAGAIN", EAGAIN}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ENODEV", ENODEV}, {"ETIMEDOUT", ETIMEDOUT},
    {"ENODATA", ENODATA}, {"ENXIO", ENXIO}, {"EINTR", EINTR},           {"ENOMEM", ENOMEM},
};

static int errno_of(const char* name) {
  for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; ++i)
    if (strcmp(errnos[i].name, name) == 0) return errnos[i].err;
  fprintf(stderr, "fault_fs: unknown effect %s\n", name);
  _exit(97);
}

static void append(const char* file, const char* line) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  char text[PATH_MAX + 2];
  int n = snprintf(text, sizeof text, "%s\n", line);
  if (n > 0 && syscall(SYS_write, fd, text, (size_t)n) < 0) { /* nothing to be done about it here */
  }
  syscall(SYS_close, fd);
}

static void load(void) {
  root = getenv("FAULT_FS_ROOT");
  klog_file = getenv("FAULT_FS_KLOG");
  opens_file = getenv("FAULT_FS_OPENS");
  const char* name = getenv("FAULT_FS_RULES");
  if (!name) return;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
  static char text[1 << 18];
  long n = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
  if (n < 0) {
    fprintf(stderr, "fault_fs: cannot read %s\n", name);
    _exit(97);
  }
  syscall(SYS_close, fd);
  char* save = NULL;
  for (char* line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (line[0] == '#' || line[0] == 0) continue;
    if (rule_count == (int)(sizeof rules / sizeof rules[0])) break;
    struct rule* r = &rules[rule_count];
    char effect[64] = "", parameter[64] = "";
    if (sscanf(line, "%511s %63s %63s", r->path, effect, parameter) < 2) continue;
    const char* e = effect;
    if (strcmp(e, "EMPTYDIR") == 0) {
      r->kind = EMPTY_DIR;
    } else if (strcmp(e, "LISTED-THEN-ENOENT") == 0) {
      r->kind = LISTED_ENOENT;
    } else if (strcmp(e, "DELAY") == 0) {
      r->kind = DELAY;
      r->delay_ms = atol(parameter);
    } else if (strncmp(e, "OPEN+", 5) == 0) {
      r->kind = OPEN_ERRNO;
      r->err = errno_of(e + 5);
    } else if (strncmp(e, "ONCE+", 5) == 0) {
      r->kind = READ_ERRNO;
      r->once = 1;
      r->err = errno_of(e + 5);
    } else if (strcmp(e, "EINVAL+KLOG") == 0) {
      r->kind = READ_ERRNO;
      r->err = EINVAL;
      r->klog = 1;
    } else {
      r->kind = READ_ERRNO;
      r->err = errno_of(e);
    }
    ++rule_count;
  }
}

static struct rule* match(const char* path) {
  pthread_once(&once, load);
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') --length;
  for (int i = 0; i < rule_count; ++i) {
    size_t n = strlen(rules[i].path);
    if (n <= length && memcmp(path + length - n, rules[i].path, n) == 0 &&
        (n == length || path[length - n - 1] == '/' || rules[i].path[0] == '/'))
      return &rules[i];
  }
  return NULL;
}

// The path of an open descriptor; 0 when it is no file of the tree.
static int path_of(int fd, char* out) {
  pthread_once(&once, load);
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (n <= 0) return 0;
  out[n] = 0;
  return out[0] == '/' && (!root || strncmp(out, root, strlen(root)) == 0);
}

// The path that an *at call names.
static int path_at(int dir, const char* path, char* out) {
  pthread_once(&once, load);
  if (path[0] == '/' || dir == AT_FDCWD) {
    if (snprintf(out, PATH_MAX, "%s", path) >= PATH_MAX) return 0;
  } else {
    char base[PATH_MAX];
    if (!path_of(dir, base)) return 0;
    if (path[0] == 0) return snprintf(out, PATH_MAX, "%s", base) < PATH_MAX;
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
  }
  return !root || strncmp(out, root, strlen(root)) == 0;
}

static int refuse_open(int dir, const char* path) {
  char full[PATH_MAX];
  if (!path || !path_at(dir, path, full)) return 0;
  if (opens_file) append(opens_file, full);
  struct rule* r = match(full);
  if (r && r->kind == OPEN_ERRNO) return r->err;
  if (r && r->kind == LISTED_ENOENT) return ENOENT;
  return 0;
}

static int refuse_stat(int dir, const char* path) {
  char full[PATH_MAX];
  if (!path || !path_at(dir, path, full)) return 0;
  struct rule* r = match(full);
  return r && r->kind == LISTED_ENOENT ? ENOENT : 0;
}

static int fault_of_read(int fd) {
  char path[PATH_MAX];
  if (rule_count == 0 && root) pthread_once(&once, load);
  if (!path_of(fd, path)) return 0;
  struct rule* r = match(path);
  if (!r) return 0;
  if (r->kind == DELAY) {
    struct timespec t = {r->delay_ms / 1000, (r->delay_ms % 1000) * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {
    }
    return 0;
  }
  if (r->kind != READ_ERRNO) return 0;
  if (r->once && atomic_exchange(&r->used, 1)) return 0;
  if (r->klog && klog_file) append(klog_file, path);
  return r->err;
}

#define REAL(name, ...)                                     \
  static __typeof__(&name) real;                            \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPEN_BODY(dir, path, flags, ...)                    \
  mode_t mode = 0;                                          \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                    \
    va_list ap;                                             \
    va_start(ap, flags);                                    \
    mode = (mode_t)va_arg(ap, int);                         \
    va_end(ap);                                             \
  }                                                         \
  int err = refuse_open(dir, path);                         \
  if (err) {                                                \
    errno = err;                                            \
    return -1;                                              \
  }                                                         \
  return real(__VA_ARGS__, mode)

int open(const char* path, int flags, ...) {
  REAL(open);
  OPEN_BODY(AT_FDCWD, path, flags, path, flags);
}
int open64(const char* path, int flags, ...) {
  REAL(open64);
  OPEN_BODY(AT_FDCWD, path, flags, path, flags);
}
int openat(int dir, const char* path, int flags, ...) {
  REAL(openat);
  OPEN_BODY(dir, path, flags, dir, path, flags);
}
int openat64(int dir, const char* path, int flags, ...) {
  REAL(openat64);
  OPEN_BODY(dir, path, flags, dir, path, flags);
}
// What _FORTIFY_SOURCE makes of them.
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open64(path, flags); }
int __openat_2(int dir, const char* path, int flags) { return openat(dir, path, flags); }
int __openat64_2(int dir, const char* path, int flags) { return openat64(dir, path, flags); }

FILE* fopen(const char* path, const char* how) {
  REAL(fopen);
  int err = refuse_open(AT_FDCWD, path);
  if (err) {
    errno = err;
    return NULL;
  }
  return real(path, how);
}
FILE* fopen64(const char* path, const char* how) {
  REAL(fopen64);
  int err = refuse_open(AT_FDCWD, path);
  if (err) {
    errno = err;
    return NULL;
  }
  return real(path, how);
}
DIR* opendir(const char* path) {
  REAL(opendir);
  int err = refuse_open(AT_FDCWD, path);
  if (err) {
    errno = err;
    return NULL;
  }
  return real(path);
}

#define READ_BODY(fd, ...)           \
  int err = fault_of_read(fd);       \
  if (err) {                         \
    errno = err;                     \
    return -1;                       \
  }                                  \
  return real(__VA_ARGS__)

ssize_t read(int fd, void* to, size_t n) {
  REAL(read);
  READ_BODY(fd, fd, to, n);
}
ssize_t __read_chk(int fd, void* to, size_t n, size_t room) {
  (void)room;
  return read(fd, to, n);
}
ssize_t pread(int fd, void* to, size_t n, off_t at) {
  REAL(pread);
  READ_BODY(fd, fd, to, n, at);
}
ssize_t pread64(int fd, void* to, size_t n, off64_t at) {
  REAL(pread64);
  READ_BODY(fd, fd, to, n, at);
}
ssize_t __pread_chk(int fd, void* to, size_t n, off_t at, size_t room) {
  (void)room;
  return pread(fd, to, n, at);
}
ssize_t __pread64_chk(int fd, void* to, size_t n, off64_t at, size_t room) {
  (void)room;
  return pread64(fd, to, n, at);
}
ssize_t readv(int fd, const struct iovec* to, int n) {
  REAL(readv);
  READ_BODY(fd, fd, to, n);
}

// 1: end of the directory, with errno for a fault or 0 for an empty one; 0: go on.
static int end_of_directory(DIR* d) {
  char path[PATH_MAX];
  int fd = dirfd(d);
  if (fd < 0 || !path_of(fd, path)) return 0;
  struct rule* r = match(path);
  if (r && r->kind == EMPTY_DIR) {
    errno = 0;
    return 1;
  }
  int err = fault_of_read(fd);
  if (!err) return 0;
  errno = err;
  return 1;
}
struct dirent* readdir(DIR* d) {
  REAL(readdir);
  return end_of_directory(d) ? NULL : real(d);
}
struct dirent64* readdir64(DIR* d) {
  REAL(readdir64);
  return end_of_directory(d) ? NULL : real(d);
}
ssize_t getdents64(int fd, void* to, size_t n) {
  REAL(getdents64);
  READ_BODY(fd, fd, to, n);
}

#define STAT_BODY(dir, path, ...)        \
  int err = refuse_stat(dir, path);      \
  if (err) {                             \
    errno = err;                         \
    return -1;                           \
  }                                      \
  return real(__VA_ARGS__)

int stat(const char* path, struct stat* to) {
  REAL(stat);
  STAT_BODY(AT_FDCWD, path, path, to);
}
int stat64(const char* path, struct stat64* to) {
  REAL(stat64);
  STAT_BODY(AT_FDCWD, path, path, to);
}
int lstat(const char* path, struct stat* to) {
  REAL(lstat);
  STAT_BODY(AT_FDCWD, path, path, to);
}
int lstat64(const char* path, struct stat64* to) {
  REAL(lstat64);
  STAT_BODY(AT_FDCWD, path, path, to);
}
int fstatat(int dir, const char* path, struct stat* to, int flags) {
  REAL(fstatat);
  STAT_BODY(dir, path, dir, path, to, flags);
}
int fstatat64(int dir, const char* path, struct stat64* to, int flags) {
  REAL(fstatat64);
  STAT_BODY(dir, path, dir, path, to, flags);
}
int statx(int dir, const char* path, int flags, unsigned mask, struct statx* to) {
  REAL(statx);
  STAT_BODY(dir, path, dir, path, flags, mask, to);
}
int access(const char* path, int how) {
  REAL(access);
  STAT_BODY(AT_FDCWD, path, path, how);
}
int faccessat(int dir, const char* path, int how, int flags) {
  REAL(faccessat);
  STAT_BODY(dir, path, dir, path, how, flags);
}

int socket(int family, int type, int protocol) {
  REAL(socket);
  if (family == AF_INET6 && getenv("FAULT_FS_NO_IPV6")) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return real(family, type, protocol);
}

static long clock_is_off_by(void) {
  const char* name = getenv("FAULT_FS_CLOCK");
  if (!name) return 0;
  char text[32] = {0};
  const int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const long size = syscall(SYS_read, fd, text, sizeof text - 1);
  syscall(SYS_close, fd);
  return size > 0 ? strtol(text, NULL, 10) : 0;
}

// By system call: a sanitizer's allocator asks for the time inside free(), and dlsym() calls free().
int clock_gettime(clockid_t id, struct timespec* to) {
  const int result = (int)syscall(SYS_clock_gettime, id, to);
  if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) to->tv_sec += clock_is_off_by();
  return result;
}
int gettimeofday(struct timeval* to, void* zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

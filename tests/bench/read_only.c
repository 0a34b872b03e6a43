// SPDX-License-Identifier: Apache-2.0
//
// The floor of what an exporter of sysfs counters can cost: opens, reads and closes the same files, and does nothing with
// what they hold. For each line on standard input it makes one pass and answers with the number of bytes read.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long read_file(int dir, const char* name) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char buffer[4096];
  long total = 0;
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0) total += n;
  close(fd);
  return total;
}

static long read_directory(int parent, const char* name) {
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  DIR* dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return 0;
  }
  long total = 0;
  struct dirent* e;
  while ((e = readdir(dir)))
    if (e->d_name[0] != '.') total += read_file(fd, e->d_name);
  closedir(dir);
  return total;
}

static long pass(const char* class_dir) {
  DIR* devices = opendir(class_dir);
  if (!devices) return -1;
  long total = 0;
  struct dirent* d;
  while ((d = readdir(devices))) {
    if (d->d_name[0] == '.') continue;
    int device = openat(dirfd(devices), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (device < 0) continue;
    static const char* const of_device[] = {"board_id", "fw_ver", "hca_type"};
    for (size_t i = 0; i < sizeof of_device / sizeof of_device[0]; ++i) total += read_file(device, of_device[i]);
    int ports_fd = openat(device, "ports", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* ports = ports_fd < 0 ? NULL : fdopendir(ports_fd);
    struct dirent* p;
    while (ports && (p = readdir(ports))) {
      if (p->d_name[0] == '.') continue;
      int port = openat(ports_fd, p->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (port < 0) continue;
      static const char* const of_port[] = {"state", "phys_state", "rate"};
      for (size_t i = 0; i < sizeof of_port / sizeof of_port[0]; ++i) total += read_file(port, of_port[i]);
      total += read_directory(port, "counters");
      total += read_directory(port, "hw_counters");
      close(port);
    }
    if (ports) closedir(ports);
    close(device);
  }
  closedir(devices);
  return total;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: read_only CLASS_DIRECTORY\n");
    return 2;
  }
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    printf("%ld\n", pass(argv[1]));
    fflush(stdout);
  }
  return 0;
}

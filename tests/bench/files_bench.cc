// SPDX-License-Identifier: Apache-2.0
//
// One counter file of sysfs: by its whole path, by its name below an open directory, and, as the floor, with nothing
// but the three system calls.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "exporter/kernel/directory.h"
#include "exporter/kernel/files.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

constexpr const char* kDirectory = "sys/class/infiniband/mlx5_0/ports/1/counters";

std::string made_directory(const TempTree& tree) {
  tree.write(std::string(kDirectory) + "/port_rcv_data", "123456789012345\n");
  return tree.path(kDirectory);
}

void file_by_path(benchmark::State& state) {
  const TempTree tree;
  const std::string path = made_directory(tree) + "/port_rcv_data";
  for (auto _ : state) benchmark::DoNotOptimize(read_u64(path));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("file");
}
BENCHMARK(file_by_path);

void file_of_open_directory(benchmark::State& state) {
  const TempTree tree;
  const auto directory = Directory::open(made_directory(tree));
  const std::string name = "port_rcv_data";
  for (auto _ : state) benchmark::DoNotOptimize(directory->read_u64(name));
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("file");
}
BENCHMARK(file_of_open_directory);

void file_system_calls_alone(benchmark::State& state) {
  const TempTree tree;
  const int directory = open(made_directory(tree).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::array<char, 4096> buffer{};
  for (auto _ : state) {
    const int fd = openat(directory, "port_rcv_data", O_RDONLY | O_CLOEXEC);
    benchmark::DoNotOptimize(read(fd, buffer.data(), buffer.size()));
    close(fd);
  }
  close(directory);
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("file");
}
BENCHMARK(file_system_calls_alone);

}  // namespace
}  // namespace roce

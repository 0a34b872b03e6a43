// SPDX-License-Identifier: Apache-2.0
//
// A made tree in a temporary directory, removed with the object.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "exporter/kernel/host.h"

namespace roce {

class TempTree {
 public:
  TempTree() {
    std::string name = (std::filesystem::temp_directory_path() / "roce_test_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  std::string path(const std::string& relative) const { return (root_ / relative).string(); }
  void write(const std::string& relative, const std::string& text) const {
    std::filesystem::create_directories((root_ / relative).parent_path());
    std::ofstream(root_ / relative) << text;
  }
  void link(const std::string& relative, const std::string& target) const {
    std::filesystem::create_directories((root_ / relative).parent_path());
    std::filesystem::create_symlink(target, root_ / relative);
  }
  void remove(const std::string& relative) const { std::filesystem::remove_all(root_ / relative); }

  // An active RoCE port with the given counters directory entries written by the caller.
  void add_port(const std::string& device, int port = 1, const std::string& state = "4: ACTIVE") const {
    const std::string dir = "sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/";
    write(dir + "state", state + "\n");
    write(dir + "phys_state", "5: LinkUp\n");
    write(dir + "rate", "100 Gb/sec (4X EDR)\n");
    write(dir + "link_layer", "Ethernet\n");
  }

  std::shared_ptr<const Host> host() const {
    auto host = std::make_shared<Host>();
    host->sysfs = path("sys");
    host->procfs = path("proc");
    host->live = false;
    return host;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// A made tree in a temporary directory, removed with the object.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "exporter/kernel/host.h"
#include "tests/support/temp_directory.h"

namespace roce {

class TempTree {
 public:
  std::string path(const std::string& relative) const { return (root_.path() / relative).string(); }
  void write(const std::string& relative, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / relative).parent_path());
    std::ofstream(root_.path() / relative) << text;
  }
  void link(const std::string& relative, const std::string& target) const {
    std::filesystem::create_directories((root_.path() / relative).parent_path());
    std::filesystem::create_symlink(target, root_.path() / relative);
  }
  void remove(const std::string& relative) const { std::filesystem::remove_all(root_.path() / relative); }

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
  TempDirectory root_;
};

}  // namespace roce

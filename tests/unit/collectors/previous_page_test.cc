// SPDX-License-Identifier: Apache-2.0
//
// Every collector of the registry on the tree of a field case, then on the same tree with every number changed: one
// that gives its previous page again is found out here, whatever kept it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "exporter/collectors/collector.h"
#include "exporter/kernel/dcb_recorded.h"
#include "exporter/kernel/ethtool_recorded.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/rdma_recorded.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string_view tree;  // below tests/cases
  // Beside the numbers: texts that become other texts, for what has no number in it.
  std::vector<std::pair<std::string_view, std::string_view>> texts = {};
};

// By collector. A collector that is not here fails the test.
const std::map<std::string_view, Source>& sources() {
  static const std::map<std::string_view, Source> all{
      {"rdma_device", {"MS-13-twelve-ports", {{"28.", "29."}, {"16.", "17."}, {"20.", "21."}}}},
      {"rdma_port", {"MS-13-twelve-ports", {{"4: ACTIVE", "1: DOWN"}}}},
      {"port_counters", {"MS-13-twelve-ports"}},
      {"hw_counters", {"MS-03-bytes-in-hw-counters"}},
      {"rdma_resources", {"KR-20-owners-of-qps"}},
      {"rdma_gid", {"SE-16-ipv6-gids", {{"fd", "fe80"}, {"2001", "0000"}, {"RoCE v2", "IB/RoCE v1"}}}},
      {"netdev", {"KR-30-lossless-setup"}},
      {"ethtool", {"KR-08-link-without-light"}},
      {"link", {"KR-08-link-without-light"}},
      {"dcb", {"KR-30-lossless-setup", {{"true", "false"}}}},
      {"congestion_control", {"KR-31-ecn-of-the-driver-package"}},
      {"qp", {"KR-20-owners-of-qps", {{"RTS", "ERR"}}}},
      {"cm_messages", {"MS-13-twelve-ports"}},
      {"pcie", {"KR-40-pcie-trained-lower"}},
      {"hwmon", {"KR-44-host-settings-and-temperatures"}},
      {"sriov", {"KR-32-virtual-functions"}},
      {"rdma_owners", {"KR-20-owners-of-qps"}},
      {"odp", {"KR-20-owners-of-qps"}},
      {"nvme", {"KR-30-storage-link/t0"}},
      {"nvmet", {"KR-32-storage-servers"}},
      {"nfs_rdma", {"KR-30-storage-link/t0"}},
      {"iser", {"KR-32-storage-servers"}},
      {"gds", {"KR-31-gpudirect-storage/t0"}},
      {"storage_modules", {"KR-31-gpudirect-storage/t0"}},
      {"bond", {"AQ-11-bond-device"}},
      {"processes", {"SE-08-memlock-of-the-process"}},
      {"hugepages", {"SE-06-huge-page-sizes-and-nodes"}},
      {"sysv_shm", {"AQ-16-segments-at-their-limit"}},
      {"cgroups", {"SE-08-memlock-of-the-process"}},
      {"interrupts", {"KR-43-completion-interrupts/t0"}},
      {"host_path", {"KR-43-completion-interrupts/t0"}},
      {"cpu_power", {"KR-44-host-settings-and-temperatures"}},
      {"kernel_settings", {"KR-44-host-settings-and-temperatures"}},
      {"process_cgroups", {"SE-08-memlock-of-the-process", {{"/system.slice", "/other.slice"}, {"pod", "pad"}}}},
  };
  return all;
}
// These read no file: their own tests give them a second answer.
constexpr std::array<std::string_view, 3> kWithoutFiles{"devlink", "kernel_log", "qp_counters"};

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Adds one to each whole number that stands alone: "12", "n=12", "\"n\":12", not what is part of an address or a
// version.
std::string with_other_numbers(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (!digit(text[i])) {
      out += text[i++];
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && digit(text[end])) ++end;
    const char before = i == 0 ? '\n' : text[i - 1];
    const char after = end == text.size() ? '\n' : text[end];
    const bool begins = std::isspace(static_cast<unsigned char>(before)) != 0 || before == '=' || before == '[' ||
                        (before == ':' && i > 1 && text[i - 2] == '"');
    const bool ends =
        std::isspace(static_cast<unsigned char>(after)) != 0 || after == ',' || after == ']' || after == '}';
    const std::string number = text.substr(i, end - i);
    out += begins && ends && number.size() < 18 ? std::to_string(std::stoull(number) + 1) : number;
    i = end;
  }
  return out;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class PreviousPageTest : public testing::Test {
 protected:
  void take(std::string_view tree) {
    root_ = tree_.path("copy");
    fs::remove_all(root_);
    fs::copy(fs::path(ROCE_SOURCE_DIR) / "tests/cases" / tree, root_,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    // What no case has: messages of the connection manager, and cgroups with a limit for the processes that hold verbs
    // contexts.
    if (const std::string ports = root_ + "/sys/class/infiniband/roce_r0/ports/1"; fs::exists(ports))
      write(ports + "/cm_tx_msgs/req", "7\n");
    if (fs::exists(root_ + "/proc"))
      for (const auto& process : fs::directory_iterator(root_ + "/proc")) {
        if (!digit(process.path().filename().string().front())) continue;
        if (!fs::exists(process.path() / "cgroup")) write(process.path() / "cgroup", "0::/lab\n");
        std::ifstream in(process.path() / "cgroup");
        const std::string text((std::istreambuf_iterator<char>(in)), {});
        if (const auto at = text.find("0::/"); at != std::string::npos) {
          const std::string dir = root_ + "/sys/fs/cgroup" + text.substr(at + 3, text.find('\n', at) - at - 3);
          write(dir + "/rdma.current", "rxe0 hca_handle=1 hca_object=0\n");
          write(dir + "/rdma.max", "rxe0 hca_handle=5 hca_object=max\n");
        }
      }
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void change(const Source& source) {
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file() || entry.is_symlink()) continue;
      std::ifstream in(entry.path());
      std::string text((std::istreambuf_iterator<char>(in)), {});
      in.close();
      text = with_other_numbers(text);
      for (const auto& [from, to] : source.texts) text = replaced(std::move(text), from, to);
      std::ofstream(entry.path()) << text;
    }
  }

  // The host as it is now. Recordings are read anew; collectors keep what they remember.
  void open() {
    host_->sysfs = root_ + "/sys";
    host_->procfs = root_ + "/proc";
    host_->configfs_mount = root_ + "/configfs";
    host_->debugfs_mount = root_ + "/debugfs";
    host_->rootfs = root_ + "/root";
    host_->live = false;
    host_->recorded_netdevs = list_directory(root_ + "/netdev").value_or(std::vector<std::string>());
    if (auto rdma = open_rdma_recording(root_)) host_->rdma = std::move(*rdma);
    if (auto ethtool = open_ethtool_recording(root_)) host_->ethtool = std::move(*ethtool);
    host_->dcb = open_dcb_recording(root_);
  }

  std::string page(const CollectorEntry& entry) {
    open();
    Inventory inventory(host_, [](std::string_view) { return true; }, [](std::string_view) { return true; });
    DeviceList objects = inventory.refresh().value();
    objects.insert(objects.end(), inventory.others().begin(), inventory.others().end());
    std::vector<Output> outputs;
    for (const auto& object : objects) {
      if (!serves(entry.scope, *object)) continue;
      auto& collector = collectors_[object->name];
      if (!collector)
        collector = entry.create({host_, object, std::make_shared<PortStates>(), {}});
      else
        collector->update(object);
      (void)collector->collect(outputs.emplace_back());
    }
    std::vector<const SampleBatch*> batches;
    for (const Output& output : outputs)
      for (const auto& part : output.parts) batches.push_back(&part->samples);
    return render_text(batches);
  }

  TempTree tree_;
  std::string root_;
  std::shared_ptr<Host> host_ = std::make_shared<Host>();
  std::map<std::string, std::unique_ptr<Collector>> collectors_;
};

TEST_F(PreviousPageTest, NoCollectorGivesItAgain) {
  for (const CollectorEntry& entry : collector_registry()) {
    if (std::find(kWithoutFiles.begin(), kWithoutFiles.end(), entry.name) != kWithoutFiles.end()) continue;
    const auto source = sources().find(entry.name);
    if (source == sources().end()) {
      ADD_FAILURE() << entry.name << " has no tree here: add a row to sources()";
      continue;
    }
    SCOPED_TRACE(std::string(entry.name));
    collectors_.clear();
    take(source->second.tree);
    (void)page(entry);  // some tell what is new since the last time
    const std::string first = page(entry);
    EXPECT_NE(first, "") << "nothing to change";
    EXPECT_EQ(page(entry), first) << "the same tree gives the same page, or the comparison says nothing";
    change(source->second);
    EXPECT_NE(page(entry), first);
  }
}

}  // namespace
}  // namespace roce

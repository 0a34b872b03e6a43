// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/capture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "exporter/base/leftovers.h"
#include "exporter/kernel/capture_sources.h"
#include "exporter/kernel/dcb_recorded.h"
#include "exporter/kernel/devlink_recorded.h"
#include "exporter/kernel/ethtool_messages.h"
#include "exporter/kernel/files.h"
#include "exporter/kernel/memory.h"
#include "exporter/kernel/rdma_recorded.h"
#include "exporter/kernel/recording.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;

class Memory : public CaptureSink {
 public:
  Result<void> file(const std::string& path, const std::string& text) override {
    EXPECT_TRUE(files.emplace(path, text).second) << path;
    return {};
  }
  Result<void> link(const std::string& path, const std::string& target) override {
    EXPECT_TRUE(links.emplace(path, target).second) << path;
    return {};
  }
  Result<void> folder(const std::string& path) override {
    EXPECT_TRUE(folders.emplace(path, 1).second) << path;
    return {};
  }
  Result<void> finish() override {
    finished = true;
    return {};
  }

  std::map<std::string, std::string> files;
  std::map<std::string, std::string> links;
  std::map<std::string, int> folders;
  bool finished = false;
};

class CaptureTest : public testing::Test {
 protected:
  static CaptureOptions all() {
    return {{}, 2000, [](std::string_view) { return true; }, [](std::string_view) { return true; }};
  }
  void take(const CaptureOptions& options = all()) {
    const auto report = capture(*tree_.host(), {}, options, sink_);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->files, sink_.files.size());
    EXPECT_TRUE(sink_.finished);
  }

  TempTree tree_;
  Memory sink_;
};

TEST_F(CaptureTest, FollowsLinksAndKeepsThem) {
  const std::string function = "sys/devices/pci0000:3a/0000:3b:00.0";
  tree_.write(function + "/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  tree_.write(function + "/numa_node", "1\n");
  tree_.link(function + "/infiniband/mlx5_0/device", "../..");
  tree_.link("sys/class/infiniband/mlx5_0", "../../devices/pci0000:3a/0000:3b:00.0/infiniband/mlx5_0");
  take();
  EXPECT_EQ(sink_.files[function + "/infiniband/mlx5_0/ports/1/state"], "4: ACTIVE\n");
  EXPECT_EQ(sink_.files[function + "/numa_node"], "1\n");
  EXPECT_EQ(sink_.links["sys/class/infiniband/mlx5_0"], "../../devices/pci0000:3a/0000:3b:00.0/infiniband/mlx5_0");
  EXPECT_EQ(sink_.links[function + "/infiniband/mlx5_0/device"], "../..");
}

TEST_F(CaptureTest, TakesNothingThatIsNotOnTheList) {
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/nvme/nvme0/dhchap_secret", "DHHC-1:00:abc:");
  tree_.write("sys/class/nvme/nvme0/dhchap_ctrl_secret", "DHHC-1:00:abc:");
  tree_.write("sys/class/nvme/nvme0/tls_key", "0123");
  tree_.write("sys/class/nvme/nvme0/address", "traddr=192.0.2.9,trsvcid=4420\n");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/counters/secret_key", "5");
  tree_.write("proc/1/environ", "PASSWORD=x");
  tree_.write("proc/1/comm", "postgres");
  tree_.write("proc/1/cgroup", "0::/acme.slice");
  tree_.write("proc/1/limits", "Max open files 1 1 files\nMax locked memory 65536 65536 bytes\n");
  tree_.write("proc/7/environ", "PASSWORD=x");
  tree_.write("proc/7/cmdline", "postgres -p x");
  tree_.write("proc/7/comm", "postgres");
  tree_.write("proc/7/status", "Name:\tpostgres\nUid:\t1001\nVmPin:\t64 kB\n");
  tree_.write("recorded/rdma/resource_ctx.json", R"([{"ifindex":0,"ifname":"mlx5_0","ctxn":1,"pid":7}])");
  tree_.write("proc/cmdline", "x");
  tree_.write("sys/class/dmi/id/product_serial", "ABC");
  tree_.write("sys/class/net/eth0/address", "0c:42:a1:12:34:56");
  tree_.link("sys/class/net/out", "/etc");
  tree_.link("sys/class/net/up", "../../../../../../../../etc");
  auto host = std::make_shared<Host>(*tree_.host());
  auto rdma = open_rdma_recording(tree_.path("recorded"));
  ASSERT_TRUE(rdma);
  host->rdma = std::move(*rdma);
  auto devices = Inventory(host, all().device_wanted, all().netdev_wanted).refresh();
  ASSERT_TRUE(devices);
  ASSERT_TRUE(capture(*host, *devices, all(), sink_));
  // Of the first process only what services get, of a holder only its memory.
  EXPECT_EQ(sink_.files["proc/1/limits"], "Max locked memory 65536 65536 bytes\n");
  EXPECT_EQ(sink_.files["proc/7/comm"], "process-1\n");
  EXPECT_EQ(sink_.files["proc/7/status"], "VmPin:\t64 kB\n");
  EXPECT_THAT(sink_.files, Contains(Key("sys/class/nvme/nvme0/address")));
  for (const auto& [path, text] : sink_.files) {
    EXPECT_THAT(path, Not(HasSubstr("secret")));
    EXPECT_THAT(path, Not(HasSubstr("tls")));
    EXPECT_FALSE((path.starts_with("proc/1/") && path != "proc/1/limits") || path.starts_with("sys/class/dmi") ||
                 path == "proc/cmdline")
        << path;
    EXPECT_THAT(text, Not(HasSubstr("DHHC")));
    EXPECT_THAT(text, Not(HasSubstr("postgres")));
    EXPECT_THAT(text, Not(HasSubstr("PASSWORD")));
    EXPECT_THAT(text, Not(HasSubstr("1001")));
    EXPECT_THAT(text, Not(HasSubstr("192.0.2.9")));
  }
  EXPECT_THAT(sink_.links, Not(Contains(Key("sys/class/net/out"))));
  EXPECT_THAT(sink_.links, Not(Contains(Key("sys/class/net/up"))));
}

TEST_F(CaptureTest, TheListNamesNoSecretAndNoProcess) {
  for (const std::string_view pattern : capture_patterns()) {
    EXPECT_FALSE(looks_secret(pattern)) << pattern;
    EXPECT_FALSE(pattern.starts_with("proc/*") || pattern.starts_with("proc/[")) << pattern;
    EXPECT_FALSE(pattern.starts_with("proc/self/") && pattern != "proc/self/mountstats") << pattern;
  }
  for (const std::string secret :
       {"a/dhchap_key", "a/dhchap_secret", "key", "a/tls_psk", "x/password", "a/tls_configured_key"})
    EXPECT_TRUE(looks_secret(secret)) << secret;
  EXPECT_FALSE(looks_secret("secret/state"));
}

TEST_F(CaptureTest, DevicesThatAreLeftAloneAreNotTouched) {
  tree_.add_port("mlx5_0");
  tree_.add_port("mlx5_1");
  tree_.write("sys/class/net/eth0/mtu", "1500");
  tree_.write("sys/class/net/eth1/mtu", "1500");
  CaptureOptions options = all();
  options.device_wanted = [](std::string_view name) { return name != "mlx5_1"; };
  options.netdev_wanted = [](std::string_view name) { return name != "eth1"; };
  take(options);
  for (const auto& [path, text] : sink_.files) {
    EXPECT_THAT(path, Not(HasSubstr("mlx5_1")));
    EXPECT_THAT(path, Not(HasSubstr("eth1")));
  }
  EXPECT_THAT(sink_.files, Contains(Key("sys/class/net/eth0/mtu")));
}

TEST_F(CaptureTest, NamesAreReplacedAlikeInAllFiles) {
  tree_.write("proc/sys/kernel/hostname", "gpu17\n");
  tree_.add_port("mlx5_0");
  tree_.write("sys/class/infiniband/mlx5_0/node_desc", "gpu17 mlx5_0\n");
  tree_.write("sys/class/infiniband/mlx5_0/fw_ver", "20.1.2.3\n");
  tree_.write("sys/class/infiniband/mlx5_0/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:c000:0207\n");
  tree_.write("sys/class/nvme-subsystem/nvme-subsys0/serial", "S5XX\n");
  tree_.write("sys/class/nvme-subsystem/nvme-subsys0/subsysnqn", "nqn.2024-01.org.acme:a\n");
  tree_.write("configfs/nvmet/subsystems/nqn.2024-01.org.acme:a/attr_model", "Linux\n");
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
              "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  tree_.write("proc/self/mountstats",
              "device /dev/sda1 mounted on /home/alice with fstype ext4\n"
              "device stor9:/pool/alice mounted on /mnt/alice with fstype nfs4 statvers=1.1\n"
              "\topts:\trw,proto=rdma,addr=192.0.2.9,clientaddr=192.0.2.7\n\txprt:\trdma 0 0 1\n"
              "device stor8:/x mounted on /y with fstype nfs statvers=1.1\n\topts:\trw,proto=tcp,addr=192.0.2.8\n"
              "\txprt:\ttcp 0 0 1\n");
  auto host = std::make_shared<Host>(*tree_.host());
  host->configfs_mount = tree_.path("configfs");
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  for (const auto& [path, text] : sink_.files)
    for (const char* name : {"gpu17", "acme", "alice", "stor9", "stor8", "192.0.2.", "S5XX", "c000:0207"}) {
      EXPECT_THAT(text, Not(HasSubstr(name))) << path;
      EXPECT_THAT(path, Not(HasSubstr(name)));
    }
  EXPECT_EQ(sink_.files["sys/class/infiniband/mlx5_0/fw_ver"], "20.1.2.3\n") << "a version is no address";
  const std::string nqn = sink_.files["sys/class/nvme-subsystem/nvme-subsys0/subsysnqn"];
  EXPECT_THAT(sink_.files, Contains(Key("configfs/nvmet/subsystems/" + nqn.substr(0, nqn.size() - 1) + "/attr_model")));
  // The host's own address, and that of the peer, are in the network of the route still.
  unsigned mapped[4];
  const std::string gid = sink_.files["sys/class/infiniband/mlx5_0/ports/1/gids/3"];
  ASSERT_EQ(std::sscanf(gid.c_str() + 30, "%2x%2x:%2x%2x", &mapped[0], &mapped[1], &mapped[2], &mapped[3]), 4) << gid;
  char route[16];
  std::snprintf(route, sizeof route, "00%02X%02X%02X", mapped[2], mapped[1], mapped[0]);
  EXPECT_THAT(sink_.files["proc/net/route"], HasSubstr(std::string("\t") + route + "\t00000000\t"));
  char peer[32];
  std::snprintf(peer, sizeof peer, "addr=%u.%u.%u.", mapped[0], mapped[1], mapped[2]);
  EXPECT_THAT(sink_.files["proc/self/mountstats"], HasSubstr(peer));
  EXPECT_THAT(sink_.files["proc/self/mountstats"], Not(HasSubstr("ext4")));
  EXPECT_THAT(sink_.files["proc/self/mountstats"], Not(HasSubstr("tcp")));
}

TEST_F(CaptureTest, AHostCalledAsTheKernelSpeaksChangesNothing) {
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  const std::map<std::string, std::string> kept = {
      {port + "state", "4: ACTIVE\n"},
      {port + "counters/port_rcv_data", "1000\n"},
      {port + "hw_counters/out_of_buffer", "1000\n"},
      {"sys/class/nvme/nvme0/transport", "rdma\n"},
      {"sys/class/nvme/nvme0/address", "trsvcid=1000,x=rdma\n"},
      {"proc/net/bonding/bond0", "Currently Active Slave: rdma\nSpeed: 1000 Mbps\n"},
      {"proc/self/mountstats",
       "device /path-1:/path-2 mounted on /path-2 with fstype nfs statvers=1.1\n\topts:\trw,proto=rdma\n"}};
  for (const auto& [path, text] : kept) tree_.write(path, text);
  CaptureOptions options = all();
  options.host_names = {"1000", "rdma.acme.example"};
  tree_.write("proc/sys/kernel/hostname", "active\n");
  take(options);
  for (const auto& [path, text] : kept) {
    if (path == "proc/self/mountstats") continue;
    EXPECT_EQ(sink_.files[path], text) << path;
  }
  EXPECT_THAT(sink_.files["proc/self/mountstats"], HasSubstr("rw,proto=rdma\n"));
  EXPECT_THAT(sink_.files["proc/sys/kernel/hostname"], testing::StartsWith("host-"));
}

TEST_F(CaptureTest, AddressesInNamesOfDevicesAreReplacedAlike) {
  tree_.write("sys/devices/a/net/enx0c42a1123456/mtu", "1500\n");
  tree_.link("sys/class/net/enx0c42a1123456", "../../devices/a/net/enx0c42a1123456");
  tree_.write("sys/class/net/bond0/bonding/slaves", "enx0c42a1123456\n");
  tree_.link("sys/class/net/bond0/lower_enx0c42a1123456", "../../../devices/a/net/enx0c42a1123456");
  tree_.write("proc/net/bonding/bond0", "Permanent HW addr: 0c:42:a1:12:34:56\n");
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
              "enx0c42a1123456\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  tree_.write("sys/class/infiniband/rocexe41d2d0300abcdef/ports/1/state", "4: ACTIVE\n");
  tree_.write("sys/class/infiniband/rocexe41d2d0300abcdef/node_guid", "e41d:2d03:00ab:cdef\n");
  tree_.write("recorded/rdma/dev.json", R"([{"ifindex":0,"ifname":"rocexe41d2d0300abcdef"}])");
  auto host = std::make_shared<Host>(*tree_.host());
  auto rdma = open_rdma_recording(tree_.path("recorded"));
  ASSERT_TRUE(rdma);
  host->rdma = std::move(*rdma);
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  std::string mac = sink_.files["proc/net/bonding/bond0"].substr(19, 17);
  std::erase(mac, ':');
  const std::string netdev = "enx" + mac;
  EXPECT_NE(mac, "0c42a1123456");
  EXPECT_EQ(sink_.links["sys/class/net/" + netdev], "../../devices/a/net/" + netdev);
  EXPECT_EQ(sink_.links["sys/class/net/bond0/lower_" + netdev], "../../../devices/a/net/" + netdev);
  EXPECT_EQ(sink_.files["sys/devices/a/net/" + netdev + "/mtu"], "1500\n");
  EXPECT_EQ(sink_.files["sys/class/net/bond0/bonding/slaves"], netdev + "\n");
  EXPECT_THAT(sink_.files["proc/net/route"], HasSubstr("\n" + netdev + "\t"));
  const auto json = sink_.files["rdma/dev.json"];
  const std::size_t at = json.find("rocex");
  ASSERT_NE(at, std::string::npos) << json;
  const std::string device = json.substr(at, 21);
  std::string guid = sink_.files["sys/class/infiniband/" + device + "/node_guid"];
  std::erase(guid, ':');
  EXPECT_EQ(guid, device.substr(5) + "\n");
  EXPECT_THAT(sink_.files, Contains(Key("sys/class/infiniband/" + device + "/ports/1/state")));
  std::vector<std::pair<std::string, std::string>> all_text(sink_.files.begin(), sink_.files.end());
  all_text.insert(all_text.end(), sink_.links.begin(), sink_.links.end());
  for (const auto& [path, count] : sink_.folders) all_text.emplace_back(path, "");
  for (const auto& [path, text] : all_text)
    for (const char* secret : {"0c42a1123456", "e41d2d0300abcdef"}) {
      EXPECT_THAT(text, Not(HasSubstr(secret))) << path;
      EXPECT_THAT(path, Not(HasSubstr(secret)));
    }
}

TEST_F(CaptureTest, AddressesInPathsAreReplacedAsInTexts) {
  // Azure's netvsc: the UUID of its device is its MAC address twice over.
  const std::string vmbus = "sys/devices/VMBUS:00/000d3af9-f7f7-000d-3af9-f7f7000d3af9";
  tree_.write(vmbus + "/net/eth9/mtu", "1500\n");
  tree_.link("sys/class/net/eth9", "../../devices/VMBUS:00/000d3af9-f7f7-000d-3af9-f7f7000d3af9/net/eth9");
  for (const std::string name : {"br-0c42a1123456", "gre_10.1.2.3"}) {
    tree_.write("sys/class/net/" + name + "/mtu", "1500\n");
    tree_.write("sys/class/net/bond0/lower_" + name + "/mtu", "1500\n");
  }
  tree_.write("sys/class/net/bond0/bonding/slaves", "br-0c42a1123456 gre_10.1.2.3\n");
  tree_.write("proc/net/route",
              "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
              "br-0c42a1123456\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  tree_.write("proc/net/if_inet6", "fe800000000000000a0b0cfffe0d0e0f 02 40 20 80 br-0c42a1123456\n");
  tree_.write(
      "proc/net/ipv6_route",
      "20010db8000500000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 "
      "00000100 00000001 00000000 00000001 br-0c42a1123456\n");
  take();
  const std::string slaves = sink_.files["sys/class/net/bond0/bonding/slaves"];
  const std::string bridge = slaves.substr(0, slaves.find(' '));
  const std::string tunnel = slaves.substr(bridge.size() + 1, slaves.size() - bridge.size() - 2);
  for (const std::string& name : {bridge, tunnel}) {
    EXPECT_THAT(sink_.files, Contains(Key("sys/class/net/" + name + "/mtu")));
    EXPECT_THAT(sink_.folders, Contains(Key("sys/class/net/bond0/lower_" + name)));
  }
  EXPECT_THAT(sink_.files["proc/net/route"], HasSubstr("\n" + bridge + "\t"));
  EXPECT_THAT(sink_.files["proc/net/if_inet6"], testing::EndsWith(" " + bridge + "\n"));
  EXPECT_THAT(sink_.files["proc/net/ipv6_route"], testing::EndsWith(" " + bridge + "\n"));
  const std::string target = sink_.links["sys/class/net/eth9"];
  EXPECT_THAT(target, testing::MatchesRegex("../../devices/VMBUS:00/00000000-0000-4000-8000-[0-9a-f]{12}/net/eth9"));
  EXPECT_THAT(sink_.files, Contains(Key("sys" + target.substr(5) + "/mtu")));
  std::vector<std::pair<std::string, std::string>> all_text(sink_.files.begin(), sink_.files.end());
  all_text.insert(all_text.end(), sink_.links.begin(), sink_.links.end());
  for (const auto& [path, count] : sink_.folders) all_text.emplace_back(path, "");
  for (const auto& [path, text] : all_text)
    for (const char* secret : {"0d3af9", "0c42a1123456", "10.1.2.3"}) {
      EXPECT_THAT(text, Not(HasSubstr(secret))) << path;
      EXPECT_THAT(path, Not(HasSubstr(secret)));
    }
}

TEST_F(CaptureTest, WhatAServerOfNfsSaysOfItselfIsNotTaken) {
  tree_.write("proc/self/mountstats",
              "device nas:/e mounted on /e with fstype nfs4 statvers=1.1\n"
              "\topts:\trw,proto=rdma\n"
              "\timpl_id:\tname='FASTOS node17 build',domain='storage.corp.example',date='0,0'\n"
              "\tcaps:\tcaps=0xff\n"
              "device nas:/f mounted on /f with fstype nfs4 statvers=1.1\n"
              "\timpl_id:\tname='a\ndevice corp:/x mounted on /x\n',domain='storage.corp.example',date='5,0'\n"
              "\txprt:\trdma 0 0 1\n");
  take();
  const std::string text = sink_.files["proc/self/mountstats"];
  for (const char* secret : {"FASTOS", "node17", "corp", "storage"}) EXPECT_THAT(text, Not(HasSubstr(secret)));
  EXPECT_THAT(text,
              HasSubstr("\n\topts:\trw,proto=rdma\n\timpl_id:\tname='',domain='',date='0,0'\n\tcaps:\tcaps=0xff\n"));
  EXPECT_THAT(text, testing::EndsWith("\n\timpl_id:\tname='',domain='',date='0,0'\n\txprt:\trdma 0 0 1\n"));
}

TEST_F(CaptureTest, DropInsOfSystemdAreNumbered) {
  const std::string etc = "root/etc/systemd/system.conf.d/";
  const std::string lib = "root/usr/lib/systemd/system.conf.d/";
  const auto limit = [](int megabytes) { return fmt::format("[Manager]\nDefaultLimitMEMLOCK={}M\n", megabytes); };
  tree_.write(etc + "90-node17-acme.conf", limit(1));
  tree_.write(lib + "90-node17-acme.conf", limit(2));  // hidden by the one in /etc
  tree_.write(lib + "10-acme.conf", limit(3));
  tree_.write(lib + "95-acme.conf", limit(4));
  tree_.link(etc + "95-acme.conf", "/dev/null");
  tree_.write("root/etc/acme/limits", limit(5));
  tree_.link(etc + "50-acme.conf", "../../acme/limits");
  tree_.write(etc + "99-acme.conf.bak", limit(6));
  auto host = std::make_shared<Host>(*tree_.host());
  host->rootfs = tree_.path("root");
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  const std::map<std::string, std::string> wanted = {
      {lib + "1.conf", limit(3)}, {etc + "2.conf", limit(5)}, {etc + "3.conf", limit(1)}, {etc + "4.conf", ""}};
  EXPECT_EQ(sink_.files, wanted);
  EXPECT_TRUE(sink_.links.empty());
}

TEST_F(CaptureTest, NamesOfStorageAreReplacedWhole) {
  const std::string made = "nqn.2014.08.org.nvmexpress:13441344        17431A1B2C3DMicron_9300";
  const std::string subsystem = "sys/class/nvme-subsystem/nvme-subsys";
  tree_.write(subsystem + "0/subsysnqn", made + "\n");
  tree_.write(subsystem + "1/subsysnqn", "payroll-prod-acme\n");
  tree_.write(subsystem + "2/subsysnqn", "nqn.2014-08.org.nvmexpress.discovery\n");
  tree_.write("sys/class/nvme/nvme0/hostnqn", "NQN.2024-01.org.acme:payroll\n");
  tree_.write("sys/class/iscsi_session/session1/targetname", "iqn.2005-03.org.acme:a/payroll\n");
  tree_.write("sys/class/iscsi_session/session1/ifacename", "iface-10.1.2.3\n");
  tree_.write("sys/class/iscsi_session/session2/ifacename", "iser\n");
  tree_.write("sys/module/mlx5_core/parameters/guids", "0x0c42a10300123456\n");
  tree_.write("sys/module/mlx5_core/parameters/prof_sel", "2\n");
  for (const std::string name : {"payroll-prod-acme", "NQN.2024-01.org.acme:payroll"}) {
    tree_.write("configfs/nvmet/subsystems/" + name + "/attr_model", "Linux\n");
    tree_.link("configfs/nvmet/ports/1/subsystems/" + name, "../../../subsystems/" + name);
    tree_.write("debugfs/nvmet/" + name + "/ctrl1/state", "live\n");
  }
  auto host = std::make_shared<Host>(*tree_.host());
  host->configfs_mount = tree_.path("configfs");
  host->debugfs_mount = tree_.path("debugfs");
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  const std::string nqn = sink_.files[subsystem + "1/subsysnqn"];
  const std::string name = nqn.substr(0, nqn.size() - 1);
  EXPECT_EQ(nqn, name + "\n");
  EXPECT_EQ(sink_.files["configfs/nvmet/subsystems/" + name + "/attr_model"], "Linux\n");
  EXPECT_EQ(sink_.files["debugfs/nvmet/" + name + "/ctrl1/state"], "live\n");
  EXPECT_EQ(sink_.links["configfs/nvmet/ports/1/subsystems/" + name], "../../../subsystems/" + name);
  EXPECT_EQ(sink_.files[subsystem + "2/subsysnqn"], "nqn.2014-08.org.nvmexpress.discovery\n");
  EXPECT_EQ(sink_.files["sys/class/iscsi_session/session2/ifacename"], "iser\n");
  EXPECT_EQ(sink_.files["sys/module/mlx5_core/parameters/prof_sel"], "2\n");
  std::vector<std::pair<std::string, std::string>> all_text(sink_.files.begin(), sink_.files.end());
  all_text.insert(all_text.end(), sink_.links.begin(), sink_.links.end());
  for (const auto& [path, count] : sink_.folders) all_text.emplace_back(path, "");
  for (const auto& [path, text] : all_text)
    for (const char* secret : {"13441344", "17431A1B2C3D", "payroll", "acme", "10.1.2.3", "a10300123456"}) {
      EXPECT_THAT(text, Not(HasSubstr(secret))) << path;
      EXPECT_THAT(path, Not(HasSubstr(secret)));
    }
}

TEST_F(CaptureTest, NoAddressOfTheKernelAndNoProcess) {
  tree_.write("proc/modules",
              "nvme_rdma 49152 2 - Live 0xffffffffc0a51000 (OE)\n"
              "nvme_core 200704 5 nvme_rdma,nvme, Live 0xffffffffc09e1000\n");
  tree_.write("proc/sysvipc/shm",
              "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime"
              "      ctime   rss  swap\n"
              " 123456789      98304  1600   67108864  4242  4343      2  1001  1002  1003  1004 1764400000 1764400001"
              " 1764400002 2048 0\n");
  take();
  EXPECT_EQ(sink_.files["proc/modules"],
            "nvme_rdma 49152 2 - Live 0x0000000000000000 (OE)\n"
            "nvme_core 200704 5 nvme_rdma,nvme, Live 0x0000000000000000\n");
  const std::string shm = sink_.files["proc/sysvipc/shm"];
  for (const char* secret : {"123456789", "98304", "4242", "4343", "1001", "1002", "1003", "1004", "17644000"})
    EXPECT_THAT(shm, Not(HasSubstr(secret)));
  const auto memory = parse_shared_memory(shm);
  ASSERT_TRUE(memory) << shm;
  EXPECT_EQ(memory->segments, 1U);
  EXPECT_EQ(memory->bytes, 67108864U);
  EXPECT_EQ(memory->orphaned, 0U);
}

TEST_F(CaptureTest, OwnersOfRdmaObjectsKeepTheirNumbersAlone) {
  tree_.write("proc/4343/comm", "postgres\n");
  tree_.write("recorded/rdma/dev.json", R"([{"ifindex":0,"ifname":"mlx5_0"}])");
  tree_.write(
      "recorded/rdma/resource_qp.json",
      R"([{"ifindex":0,"ifname":"mlx5_0","port":1,"lqpn":7,"type":"RC","state":"RTS","pid":4242,"comm":"acme"},)"
      R"({"ifindex":0,"ifname":"mlx5_0","port":1,"lqpn":8,"type":"RC","state":"RTS","pid":4343},)"
      R"({"ifindex":0,"ifname":"mlx5_0","port":1,"lqpn":9,"type":"RC","state":"RTS","pid":4242}])");
  auto host = std::make_shared<Host>(*tree_.host());
  auto rdma = open_rdma_recording(tree_.path("recorded"));
  ASSERT_TRUE(rdma);
  host->rdma = std::move(*rdma);
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  const std::string qps = sink_.files["rdma/resource_qp.json"];
  EXPECT_THAT(qps, HasSubstr(R"("lqpn":7,"type":"RC","state":"RTS","pid":4242,"comm":"process-2"})"));
  EXPECT_THAT(qps, HasSubstr(R"("lqpn":8,"type":"RC","state":"RTS","pid":4343,"comm":"process-1"})"));
  EXPECT_THAT(qps, HasSubstr(R"("lqpn":9,"type":"RC","state":"RTS","pid":4242})"));
}

TEST_F(CaptureTest, WhatMayNotBeReadIsALinkThatSaysSo) {
  // Root may read all: of a recording that says so already, another one says the same.
  tree_.link("permission-denied", "permission-denied");
  tree_.add_port("mlx5_0");
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  tree_.write(port + "counters/port_rcv_data", "1\n");
  tree_.link(port + "counters/port_xmit_data", "../../../../../../../permission-denied");
  tree_.link(port + "hw_counters", "../../../../../../permission-denied");
  tree_.link("debugfs", "permission-denied");
  tree_.link("proc/77/status", "../../permission-denied");
  tree_.write("recorded/rdma/dev.json", R"([{"ifindex":0,"ifname":"mlx5_0"}])");
  tree_.link("recorded/rdma/resource_qp.json", "../../permission-denied");
  tree_.link("recorded/rdma/devlink_health.json", "../../permission-denied");
  auto host = std::make_shared<Host>(*tree_.host());
  host->debugfs_mount = tree_.path("debugfs");
  auto rdma = open_rdma_recording(tree_.path("recorded"));
  ASSERT_TRUE(rdma);
  host->rdma = std::move(*rdma);
  EXPECT_EQ(open_devlink_recording(tree_.path("recorded"))->health_reporters({"pci", "x"}).error().kind,
            ErrorKind::kDenied);
  EXPECT_EQ(read_file(tree_.path(port + "counters/port_xmit_data")).error().kind, ErrorKind::kDenied);
  EXPECT_EQ(list_directory(tree_.path("debugfs/mlx5")).error().kind, ErrorKind::kDenied);
  EXPECT_TRUE(exists(tree_.path(port + "hw_counters")));
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  EXPECT_EQ(sink_.links["permission-denied"], "permission-denied");
  EXPECT_EQ(sink_.links[port + "counters/port_xmit_data"], "../../../../../../../permission-denied");
  EXPECT_EQ(sink_.links[port + "hw_counters"], "../../../../../../permission-denied");
  EXPECT_EQ(sink_.links["debugfs"], "permission-denied");
  EXPECT_EQ(sink_.links["proc/77/status"], "../../permission-denied");
  EXPECT_EQ(sink_.links["rdma/resource_qp.json"], "../permission-denied");
  EXPECT_EQ(sink_.files[port + "counters/port_rcv_data"], "1\n");
}

TEST_F(CaptureTest, OfSystemdOnlyTheLimitIsTaken) {
  tree_.write("root/etc/systemd/system.conf",
              "[Manager]\nDefaultEnvironment=TOKEN=x\nDefaultLimitMEMLOCK=8M\n#DefaultLimitNOFILE=1\n");
  auto host = std::make_shared<Host>(*tree_.host());
  host->rootfs = tree_.path("root");
  ASSERT_TRUE(capture(*host, {}, all(), sink_));
  EXPECT_EQ(sink_.files["root/etc/systemd/system.conf"], "[Manager]\nDefaultLimitMEMLOCK=8M\n");
}

TEST(CaptureSourcesTest, WhatTheToolsPrintIsReadBack) {
  const std::vector<NamedValue> values = {{"rx: odd name", 1}, {"rx_bytes", 18446744073709551615U}};
  const auto statistics = parse_ethtool_statistics_text(ethtool_statistics_text(values));
  ASSERT_TRUE(statistics);
  ASSERT_EQ(statistics->size(), 2U);
  EXPECT_EQ((*statistics)[0].name, "rx: odd name");
  EXPECT_EQ((*statistics)[1].value, 18446744073709551615U);

  EthtoolLink link;
  link.detected = false;
  link.quality = 3;
  link.reason = link_reason(2);
  link.detail = link_detail(2, 1);
  link.down_events = 4;
  const auto link_back = parse_ethtool_link_json(ethtool_link_json("eth0", link));
  ASSERT_TRUE(link_back);
  EXPECT_EQ(link_back->detected, link.detected);
  EXPECT_EQ(link_back->quality, link.quality);
  EXPECT_EQ(link_back->reason, link.reason);
  EXPECT_EQ(link_back->detail, link.detail);
  EXPECT_EQ(link_back->down_events, link.down_events);

  EthtoolPause pause;
  pause.receive = true;
  pause.transmit_frames = 7;
  const auto pause_back = parse_ethtool_pause_json(ethtool_pause_json("eth0", pause));
  ASSERT_TRUE(pause_back);
  EXPECT_EQ(pause_back->receive, true);
  EXPECT_EQ(pause_back->autonegotiate, std::nullopt);
  EXPECT_EQ(pause_back->transmit_frames, 7U);

  EthtoolFec fec;
  fec.configured = {"auto"};
  fec.active = {"rs"};
  fec.corrected_blocks = 9;
  const auto fec_back = parse_ethtool_fec_json(ethtool_fec_json("eth0", fec));
  ASSERT_TRUE(fec_back);
  EXPECT_EQ(fec_back->active, fec.active);
  EXPECT_EQ(fec_back->corrected_blocks, 9U);

  const std::vector<HealthReporter> reporters = {{{"pci", "0000:3b:00.0"}, "fw", std::nullopt, false, 0, 0},
                                                 {{"pci", "0000:3b:00.0"}, "tx", 1, true, 3, 2}};
  const auto reporters_back = parse_devlink_health_json(devlink_health_json(reporters));
  ASSERT_TRUE(reporters_back) << reporters_back.error().message();
  ASSERT_EQ(reporters_back->size(), 2U);
  EXPECT_EQ((*reporters_back)[0].name, "fw");
  EXPECT_EQ((*reporters_back)[0].device, reporters[0].device);
  EXPECT_FALSE((*reporters_back)[0].in_error);
  EXPECT_EQ((*reporters_back)[1].port, 1U);
  EXPECT_TRUE((*reporters_back)[1].in_error);
  EXPECT_EQ((*reporters_back)[1].errors, 3U);
  EXPECT_EQ((*reporters_back)[1].recoveries, 2U);

  const std::vector<CounterStatus> counters = {
      {"out_of_buffer", 0, false, true}, {"cc_rx_ce_pkts", 1, true, true}, {"cc_tx_cnp_pkts", 2, true, false}};
  const std::string mode = optional_counters_text("mlx5_0", 1, counters);
  EXPECT_EQ(mode,
            "link mlx5_0/1 supported optional-counters cc_rx_ce_pkts,cc_tx_cnp_pkts\n"
            "link mlx5_0/1 optional-counters cc_rx_ce_pkts\n");
  auto mode_back = parse_rdma_statistic_mode(mode);
  ASSERT_TRUE(mode_back) << mode_back.error().message();
  const auto& of_port = (*mode_back)[{"mlx5_0", 1}];
  ASSERT_EQ(of_port.size(), 2U);
  EXPECT_TRUE(of_port[0].optional && of_port[0].enabled && of_port[0].name == "cc_rx_ce_pkts");
  EXPECT_TRUE(of_port[1].optional && !of_port[1].enabled && of_port[1].name == "cc_tx_cnp_pkts");

  DcbState dcb;
  dcb.pfc.emplace().enabled = 1U << 3;
  dcb.pfc->sent = PerPriority<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8};
  dcb.ets.emplace().algorithm = PerPriority<DcbAlgorithm>{DcbAlgorithm::kEts, DcbAlgorithm::kStrict};
  dcb.ets->willing = true;
  dcb.max_rate = PerPriority<std::uint64_t>{0, 5};
  dcb.buffers.emplace().total = 1000;
  dcb.apps = std::vector<DcbApp>{{DcbSelector::kEtherType, 2, 0}, {DcbSelector::kDscp, 3, 26}};
  dcb.trust = std::vector<DcbSelector>{DcbSelector::kDscp, DcbSelector::kPcp};
  dcb.dcbx = kDcbxHost | kDcbxIeee;
  const auto dcb_back = parse_dcb_json(dcb_json(dcb));
  ASSERT_TRUE(dcb_back);
  EXPECT_EQ(dcb_back->pfc->enabled, dcb.pfc->enabled);
  EXPECT_EQ(dcb_back->pfc->sent, dcb.pfc->sent);
  EXPECT_EQ(dcb_back->ets->algorithm, dcb.ets->algorithm);
  EXPECT_EQ(dcb_back->ets->willing, true);
  EXPECT_EQ(dcb_back->max_rate, dcb.max_rate);
  EXPECT_EQ(dcb_back->buffers->total, 1000U);
  EXPECT_EQ(dcb_back->apps, dcb.apps);
  EXPECT_EQ(dcb_back->trust, dcb.trust);
  EXPECT_EQ(dcb_back->dcbx, dcb.dcbx);
}

TEST(CaptureSinkTest, ATarFileIsWholeOrNotThere) {
  const TempDirectory top;
  const std::string target = (top.path() / "x.tar").string();
  {
    auto sink = CaptureSink::open(target);
    ASSERT_TRUE(sink) << sink.error().message();
    ASSERT_TRUE((*sink)->file("sys/a", "1\n"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(top.path())) << "given up half way";
  {
    auto sink = CaptureSink::open(target);
    ASSERT_TRUE(sink);
    ASSERT_TRUE((*sink)->folder("sys/empty"));
    ASSERT_TRUE((*sink)->file("sys/" + std::string(150, 'd') + "/a", "1\n"));
    ASSERT_TRUE((*sink)->link("sys/l", std::string(150, 'd')));
    ASSERT_TRUE((*sink)->finish());
  }
  const auto recording = Recording::open(target);
  ASSERT_TRUE(recording) << recording.error().message();
  EXPECT_EQ(std::ifstream(recording->folder() + "/sys/l/a").get(), '1');
  EXPECT_TRUE(std::filesystem::is_directory(recording->folder() + "/sys/empty"));
  EXPECT_EQ(std::filesystem::status(target).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

TEST(CaptureSinkTest, NamesInLettersOfElsewhere) {
  const TempDirectory top;
  const std::string target = (top.path() / "x.tar").string();
  auto sink = CaptureSink::open(target);
  ASSERT_TRUE(sink);
  ASSERT_TRUE((*sink)->file("sys/class/net/eth\xc3\xa9/mtu", "1500\n"));
  const auto linked = (*sink)->link("sys/l\xff", "class/net/eth\xc3\xa9");
  ASSERT_TRUE(linked) << linked.error().message();
  ASSERT_TRUE((*sink)->finish());
  const auto recording = Recording::open(target);
  ASSERT_TRUE(recording) << recording.error().message();
  EXPECT_EQ(std::ifstream(recording->folder() + "/sys/l\xff/mtu").get(), '1');
}

TEST(CaptureSinkTest, IsForNobodyElsesEyes) {
  namespace fs = std::filesystem;
  const TempDirectory top;
  for (const std::string name : {"x.tar", "x"}) {
    auto sink = CaptureSink::open((top.path() / name).string());
    ASSERT_TRUE(sink);
    ASSERT_TRUE((*sink)->file("sys/a/b", "1\n"));
    ASSERT_TRUE((*sink)->folder("sys/c"));
    ASSERT_TRUE((*sink)->finish());
  }
  for (const auto& entry : fs::recursive_directory_iterator(top.path()))
    EXPECT_EQ(entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all), fs::perms::none)
        << entry.path();
}

TEST(CaptureSinkTest, TwoThatWriteOneFileLeaveEachOtherAlone) {
  namespace fs = std::filesystem;
  const TempDirectory top;
  const std::string target = (top.path() / "x.tar").string();
  std::ofstream(target + ".part") << "of somebody";
  auto first = CaptureSink::open(target);
  ASSERT_TRUE(first) << first.error().message();
  ASSERT_TRUE((*first)->file("sys/first", "1\n"));
  {
    auto given_up = CaptureSink::open(target);
    ASSERT_TRUE(given_up);
    ASSERT_TRUE((*given_up)->file("sys/given_up", "1\n"));
  }
  auto second = CaptureSink::open(target);
  ASSERT_TRUE(second);
  ASSERT_TRUE((*second)->file("sys/second", "1\n"));
  for (auto* sink : {&first, &second}) {
    const auto finished = (**sink)->finish();
    ASSERT_TRUE(finished) << finished.error().message();
    const auto recording = Recording::open(target);
    ASSERT_TRUE(recording) << recording.error().message();
    EXPECT_TRUE(fs::exists(recording->folder() + (sink == &first ? "/sys/first" : "/sys/second")));
    EXPECT_EQ(std::distance(fs::directory_iterator(recording->folder() + "/sys"), {}), 1);
  }
  EXPECT_TRUE(fs::remove(target + ".part"));
  EXPECT_TRUE(fs::remove(target));
  EXPECT_TRUE(fs::is_empty(top.path()));
}

TEST(CaptureSinkTest, AFolderThatIsNotWholeGoes) {
  namespace fs = std::filesystem;
  const TempDirectory top;
  fs::create_directory(top.path() / "mine");
  const auto half = [&top](const std::string& name) {
    auto sink = CaptureSink::open((top.path() / name).string());
    ASSERT_TRUE(sink) << sink.error().message();
    ASSERT_TRUE((*sink)->file("sys/a/b", "1\n"));
    ASSERT_TRUE((*sink)->file("driver", "1\n"));
    ASSERT_TRUE((*sink)->folder("proc"));
    std::ofstream(top.path() / name / "theirs") << "x";
    if (name == "whole") {
      ASSERT_TRUE((*sink)->finish());
    }
    // How it ends: by itself, or by a signal.
    if (name.starts_with("killed") || name == "mine") {
      kill(getpid(), SIGTERM);
      for (;;) pause();
    }
  };
  half("failed");
  half("whole");
  EXPECT_FALSE(fs::exists(top.path() / "failed"));
  EXPECT_TRUE(fs::exists(top.path() / "whole/sys/a/b"));
  for (const std::string name : {"killed", "mine"}) {
    EXPECT_EXIT(
        {
          std::signal(SIGTERM, SIG_DFL);
          remove_leftovers_on_signals();
          half(name);
        },
        testing::KilledBySignal(SIGTERM), "");
  }
  EXPECT_FALSE(fs::exists(top.path() / "killed"));
  EXPECT_TRUE(fs::remove(top.path() / "mine/theirs")) << "in a folder that was there before";
  EXPECT_TRUE(fs::is_empty(top.path() / "mine"));
}

TEST(CaptureSinkTest, AFolderMustBeEmpty) {
  const TempDirectory top;
  std::ofstream(top.path() / "mine") << "x";
  EXPECT_FALSE(CaptureSink::open(top.path().string()));
  EXPECT_FALSE(CaptureSink::open((top.path() / "mine").string()));
  auto sink = CaptureSink::open((top.path() / "new/deeper").string());
  ASSERT_TRUE(sink);
  ASSERT_TRUE((*sink)->file("a/b", "1"));
  EXPECT_TRUE(std::filesystem::exists(top.path() / "new/deeper/a/b"));
}

}  // namespace
}  // namespace roce

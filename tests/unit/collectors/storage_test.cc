// SPDX-License-Identifier: Apache-2.0
//
// Collectors of storage users: NVMe over fabrics, NFS over RDMA, iSER, NVMe target, GPUDirect Storage, modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/collectors/collector.h"
#include "exporter/collectors/hidden_name.h"
#include "exporter/collectors/storage_link.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

// Routes that the test sets; counts how often the kernel would have been asked.
class FakeRoutes : public RouteSource {
 public:
  Result<std::string> route(const IpAddress&) override {
    ++asked;
    if (netdev.empty()) return fail(ErrorKind::kAbsent, "route");
    return netdev;
  }
  Result<std::string> owner(const IpAddress&) override { return fail(ErrorKind::kAbsent, "route"); }
  std::string netdev;
  int asked = 0;
};

class StorageTest : public testing::Test {
 protected:
  StorageTest() : host_(std::make_shared<Host>(*tree_.host())) {}

  std::unique_ptr<Collector> create(std::string_view name) {
    Inventory inventory(host_, [](std::string_view) { return true; }, [](std::string_view) { return true; });
    auto object = std::make_shared<InventoryDevice>();
    object->kind = ObjectKind::kHost;
    object->devices = inventory.refresh().value();
    for (const CollectorEntry& entry : collector_registry()) {
      if (entry.name != name) continue;
      EXPECT_EQ(entry.scope, Scope::kHost);
      return entry.create({host_, object, std::make_shared<PortStates>(), settings_});
    }
    ADD_FAILURE() << "no collector " << name;
    return nullptr;
  }

  std::string page(Collector& collector) {
    Output out;
    const auto result = collector.collect(out);
    error_ = result ? std::optional<ErrorKind>() : result.error().kind;
    std::vector<const SampleBatch*> batches;
    for (const auto& part : out.parts) {
      batches.push_back(&part->samples);
      EXPECT_EQ(part->samples.malformed(), 0U) << "a sample had not the labels of its metric";
    }
    return render_text(batches);
  }
  std::string page(std::string_view name) { return page(*create(name)); }

  void add_controller(const std::string& name, const std::string& state = "live") {
    const std::string dir = kSubsystem + name;
    tree_.write(dir + "/state", state + "\n");
    tree_.write(dir + "/transport", "rdma\n");
    tree_.write(dir + "/address", "traddr=192.0.2.5,trsvcid=4420\n");
  }
  void add_stat(const std::string& path, int reads) {
    tree_.write(kSubsystem + path + "/stat", std::to_string(reads) + " 0 8 2500 0 0 0 0 1 0 0\n");
  }

  const std::string kSubsystem = "sys/class/nvme-subsystem/nvme-subsys0/";
  TempTree tree_;
  std::shared_ptr<Host> host_;
  CollectorSettings settings_;
  std::optional<ErrorKind> error_;
};

TEST_F(StorageTest, AHostWithoutStorageUsersIsSuccessWithNothing) {
  for (const char* name : {"nvme", "nvmet", "nfs_rdma", "iser", "gds", "storage_modules"}) {
    EXPECT_EQ(page(name), "") << name;
    EXPECT_FALSE(error_) << name;
  }
}

TEST_F(StorageTest, NvmeValuesAreThoseOfNow) {
  add_controller("nvme0");
  tree_.write(kSubsystem + "nvme0/queue_count", "9\n");
  tree_.write(kSubsystem + "nvme0/kato", "5\n");
  tree_.write(kSubsystem + "nvme0c0n1/ana_state", "optimized\n");
  add_stat("nvme0c0n1", 10);
  const auto collector = create("nvme");
  const std::string first = page(*collector);
  EXPECT_THAT(first, HasSubstr("roce_nvme_controller_io_queues{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 8\n"));
  EXPECT_THAT(first, HasSubstr("operation=\"read\"} 10\n"));
  tree_.write(kSubsystem + "nvme0/queue_count", "5\n");
  tree_.write(kSubsystem + "nvme0/kato", "15\n");
  tree_.write(kSubsystem + "nvme0/state", "resetting\n");
  tree_.write(kSubsystem + "nvme0c0n1/ana_state", "change\n");
  add_stat("nvme0c0n1", 11);
  const std::string second = page(*collector);
  EXPECT_THAT(second, HasSubstr("roce_nvme_controller_io_queues{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 4\n"));
  EXPECT_THAT(
      second,
      HasSubstr("roce_nvme_controller_keep_alive_seconds{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 15\n"));
  EXPECT_THAT(second, HasSubstr("state=\"resetting\"} 1\n"));
  EXPECT_THAT(second, HasSubstr("state=\"live\"} 0\n"));
  EXPECT_THAT(second, HasSubstr("namespace=\"nvme0n1\",state=\"change\"} 1\n"));
  EXPECT_THAT(
      second,
      HasSubstr("roce_nvme_path_operations_total{controller=\"nvme0\",namespace=\"nvme0n1\",operation=\"read\"} 11\n"));
  EXPECT_THAT(
      second,
      HasSubstr("roce_nvme_path_seconds_total{controller=\"nvme0\",namespace=\"nvme0n1\",operation=\"read\"} 2.5\n"));
  EXPECT_FALSE(error_);
}

TEST_F(StorageTest, OneOddAttributeCostsOnlyItself) {
  add_controller("nvme0");
  tree_.write(kSubsystem + "nvme0/queue_count", "9x\n");
  tree_.write(kSubsystem + "nvme0/sqsize", "18446744073709551615\n");
  tree_.write(kSubsystem + "nvme0/kato", "\n");
  tree_.write(kSubsystem + "nvme0/ctrl_loss_tmo", "later\n");
  tree_.write(kSubsystem + "nvme0/reconnect_delay", "18446744073709551615\n");
  tree_.write(kSubsystem + "nvme0c0n1/stat", "1 2 3\n");
  add_controller("nvme1");
  const std::string text = page("nvme");
  EXPECT_FALSE(error_);
  for (const char* odd : {"nvme0/queue_count", "nvme0/ctrl_loss_tmo", "nvme0c0n1/stat"})
    EXPECT_THAT(text, HasSubstr("roce_counter_support{device=\"\",port=\"\",counter=\"" + std::string(odd) +
                                "\",state=\"failing\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("kato")));  // empty: not offered
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_controller_io_queues{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_controller_queue_depth{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_controller_keep_alive_seconds{")));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_controller_loss_timeout_seconds{")));
  EXPECT_THAT(text, HasSubstr("roce_nvme_controller_reconnect_delay_seconds{controller=\"nvme0\",subsystem=\"nvme-"
                              "subsys0\"} 18446744073709551615\n"));
  EXPECT_THAT(text, HasSubstr("roce_nvme_subsystem_paths_live{subsystem=\"nvme-subsys0\"} 2\n"));
}

TEST_F(StorageTest, AStateThatCannotBeReadIsAbsentAndTold) {
  add_controller("nvme0");
  tree_.remove(kSubsystem + "nvme0/state");
  tree_.write(kSubsystem + "nvme0/state/is_a_directory", "");
  add_controller("nvme1", "");
  const std::string text = page("nvme");
  EXPECT_EQ(error_, ErrorKind::kIo);
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_controller_state{controller=\"nvme0\"")));
  EXPECT_THAT(text, HasSubstr("roce_nvme_controller_info{controller=\"nvme0\""));
  EXPECT_THAT(text, HasSubstr("roce_nvme_controller_state{controller=\"nvme1\",subsystem=\"nvme-subsys0\",transport="
                              "\"rdma\",state=\"unknown\"} 1\n"));
  // How many of them are live is not known either.
  EXPECT_THAT(text, Not(HasSubstr("roce_nvme_subsystem_paths_live{")));
}

TEST_F(StorageTest, LocalDrivesHaveTheirIdentityAndOneStateEach) {
  for (int i = 0; i < 24; ++i) {
    const std::string dir = "sys/class/nvme/nvme" + std::to_string(i);
    tree_.write(dir + "/state", "live\n");
    tree_.write(dir + "/transport", "pcie\n");
    tree_.write(dir + "/address", "0000:5e:00.0\n");
    tree_.write("sys/class/nvme-subsystem/nvme-subsys" + std::to_string(i) + "/nvme" + std::to_string(i) + "/state",
                "live\n");
    tree_.write(dir + "/nvme" + std::to_string(i) + "n1/stat", "1 0 8 1 0 0 0 0 0 0 0\n");
  }
  tree_.remove("sys/class/nvme-subsystem");
  const std::string text = page("nvme");
  std::size_t lines = 0;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 2U * 24 + 2 * 2);  // with help and type
}

TEST_F(StorageTest, ManyPathsAreAddedUpPerControllerAndNeverFall) {
  add_controller("nvme0");
  add_controller("nvme1");
  for (int i = 1; i <= 17; ++i) {
    add_stat("nvme0c0n" + std::to_string(i), 100);
    add_stat("nvme0c1n" + std::to_string(i), 10);
    tree_.write(kSubsystem + "nvme0c1n" + std::to_string(i) + "/ana_state", i == 3 ? "inaccessible\n" : "optimized\n");
  }
  const auto collector = create("nvme");
  std::string text = page(*collector);
  const std::string series = "roce_nvme_path_operations_total{controller=\"nvme0\",namespace=\"\",operation=\"read\"} ";
  EXPECT_THAT(text, HasSubstr(series + "1700\n"));
  EXPECT_THAT(text, HasSubstr("roce_nvme_path_in_flight{controller=\"nvme1\",namespace=\"\"} 17\n"));
  EXPECT_THAT(
      text,
      HasSubstr("roce_nvme_path_ana_state{controller=\"nvme1\",namespace=\"nvme0n3\",state=\"inaccessible\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("state=\"optimized\"} 1\n")));
  tree_.remove(kSubsystem + "nvme0c0n17");  // with 33 paths left they are still added up
  add_stat("nvme0c0n1", 105);
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr(series + "1705\n"));
}

TEST_F(StorageTest, ManyNamespacesAreListedWhereAPathIsMissing) {
  add_controller("nvme0");
  for (int i = 1; i <= 70; ++i) {
    tree_.write(kSubsystem + "nvme0c0n" + std::to_string(i) + "/ana_state", i == 70 ? "inaccessible\n" : "optimized\n");
  }
  tree_.write(kSubsystem + "nvme0n71/size", "1\n");  // its last path is gone
  const std::string text = page("nvme");
  EXPECT_THAT(text, HasSubstr("roce_nvme_subsystem_namespaces{subsystem=\"nvme-subsys0\"} 71\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_nvme_namespace_paths_usable{subsystem=\"nvme-subsys0\",namespace=\"nvme0n70\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_nvme_namespace_paths{subsystem=\"nvme-subsys0\",namespace=\"nvme0n71\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("namespace=\"nvme0n1\"")));
}

TEST_F(StorageTest, ASubsystemWhoseLastControllerIsGoneHasNoPath) {
  tree_.write(kSubsystem + "subsysnqn", "nqn.2024-01.example:x\n");
  tree_.write(kSubsystem + "nvme0n1/size", "1\n");
  const std::string text = page("nvme");
  EXPECT_THAT(text, HasSubstr("roce_nvme_subsystem_paths{subsystem=\"nvme-subsys0\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_nvme_namespace_paths_usable{subsystem=\"nvme-subsys0\",namespace=\"nvme0n1\"} 0\n"));
}

TEST_F(StorageTest, ANewControllerOfAnOldNameStartsAnew) {
  add_controller("nvme0", "connecting");
  const auto collector = create("nvme");
  page(*collector);
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector),
              HasSubstr("roce_nvme_controller_reconnects_total{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 1\n"));
  tree_.remove(kSubsystem + "nvme0");
  EXPECT_THAT(page(*collector), Not(HasSubstr("controller=\"nvme0\"")));
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector),
              HasSubstr("roce_nvme_controller_reconnects_total{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 0\n"));
}

TEST_F(StorageTest, TheFirstConnectionOfANewControllerIsNoReconnect) {
  const auto collector = create("nvme");
  page(*collector);
  const std::string series = "roce_nvme_controller_reconnects_total{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} ";
  add_controller("nvme0", "connecting");
  EXPECT_THAT(page(*collector), HasSubstr(series + "0\n"));
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector), HasSubstr(series + "0\n"));
  host_->nvme_events->record({"change", "/x/nvme0", "nvme", "nvme0", "", "connected"});  // it comes late
  EXPECT_THAT(page(*collector), HasSubstr(series + "0\n"));
  add_controller("nvme0", "resetting");
  page(*collector);
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector), HasSubstr(series + "1\n"));
}

TEST_F(StorageTest, ALossBetweenTwoReadsIsCountedByTheKernelsEvents) {
  const Uevent connected{"change", "/x/nvme0", "nvme", "nvme0", "", "connected"};
  host_->nvme_events->record(connected);  // before the first read
  add_controller("nvme0");
  const auto collector = create("nvme");
  const std::string series = "roce_nvme_controller_reconnects_total{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} ";
  EXPECT_THAT(page(*collector), HasSubstr(series + "0\n"));
  host_->nvme_events->record(connected);
  host_->nvme_events->record(connected);
  EXPECT_THAT(page(*collector), HasSubstr(series + "2\n"));
  // Seen by the state as well: counted once.
  add_controller("nvme0", "connecting");
  page(*collector);
  host_->nvme_events->record(connected);
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector), HasSubstr(series + "3\n"));
}

TEST_F(StorageTest, AControllerThatIsDisconnectedOnPurposeJustGoes) {
  add_controller("nvme0");
  add_controller("nvme1");
  const auto collector = create("nvme");
  page(*collector);
  tree_.remove(kSubsystem + "nvme1");
  const std::string text = page(*collector);
  EXPECT_FALSE(error_);
  EXPECT_THAT(text, Not(HasSubstr("nvme1")));
  EXPECT_THAT(text, HasSubstr("roce_nvme_subsystem_paths{subsystem=\"nvme-subsys0\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_nvme_controller_reconnects_total{controller=\"nvme0\",subsystem=\"nvme-subsys0\"} 0\n"));
}

TEST_F(StorageTest, TheKernelIsAskedForARouteOnceAMinuteAndWhenAControllerChanges) {
  const auto routes = std::make_shared<FakeRoutes>();
  routes->netdev = "eth0";
  host_->routes = routes;
  host_->live = true;
  add_controller("nvme0");
  const auto collector = create("nvme");
  EXPECT_THAT(page(*collector), HasSubstr("netdev=\"eth0\",found_by=\"route\"} 1\n"));
  EXPECT_EQ(routes->asked, 1);
  page(*collector);
  EXPECT_EQ(routes->asked, 1);
  routes->netdev = "eth1";
  add_controller("nvme0", "connecting");
  EXPECT_THAT(page(*collector), HasSubstr("netdev=\"eth1\",found_by=\"route\"} 1\n"));
  EXPECT_EQ(routes->asked, 2);
  routes->netdev.clear();  // no route leads there now
  add_controller("nvme0", "live");
  EXPECT_THAT(page(*collector), Not(HasSubstr("roce_nvme_controller_link_info{")));
}

TEST_F(StorageTest, ALinkLocalTargetNamesItsInterface) {
  StorageLinkFinder finder(*host_);
  const auto link = finder.find({"fe80::1%eth3", "", ""}, {}, false);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->netdev, "eth3");
  EXPECT_EQ(link->device, "");
  EXPECT_FALSE(finder.find({"storage.example", "", ""}, {}, false).has_value());
  // A name from a recording leads nowhere out of its tree.
  EXPECT_EQ(finder.find({"", "", "../../etc"}, {}, false)->device, "");
}

std::string mount(const std::string& point, int sends, const std::string& operations, int server = 5) {
  const std::string address = "192.0.2." + std::to_string(server);
  return "device " + address + ":/x mounted on " + point +
         " with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.2,proto=rdma,addr=" + address +
         "\n\tage:\t5\n\txprt:\trdma 0 0 1 0 7 " + std::to_string(sends) + " 1\n\tper-op statistics\n" + operations +
         "\n";
}

TEST_F(StorageTest, NfsValuesAreThoseOfNow) {
  tree_.write("proc/self/mountstats", mount("/m", 10, "READ: 1 1 0 0 0 0 1 1 0\n"));
  const auto collector = create("nfs_rdma");
  EXPECT_THAT(page(*collector), HasSubstr("roce_nfs_transport_requests_total{mount=\"/m\"} 10\n"));
  tree_.write("proc/self/mountstats", mount("/m", 11, "READ: 2 5 0 0 0 0 1 1 3\n"));
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_nfs_transport_requests_total{mount=\"/m\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("roce_nfs_operation_transmissions_total{mount=\"/m\",operation=\"READ\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("roce_nfs_operation_errors_total{mount=\"/m\",operation=\"READ\"} 3\n"));
  // Numbers that this kernel does not print are absent.
  EXPECT_THAT(text, Not(HasSubstr("roce_nfs_transport_errors_total{")));
  tree_.write("proc/self/mountstats", "device proc mounted on /proc with fstype proc\n");
  EXPECT_EQ(page(*collector), "");
}

TEST_F(StorageTest, InAContainerNfsMountsAreThoseOfTheHost) {
  host_->live = true;
  tree_.write("proc/self/mountstats", "device overlay mounted on / with fstype overlay\n");
  tree_.write("proc/1/mountstats", mount("/m", 10, "READ: 1 1 0 0 0 0 1 1 0\n"));
  EXPECT_THAT(page("nfs_rdma"), HasSubstr("roce_nfs_transport_requests_total{mount=\"/m\"} 10\n"));
  // Where procfs has no such process, this one's are all there is.
  tree_.remove("proc/1");
  tree_.write("proc/self/mountstats", mount("/own", 11, "READ: 1 1 0 0 0 0 1 1 0\n"));
  EXPECT_THAT(page("nfs_rdma"), HasSubstr("roce_nfs_transport_requests_total{mount=\"/own\"} 11\n"));
  EXPECT_FALSE(error_);
}

TEST_F(StorageTest, OfAContainerThatMayNotReadThemOnlyMountsOverRdmaAreMissed) {
  host_->live = true;
  tree_.write("proc/self/mountstats", mount("/own", 11, "READ: 1 1 0 0 0 0 1 1 0\n"));
  tree_.write("proc/1/mountstats/folder", "");  // cannot be read
  tree_.write("proc/1/mounts",
              "tmpfs /run tmpfs rw,proto=rdma 0 0\n"
              "server:/tcp /a\\040b nfs4 rw,vers=4.2,proto=tcp,addr=192.0.2.9 0 0\n");
  EXPECT_EQ(page("nfs_rdma"), "");
  EXPECT_FALSE(error_) << "nothing is missed";
  tree_.write("proc/1/mounts", "server:/x /x nfs4 rw,vers=4.2,proto=rdma6,port=20049 0 0\n");
  EXPECT_EQ(page("nfs_rdma"), "");
  EXPECT_TRUE(error_);
  tree_.remove("proc/1/mounts");
  EXPECT_EQ(page("nfs_rdma"), "");
  EXPECT_TRUE(error_) << "nobody knows";
}

TEST_F(StorageTest, NfsOperationsKeepTheirNamesAndTheRestIsAddedUp) {
  std::string operations;
  for (const char* name : {"A", "B", "C", "D", "E"}) operations += std::string(name) + ": 1 1 0 0 0 0 10 20 1\n";
  tree_.write("proc/self/mountstats", mount("/m", 1, "NEVER: 0 0 0 0 0 0 0 0 0\n" + operations));
  const auto collector = create("nfs_rdma");
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"C\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"other\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("operation=\"D\"")));
  EXPECT_THAT(text, Not(HasSubstr("NEVER")));
  // What comes later takes no name away, and data always has its own.
  tree_.write(
      "proc/self/mountstats",
      mount("/m", 1, "AA: 9 9 0 0 0 0 1 1 0\n" + operations + "READ: 4 4 0 0 0 0 1 1 0\nWRITE: 3 3 0 0 0 0 1 1 0\n"));
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"C\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"other\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("errors_total{mount=\"/m\",operation=\"other\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("round_trip_seconds_total{mount=\"/m\",operation=\"other\"} 0.021\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"READ\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"WRITE\"} 3\n"));
}

TEST_F(StorageTest, NfsSumsStopAtTheTop) {
  const std::string top = "18446744073709551615";
  std::string operations;
  for (const char* name : {"A", "B", "C", "D", "E"})
    operations += std::string(name) + ": " + top + " " + top + " 0 0 0 0 10 20 1\n";
  tree_.write("proc/self/mountstats", mount("/m", 1, operations));
  const std::string text = page("nfs_rdma");
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"/m\",operation=\"other\"} " + top + "\n"));
}

TEST_F(StorageTest, MountPointsAreDigestsWithHideIdentity) {
  settings_.hide_identity = true;
  tree_.write("proc/self/mountstats", mount("/srv/customer", 1, "READ: 2 2 0 0 0 0 1 1 0\n") +
                                          mount("/srv/other", 2, "READ: 3 3 0 0 0 0 1 1 0\n", 6));
  const std::string text = page("nfs_rdma");
  EXPECT_THAT(text, Not(HasSubstr("/srv")));
  const std::string first = hidden_name("mount", "/srv/customer");
  EXPECT_THAT(first, testing::MatchesRegex("mount-[0-9a-f]{16}"));
  EXPECT_NE(first, hidden_name("mount", "/srv/other"));
  EXPECT_THAT(text, HasSubstr("requests_total{mount=\"" + first + "\",operation=\"READ\"} 2\n"));
  EXPECT_EQ(page("nfs_rdma"), text);
}

TEST_F(StorageTest, OfMountsInOnePlaceTheLastIsSeen) {
  tree_.write("proc/self/mountstats", mount("/m", 10, "", 5) + mount("/m", 20, "", 6));
  const std::string text = page("nfs_rdma");
  EXPECT_THAT(text, HasSubstr("roce_nfs_transport_requests_total{mount=\"/m\"} 20\n"));
  EXPECT_THAT(text, Not(HasSubstr("} 10\n")));
}

TEST_F(StorageTest, NfsServerFilesThatAreOddOrUnreadable) {
  tree_.write("proc/sys/sunrpc/svc_rdma/rdma_stat_read", "12\n");
  tree_.write("proc/sys/sunrpc/svc_rdma/rdma_stat_write", "x1\n");
  tree_.write("proc/sys/sunrpc/svc_rdma/rdma_stat_recv/dir", "\n");
  tree_.write("proc/fs/nfsd/portlist", "");
  const std::string text = page("nfs_rdma");
  EXPECT_TRUE(error_);
  EXPECT_THAT(text, HasSubstr("roce_nfs_server_rdma_operations_total{operation=\"read\"} 12\n"));
  EXPECT_THAT(text, Not(HasSubstr("operation=\"write\"")));
  EXPECT_THAT(text, Not(HasSubstr("send_queue_full")));
  EXPECT_THAT(text, HasSubstr("roce_nfs_server_rdma_listeners 0\n"));
}

TEST_F(StorageTest, IserValuesAreThoseOfNow) {
  tree_.write("sys/class/iscsi_transport/iser/handle", "1\n");
  tree_.write("sys/class/iscsi_session/session3/state", "LOGGED_IN\n");
  tree_.write("sys/class/iscsi_session/session3/recovery_tmo", "odd\n");
  tree_.write("sys/class/iscsi_connection/connection3:0/state", "up\n");
  const auto collector = create("iser");
  EXPECT_THAT(page(*collector), HasSubstr("roce_iser_session_state{session=\"session3\",state=\"logged_in\"} 1\n"));
  tree_.write("sys/class/iscsi_session/session3/state", "FAILED\n");
  tree_.write("sys/class/iscsi_connection/connection3:0/state", "down\n");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_iser_session_state{session=\"session3\",state=\"logged_in\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_iser_session_state{session=\"session3\",state=\"failed\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_iser_connections{session=\"session3\",state=\"down\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("recovery_timeout_seconds{")));
  // With a second transport nothing tells that the session is iSER.
  tree_.write("sys/class/iscsi_transport/tcp/handle", "2\n");
  EXPECT_EQ(page(*collector), "");
}

TEST_F(StorageTest, NvmetValuesAreThoseOfNow) {
  const std::string top = "sys/kernel/config/nvmet/";
  tree_.write(top + "subsystems/nqn.a/namespaces/1/enable", "0\n");
  tree_.write(top + "ports/1/addr_trtype", "rdma\n");
  const auto collector = create("nvmet");
  EXPECT_THAT(page(*collector), HasSubstr("roce_nvmet_namespaces{state=\"disabled\"} 1\n"));
  tree_.write(top + "subsystems/nqn.a/namespaces/1/enable", "1\n");
  tree_.write(top + "ports/1/subsystems/nqn.a/x", "");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_nvmet_namespaces{state=\"disabled\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_nvmet_port_namespaces{target_port=\"1\",transport=\"rdma\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvmet_controllers")));  // debugfs is not there
  tree_.remove(top + "ports/1");
  EXPECT_THAT(page(*collector), Not(HasSubstr("target_port")));
}

TEST_F(StorageTest, NvmetCountsThatAreNotKnownAreAbsent) {
  const std::string top = "sys/kernel/config/nvmet/";
  tree_.write(top + "subsystems/nqn.a/namespaces/1/enable", "1\n");
  tree_.write(top + "subsystems/nqn.b/namespaces/1/enable", "2\n");
  tree_.write(top + "ports/1/subsystems/nqn.a/x", "");
  tree_.write(top + "ports/2/subsystems/nqn.b/x", "");
  tree_.write(top + "ports/3/addr_trtype", "rdma\n");
  tree_.link(top + "ports/3/subsystems", "subsystems");  // to itself: cannot be opened
  std::string text = page("nvmet");
  EXPECT_THAT(text, HasSubstr("roce_nvmet_subsystems 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvmet_namespaces{")));
  EXPECT_THAT(text, HasSubstr("roce_nvmet_port_namespaces{target_port=\"1\",transport=\"\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvmet_port_namespaces{target_port=\"2\"")));
  EXPECT_THAT(text, HasSubstr("roce_nvmet_port_subsystems{target_port=\"2\",transport=\"\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_nvmet_port_subsystems{target_port=\"3\"")));
  tree_.write(top + "subsystems/nqn.b/namespaces/1/enable", "0\n");
  text = page("nvmet");
  EXPECT_THAT(text, HasSubstr("roce_nvmet_namespaces{state=\"enabled\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_nvmet_namespaces{state=\"disabled\"} 1\n"));
}

TEST_F(StorageTest, NvmetControllersOfAnUnreadPortAreNotNone) {
  const std::string debug = "sys/kernel/debug/nvmet/nqn.a/";
  tree_.write("sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/1/enable", "1\n");
  tree_.write("sys/kernel/config/nvmet/ports/1/addr_trtype", "rdma\n");
  tree_.write(debug + "ctrl1/port", "1\n");
  tree_.write(debug + "ctrl2/port", "1\n");
  EXPECT_THAT(page("nvmet"), HasSubstr("roce_nvmet_controllers{target_port=\"1\"} 2\n"));
  EXPECT_FALSE(error_);
  tree_.remove(debug + "ctrl2/port");
  tree_.link(debug + "ctrl2/port", "port");  // to itself: cannot be opened
  EXPECT_THAT(page("nvmet"), Not(HasSubstr("roce_nvmet_controllers")));
  EXPECT_TRUE(error_);
  tree_.remove(debug + "ctrl2");
  EXPECT_THAT(page("nvmet"), HasSubstr("roce_nvmet_controllers{target_port=\"1\"} 1\n"));
}

TEST_F(StorageTest, PathsBesideAControllerWithoutAPlaceAreNotCountedInAnyOrder) {
  for (const auto& [without, placed] : {std::pair("nvme0", "nvme1"), std::pair("nvme1", "nvme0")}) {
    tree_.remove("sys/class/nvme");
    const std::string dir = "sys/class/nvme/";
    tree_.write(dir + without + "/state", "live\n");
    tree_.write(dir + placed + "/state", "live\n");
    tree_.write(dir + placed + "/transport", "rdma\n");
    tree_.write(dir + placed + "/address", "traddr=192.0.2.5,trsvcid=4420\n");
    EXPECT_THAT(page("nvme"), Not(HasSubstr("roce_nvme_subsystem_paths"))) << without;
  }
}

TEST_F(StorageTest, GdsValuesAreThoseOfNowAnd32BitCountersAreWidened) {
  tree_.write("proc/driver/nvidia-fs/stats", "Reads : n=1 err=4294967290\nSparse Reads : n=5\n");
  const auto collector = create("gds");
  EXPECT_THAT(page(*collector), HasSubstr("roce_gds_errors_total{reason=\"read\"} 4294967290\n"));
  tree_.write("proc/driver/nvidia-fs/stats",
              "Reads : n=2 err=4\nSparse Reads : n=6\nReads : readMiB=18446744073709551615\n");
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_gds_requests_total{operation=\"read\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_gds_errors_total{reason=\"read\"} 4294967300\n"));
  EXPECT_THAT(text, HasSubstr("roce_gds_fallbacks_total{reason=\"sparse_read\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("roce_gds_bytes_total{operation=\"read\"} 1.93428131138"));
  EXPECT_FALSE(error_);
  tree_.remove("proc/driver/nvidia-fs/stats");
  tree_.write("proc/driver/nvidia-fs/stats/dir", "");
  EXPECT_EQ(page(*collector), "");
  EXPECT_EQ(error_, ErrorKind::kIo);
}

TEST_F(StorageTest, ModulesAreCountedInSysfsElseInTheList) {
  tree_.write("proc/modules", "nvme_rdma 1 7 - Live 0x0\nrpcrdma 1 x - Live 0x0\nko2iblnd\n");
  tree_.write("sys/module/nvme_rdma/refcnt", "2\n");
  tree_.write("sys/module/ib_iser/refcnt", "-1\n");
  const auto collector = create("storage_modules");
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_storage_module_references{module=\"nvme_rdma\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("rpcrdma\"")));
  EXPECT_THAT(text, Not(HasSubstr("ib_iser\"")));
  EXPECT_EQ(error_, ErrorKind::kMalformed);
  tree_.remove("sys/module");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_storage_module_references{module=\"nvme_rdma\"} 7\n"));
  EXPECT_FALSE(error_);
}

}  // namespace
}  // namespace roce

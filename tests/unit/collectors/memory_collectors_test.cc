// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host and of processes, QPs and their owners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "exporter/collectors/collector.h"
#include "exporter/collectors/hidden_name.h"
#include "exporter/kernel/rdma_recorded.h"
#include "exporter/metrics/exposition.h"
#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::HasSubstr;
using testing::Not;

// The objects of one device, as the test sets them.
class FakeObjects : public RdmaSource {
 public:
  Result<std::vector<RdmaDevice>> devices() override { return std::vector<RdmaDevice>{}; }
  Result<std::vector<RdmaPort>> ports(const RdmaDevice&) override { return std::vector<RdmaPort>{}; }
  Result<std::vector<NamedValue>> port_counters(const RdmaDevice&, std::uint32_t) override {
    return std::vector<NamedValue>{};
  }
  Result<std::vector<CounterStatus>> counter_status(const RdmaDevice&, std::uint32_t) override {
    return std::vector<CounterStatus>{};
  }
  Result<std::vector<ResourceCount>> resources(const RdmaDevice&) override { return counts; }
  Result<std::vector<QpCounterSet>> qp_counter_sets(const RdmaDevice&) override { return std::vector<QpCounterSet>{}; }
  Result<NetnsMode> netns_mode() override { return NetnsMode::kShared; }
  Result<RdmaListing<RdmaQp>> qps(const RdmaDevice&) override {
    ++qp_lists;
    return qp_list;
  }
  Result<RdmaListing<RdmaCmId>> cm_ids(const RdmaDevice&) override { return cm_list; }
  Result<RdmaListing<RdmaCq>> cqs(const RdmaDevice&) override { return cq_list; }
  Result<RdmaListing<RdmaMr>> mrs(const RdmaDevice&) override { return mr_list; }
  Result<RdmaListing<RdmaVerbsContext>> contexts(const RdmaDevice&) override { return context_list; }
  Result<RdmaListing<RdmaMrStatistic>> mr_statistics(const RdmaDevice&) override { return odp_list; }

  Result<std::vector<ResourceCount>> counts;
  Result<RdmaListing<RdmaQp>> qp_list;
  Result<RdmaListing<RdmaCmId>> cm_list;
  Result<RdmaListing<RdmaCq>> cq_list;
  Result<RdmaListing<RdmaMr>> mr_list;
  Result<RdmaListing<RdmaVerbsContext>> context_list;
  Result<RdmaListing<RdmaMrStatistic>> odp_list;
  int qp_lists = 0;
};

RdmaOwner process(std::uint32_t pid) { return {pid, ""}; }
RdmaOwner kernel(const char* name) { return {std::nullopt, name}; }
RdmaCmId connection(std::uint32_t id, std::optional<std::uint32_t> qpn, std::uint32_t state, const char* user) {
  RdmaCmId all;
  all.id = id;
  all.qpn = qpn;
  all.state = state;
  all.owner = kernel(user);
  return all;
}
tl::unexpected<Error> no_source(ErrorKind kind) { return fail(kind, "source"); }

class MemoryCollectorsTest : public testing::Test {
 protected:
  MemoryCollectorsTest() : host_(std::make_shared<Host>(*tree_.host())) {}

  // A host with one RDMA device whose objects the test sets.
  FakeObjects& with_objects(bool live) {
    auto source = std::make_shared<FakeObjects>();
    FakeObjects& objects = *source;
    host_->rdma = std::move(source);
    host_->live = live;
    host_->rootfs = tree_.path("root");
    device_ = std::make_shared<InventoryDevice>();
    device_->name = "rxe0";
    device_->netlink.emplace();
    device_->netlink->name = "rxe0";
    return objects;
  }

  std::unique_ptr<Collector> create(std::string_view name) const {
    for (const CollectorEntry& entry : collector_registry()) {
      if (entry.name != name) continue;
      auto object = device_;
      if (entry.scope == Scope::kHost) {
        object = std::make_shared<InventoryDevice>();
        object->kind = ObjectKind::kHost;
        if (device_) object->devices = {device_};
      }
      return entry.create({host_, object, std::make_shared<PortStates>(), settings_});
    }
    ADD_FAILURE() << "no collector " << name;
    return nullptr;
  }

  std::string page(Collector& collector) {
    Output out;
    const auto result = collector.collect(out);
    error_ = result ? std::string() : result.error().message();
    std::vector<const SampleBatch*> batches;
    for (const auto& part : out.parts) {
      batches.push_back(&part->samples);
      EXPECT_EQ(part->samples.malformed(), 0U) << "a sample had not the labels of its metric";
    }
    return render_text(batches);
  }
  std::string page(std::string_view name) { return page(*create(name)); }

  void add_process(int pid, const std::string& soft, const std::string& status = "", const std::string& comm = "app") {
    const std::string dir = "proc/" + std::to_string(pid) + "/";
    tree_.write(dir + "comm", comm + "\n");
    tree_.write(dir + "limits", "Max locked memory         " + soft + "   " + soft + "   bytes     \n");
    if (!status.empty()) tree_.write(dir + "status", status);
  }

  TempTree tree_;
  std::shared_ptr<Host> host_;
  std::shared_ptr<InventoryDevice> device_;
  CollectorSettings settings_;
  std::string error_;
};

constexpr const char* kPlain = "VmLck:\t       0 kB\nVmPin:\t    1024 kB\nCapEff:\t0000000000000000\n";
constexpr const char* kPrivileged = "VmPin:\t    1024 kB\nCapEff:\t0000000000004000\n";

// ---- hugepages ----

TEST_F(MemoryCollectorsTest, HugePagesOfEverySizeAndNode) {
  const std::string pool = "sys/kernel/mm/hugepages/hugepages-2048kB/";
  tree_.write(pool + "nr_hugepages", "10\n");
  tree_.write(pool + "free_hugepages", "4\n");
  tree_.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "1\n");
  tree_.write("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "0\n");
  tree_.write("sys/devices/system/node/has_cpu", "0\n");
  tree_.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  tree_.write("sys/kernel/mm/transparent_hugepage/defrag", "[defer] never\n");
  tree_.write("proc/vmstat", "nr_foll_pin_acquired 7\nnr_foll_pin_released 5\nhtlb_buddy_alloc_fail 3\n");
  with_objects(false).counts = no_source(ErrorKind::kUnsupported);
  device_->numa_node = "1";
  const auto collector = create("hugepages");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_hugepages_allocated{size=\"2MB\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("roce_hugepages_free_bytes{size=\"2MB\"} 8388608\n"));
  EXPECT_THAT(text, HasSubstr("roce_hugepages_bytes{size=\"1GB\"} 1073741824\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_hugepages_free{size=\"1GB\"}")));
  EXPECT_THAT(text, HasSubstr("roce_numa_hugepages_free{node=\"1\",size=\"2MB\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_numa_device_info{node=\"1\",device=\"rxe0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_transparent_hugepages_info{enabled=\"madvise\",defrag=\"defer\",shmem=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_memory_pins_total{event=\"acquired\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("roce_hugepage_allocations_total{result=\"failed\"} 3\n"));
  // A second run sees what changed and what went.
  tree_.write(pool + "free_hugepages", "3\n");
  tree_.remove("sys/kernel/mm/hugepages/hugepages-1048576kB");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_hugepages_free{size=\"2MB\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("1GB")));
}

TEST_F(MemoryCollectorsTest, GarbageInOnePoolFileIsAbsentAndToldAndTheRestStays) {
  const std::string pool = "sys/kernel/mm/hugepages/hugepages-2048kB/";
  tree_.write(pool + "nr_hugepages", "12 pages\n");
  tree_.write(pool + "free_hugepages", "18446744073709551615\n");
  const std::string text = page("hugepages");
  EXPECT_THAT(error_, HasSubstr("nr_hugepages"));
  EXPECT_THAT(text, Not(HasSubstr("roce_hugepages_allocated{")));
  EXPECT_THAT(text, HasSubstr("roce_hugepages_free{size=\"2MB\"} 18446744073709551615\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_hugepages_free_bytes{")));  // would not fit
}

TEST_F(MemoryCollectorsTest, WithoutThePoolMeminfoTellsOfTheDefaultSizeOnly) {
  tree_.write("proc/meminfo", "HugePages_Total:       2\nHugePages_Free:        1\nHugepagesize:    1048576 kB\n");
  const std::string text = page("hugepages");
  EXPECT_THAT(text, HasSubstr("roce_hugepages_allocated{size=\"1GB\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_hugepages_free_bytes{size=\"1GB\"} 1073741824\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_hugepages_reserved{")));
}

TEST_F(MemoryCollectorsTest, AHostWithoutHugePagesIsNoFailure) {
  EXPECT_THAT(page("hugepages"), Not(HasSubstr("roce_hugepages")));
  EXPECT_EQ(error_, "");
}

// ---- sysv_shm ----

TEST_F(MemoryCollectorsTest, SegmentsAgainstTheirLimit) {
  std::string table = "       key      shmid perms       size  cpid  lpid nattch\n";
  for (int i = 0; i < 3000; ++i)
    table += "         0 " + std::to_string(i) + "   600    4096   900   901      0" + std::string(90, ' ') + "1\n";
  tree_.write("proc/sysvipc/shm", table);
  tree_.write("proc/sys/kernel/shmmni", "4096\n");
  tree_.write("proc/sys/kernel/shmmax", "18446744073692774399\n");
  const auto collector = create("sysv_shm");
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_sysv_shm_segments 3000\n"));
  EXPECT_THAT(text, HasSubstr("roce_sysv_shm_segments_limit 4096\n"));
  EXPECT_THAT(text, HasSubstr("roce_sysv_shm_segment_limit_bytes 18446744073692774399\n"));
  EXPECT_THAT(text, HasSubstr("roce_sysv_shm_bytes 12288000\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_sysv_shm_limit_pages")));
  tree_.write("proc/sysvipc/shm", "key shmid perms size cpid lpid nattch\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_sysv_shm_segments 0\n"));
  tree_.write("proc/sysvipc/shm", "what\n");
  text = page(*collector);
  EXPECT_THAT(text, Not(HasSubstr("roce_sysv_shm_segments ")));
  EXPECT_NE(error_, "");
}

// ---- processes ----

TEST_F(MemoryCollectorsTest, LimitsAreJudgedByTheProcessItself) {
  add_process(11, "1048576", kPlain);
  add_process(12, "1048576", kPrivileged);
  add_process(13, "unlimited", kPlain);
  add_process(14, "18446744073709547520");
  const auto collector = create("processes");
  std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_limit_bytes{pid=\"11\",comm=\"app\",limit=\"soft\"} 1048576\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_headroom_bytes{pid=\"11\",comm=\"app\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_limited{pid=\"11\",comm=\"app\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_pinned_bytes{pid=\"11\",comm=\"app\"} 1048576\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_locked_bytes{pid=\"11\",comm=\"app\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_ipc_lock{pid=\"12\",comm=\"app\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_limited{pid=\"12\",comm=\"app\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_headroom_bytes{pid=\"13\",comm=\"app\"} +Inf\n"));
  EXPECT_THAT(text, HasSubstr("{pid=\"14\",comm=\"app\",limit=\"hard\"} 18446744073709547520\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_process_memlock_limited{pid=\"14\"")));  // without status nothing is known
  EXPECT_THAT(text, HasSubstr("roce_processes 4\n"));
  add_process(11, "2097152", "VmPin:\t    3072 kB\nCapEff:\t0000000000000000\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_process_memlock_headroom_bytes{pid=\"11\",comm=\"app\"} -1048576\n"));
}

TEST_F(MemoryCollectorsTest, OnlyHoldersAreJudgedWhereSomethingTellsThem) {
  FakeObjects& objects = with_objects(false);
  add_process(11, "1048576", kPlain);
  add_process(12, "1048576", kPlain);
  objects.context_list = RdmaListing<RdmaVerbsContext>{{{1, process(12)}, {2, process(12)}, {3, RdmaOwner()}}, {}};
  std::string text = page("processes");
  EXPECT_THAT(text, HasSubstr("pid=\"12\""));
  EXPECT_THAT(text, Not(HasSubstr("pid=\"11\"")));
  EXPECT_THAT(text, HasSubstr("roce_processes 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_hidden_contexts 1\n"));
  // Kernels that do not know contexts name the owners of other objects.
  objects.context_list = no_source(ErrorKind::kUnsupported);
  objects.cq_list = no_source(ErrorKind::kUnsupported);
  objects.mr_list = RdmaListing<RdmaMr>{{{1, 4096, process(11)}, {2, 4096, kernel("ib_core")}}, {}};
  text = page("processes");
  EXPECT_THAT(text, HasSubstr("pid=\"11\""));
  EXPECT_THAT(text, HasSubstr("roce_processes 1\n"));
  EXPECT_EQ(objects.qp_lists, 0);
}

TEST_F(MemoryCollectorsTest, OnALiveHostNobodyIsJudgedThatHoldsNothing) {
  FakeObjects& objects = with_objects(true);
  add_process(11, "1048576", kPlain);
  objects.context_list = no_source(ErrorKind::kAbsent);
  EXPECT_EQ(page("processes"), "");
  EXPECT_EQ(error_, "");
  objects.context_list = no_source(ErrorKind::kIo);
  page("processes");
  EXPECT_NE(error_, "");
}

TEST_F(MemoryCollectorsTest, AHolderThatHasEndedIsLeftOutAndOneThatIsHiddenIsCounted) {
  FakeObjects& objects = with_objects(true);
  tree_.write("proc/version", "x\n");
  // This process is there although the made procfs does not show it; the other number is beyond any process.
  objects.context_list =
      RdmaListing<RdmaVerbsContext>{{{1, process(static_cast<std::uint32_t>(getpid()))}, {2, process(2147483646)}}, {}};
  const std::string text = page("processes");
  EXPECT_THAT(text, HasSubstr("roce_processes 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_permission_errors 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_process_info{")));
}

TEST_F(MemoryCollectorsTest, TheProcessesNearestToTheirLimitHaveSeriesFirst) {
  for (int pid = 1; pid <= 30; ++pid) add_process(pid, "unlimited", kPlain);
  add_process(31, "2097152", kPlain);
  add_process(32, "1048576", kPlain);
  const std::string text = page("processes");
  EXPECT_THAT(text, HasSubstr("roce_processes 32\n"));
  EXPECT_THAT(text, HasSubstr("roce_processes_left_out 16\n"));
  EXPECT_THAT(text, HasSubstr("roce_process_info{pid=\"32\",comm=\"app\",unit=\"\"} 1\nroce_process_info{pid=\"31\""));
  EXPECT_THAT(text, HasSubstr("roce_process_info{pid=\"14\""));
  EXPECT_THAT(text, Not(HasSubstr("roce_process_info{pid=\"15\"")));
}

TEST_F(MemoryCollectorsTest, NamesAreKeptBackWithHideIdentity) {
  add_process(11, "1048576", kPlain, "secret\"app");
  tree_.write("proc/11/cgroup", "0::/system.slice/vault.service\n");
  EXPECT_THAT(page("processes"),
              HasSubstr("roce_process_info{pid=\"11\",comm=\"secret\\\"app\",unit=\"vault.service\"} 1\n"));
  settings_.hide_identity = true;
  EXPECT_THAT(page("processes"), HasSubstr("roce_process_info{pid=\"11\",comm=\"\",unit=\"\"} 1\n"));
  EXPECT_EQ(page("process_cgroups"), "");
}

TEST_F(MemoryCollectorsTest, TheServiceDefaultComesFromTheConfigurationElseFromInit) {
  with_objects(false).context_list = RdmaListing<RdmaVerbsContext>();
  add_process(1, "67108864", kPlain, "systemd");
  EXPECT_THAT(page("processes"),
              HasSubstr("roce_service_memlock_default_bytes{limit=\"soft\",source=\"init\"} 67108864\n"));
  tree_.write("root/etc/systemd/system.conf", "[Manager]\nDefaultLimitMEMLOCK=8M:infinity\n");
  const std::string text = page("processes");
  EXPECT_THAT(text, HasSubstr("roce_service_memlock_default_bytes{limit=\"soft\",source=\"config\"} 8388608\n"));
  EXPECT_THAT(text, HasSubstr("roce_service_memlock_default_bytes{limit=\"hard\",source=\"config\"} +Inf\n"));
}

// ---- cgroups, process_cgroups ----

TEST_F(MemoryCollectorsTest, CgroupsOfHoldersWithLimitsOrUse) {
  add_process(11, "unlimited");
  tree_.write("proc/11/cgroup", "0::/pods/a\n");
  tree_.write("sys/fs/cgroup/pods/a/rdma.current", "rxe0 hca_handle=1 hca_object=0\nrxe1 hca_handle=0 hca_object=0\n");
  tree_.write("sys/fs/cgroup/pods/a/rdma.max",
              "rxe0 hca_handle=max hca_object=max\nrxe1 hca_handle=5 hca_object=max\n");
  tree_.write("sys/fs/cgroup/pods/a/hugetlb.2MB.current", "4194304\n");
  tree_.write("sys/fs/cgroup/pods/a/hugetlb.2MB.max", "max\n");
  tree_.write("sys/fs/cgroup/pods/a/hugetlb.1GB.current", "0\n");
  const auto collector = create("cgroups");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_cgroup_rdma_used{device=\"rxe0\",cgroup=\"/pods/a\",resource=\"hca_handle\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_cgroup_rdma_limit{device=\"rxe1\",cgroup=\"/pods/a\",resource=\"hca_handle\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("roce_cgroup_rdma_used{device=\"rxe1\",cgroup=\"/pods/a\",resource=\"hca_handle\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("resource=\"hca_object\"")));
  EXPECT_THAT(text, HasSubstr("roce_cgroup_hugetlb_used_bytes{cgroup=\"/pods/a\",size=\"2MB\"} 4194304\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_cgroup_hugetlb_limit_bytes")));
  EXPECT_THAT(text, Not(HasSubstr("1GB")));
  tree_.write("sys/fs/cgroup/pods/a/hugetlb.2MB.current", "2097152\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_cgroup_hugetlb_used_bytes{cgroup=\"/pods/a\",size=\"2MB\"} 2097152\n"));
  settings_.hide_identity = true;
  text = page("cgroups");
  EXPECT_THAT(text, Not(HasSubstr("/pods")));
  EXPECT_THAT(text, HasSubstr("cgroup=\"" + hidden_name("cgroup", "/pods/a") + "\""));
}

TEST_F(MemoryCollectorsTest, JobsAndPodsOfAProcess) {
  add_process(11, "unlimited");
  tree_.write("proc/11/cgroup", "0::/system.slice/slurmstepd.scope/job_42/step_0/user\n");
  EXPECT_THAT(
      page("process_cgroups"),
      HasSubstr("roce_process_cgroup_info{pid=\"11\",comm=\"app\",cgroup=\"/system.slice/slurmstepd.scope/job_42/"
                "step_0/user\",unit=\"\",pod_uid=\"\",container=\"\",slurm_job=\"42\",slurm_step=\"0\"} 1\n"));
}

// ---- qp ----

constexpr std::uint32_t kRc = 2;
constexpr std::uint32_t kUd = 4;
constexpr std::uint32_t kRts = 3;
constexpr std::uint32_t kErr = 6;

TEST_F(MemoryCollectorsTest, QpsByTypeStateAndOwner) {
  FakeObjects& objects = with_objects(true);
  tree_.write("proc/77/comm", "perf\n");
  objects.counts = std::vector<ResourceCount>{{"qp", 4, {}}, {"cm_id", 2, {}}};
  objects.qp_list = RdmaListing<RdmaQp>{{{1, 17, kRc, kRts, kernel("rdma_cm")},
                                         {1, 18, kRc, kErr, kernel("rdma_cm")},
                                         {1, 19, kUd, kRts, process(77)},
                                         {0, 20, kRc, 0, {}}},
                                        {}};
  objects.cm_list =
      RdmaListing<RdmaCmId>{{connection(1, 17, 5, "nvme_rdma"), connection(2, std::nullopt, 8, "nvmet_rdma")}, {}};
  const auto collector = create("qp");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_qps{device=\"rxe0\",port=\"1\",type=\"RC\",state=\"RTS\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_qps{device=\"rxe0\",port=\"1\",type=\"RC\",state=\"ERR\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_qps{device=\"rxe0\",port=\"1\",type=\"UD\",state=\"SQE\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_qps{device=\"rxe0\",port=\"\",type=\"RC\",state=\"RESET\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"nvme_rdma\",pid=\"\",state=\"RTS\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"rdma_cm\",pid=\"\",state=\"ERR\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"perf\",pid=\"77\",state=\"RTS\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"(hidden)\",pid=\"\",state=\"RESET\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_cm_ids{device=\"rxe0\",owner=\"nvmet_rdma\",pid=\"\",state=\"LISTEN\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_qp_list_complete{device=\"rxe0\"} 1\n"));
  objects.qp_list->objects[1].state = kRts;
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_qps{device=\"rxe0\",port=\"1\",type=\"RC\",state=\"ERR\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("owner=\"rdma_cm\",pid=\"\",state=\"ERR\"")));
}

TEST_F(MemoryCollectorsTest, AListThatTheKernelBrokeOffIsMarkedAndNotPublished) {
  FakeObjects& objects = with_objects(true);
  objects.counts = std::vector<ResourceCount>{{"qp", 2, {}}, {"cm_id", 1, {}}};
  objects.qp_list =
      RdmaListing<RdmaQp>{{{1, 17, kRc, kRts, process(77)}}, Error{ErrorKind::kUnsupported, ENOSYS, "qp"}};
  objects.cm_list = RdmaListing<RdmaCmId>{{connection(1, std::nullopt, 5, "nvme_rdma")}, {}};
  for (int run = 0; run < 2; ++run) {
    const std::string text = page("qp");
    EXPECT_EQ(error_, "");
    EXPECT_THAT(text, HasSubstr("roce_qp_list_complete{device=\"rxe0\"} 0\n"));
    EXPECT_THAT(text, Not(HasSubstr("roce_qps{")));
    EXPECT_THAT(text, Not(HasSubstr("roce_owner_qps{")));
    EXPECT_THAT(text,
                HasSubstr("roce_owner_cm_ids{device=\"rxe0\",owner=\"nvme_rdma\",pid=\"\",state=\"CONNECT\"} 1\n"));
    objects.qp_list = no_source(ErrorKind::kUnsupported);  // it broke off at the first
  }
}

TEST_F(MemoryCollectorsTest, QpsAreNotListedAboveTheMaximum) {
  FakeObjects& objects = with_objects(true);
  settings_.qp_max = 5;
  objects.counts = std::vector<ResourceCount>{{"qp", 6, {}}};
  objects.qp_list = RdmaListing<RdmaQp>();
  EXPECT_THAT(page("qp"), HasSubstr("roce_qp_list_complete{device=\"rxe0\"} 0\n"));
  EXPECT_EQ(objects.qp_lists, 0);
  objects.counts = std::vector<ResourceCount>{{"qp", 5, {}}};
  EXPECT_THAT(page("qp"), HasSubstr("roce_qp_list_complete{device=\"rxe0\"} 1\n"));
  EXPECT_EQ(objects.qp_lists, 1);
  // Without a count nothing is listed on a live host.
  objects.counts = no_source(ErrorKind::kUnsupported);
  EXPECT_EQ(page("qp"), "");
  EXPECT_EQ(error_, "");
  EXPECT_EQ(objects.qp_lists, 1);
}

TEST_F(MemoryCollectorsTest, OwnersBeyondTheBoundAreTogetherAndThoseWithErrorsStay) {
  FakeObjects& objects = with_objects(true);
  objects.counts = std::vector<ResourceCount>{{"qp", 60, {}}};
  objects.qp_list = RdmaListing<RdmaQp>();
  for (std::uint32_t pid = 100; pid < 120; ++pid)
    for (std::uint32_t i = 0; i < 2; ++i)
      objects.qp_list->objects.push_back({1, pid * 10 + i, kRc, kRts, process(pid)});
  objects.qp_list->objects.push_back({1, 5, kRc, kErr, process(999)});
  const std::string text = page("qp");
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"\",pid=\"999\",state=\"ERR\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_owner_qps{device=\"rxe0\",owner=\"(other)\",pid=\"\",state=\"RTS\"} 10\n"));
}

// ---- rdma_owners, odp ----

TEST_F(MemoryCollectorsTest, WhoHoldsHowManyObjects) {
  FakeObjects& objects = with_objects(true);
  tree_.write("proc/77/comm", "leak\n");
  objects.counts = std::vector<ResourceCount>{{"mr", 3, {}}, {"cq", 1, {}}, {"ctx", 70000, {}}};
  objects.mr_list = RdmaListing<RdmaMr>{
      {{1, 4096, process(77)}, {2, 18446744073709551615U, process(77)}, {3, 8192, kernel("nvme_rdma")}}, {}};
  objects.cq_list = RdmaListing<RdmaCq>{{{1, kernel("nvme_rdma")}}, {}};
  objects.context_list = RdmaListing<RdmaVerbsContext>{{{1, process(77)}}, {}};
  std::string text = page("rdma_owners");
  EXPECT_THAT(text, HasSubstr("roce_owner_resources{device=\"rxe0\",owner=\"leak\",pid=\"77\",resource=\"mr\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("roce_owner_resources{device=\"rxe0\",owner=\"nvme_rdma\",pid=\"\",resource=\"cq\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("resource=\"ctx\"")));  // too many to list
  EXPECT_THAT(
      text,
      HasSubstr("roce_owner_memory_region_bytes{device=\"rxe0\",owner=\"leak\",pid=\"77\"} 18446744073709551615\n"));
  objects.mr_list = RdmaListing<RdmaMr>{{{1, 4096, process(77)}}, Error{ErrorKind::kIo, EIO, "mr"}};
  text = page("rdma_owners");
  EXPECT_NE(error_, "");
  EXPECT_THAT(text, Not(HasSubstr("resource=\"mr\"")));
  EXPECT_THAT(text, HasSubstr("resource=\"cq\""));
}

TEST_F(MemoryCollectorsTest, PageFaultsNeverFallWhenRegionsEnd) {
  FakeObjects& objects = with_objects(true);
  objects.counts = std::vector<ResourceCount>{{"mr", 2, {}}};
  objects.odp_list = RdmaListing<RdmaMrStatistic>();
  const auto collector = create("odp");
  EXPECT_EQ(page(*collector), "");
  objects.odp_list->objects = {{1, {{"page_faults", 10}, {"page_invalidations", 1}}}, {2, {{"page_faults", 5}}}};
  EXPECT_THAT(page(*collector), HasSubstr("roce_odp_page_faults_total{device=\"rxe0\"} 15\n"));
  objects.odp_list->objects = {{1, {{"page_faults", 12}}}};  // region 2 ended
  EXPECT_THAT(page(*collector), HasSubstr("roce_odp_page_faults_total{device=\"rxe0\"} 17\n"));
  objects.odp_list->objects = {{1, {{"page_faults", 3}}}};  // another region under that number
  const std::string text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_odp_page_faults_total{device=\"rxe0\"} 20\n"));
  EXPECT_THAT(text, HasSubstr("roce_odp_page_invalidations_total{device=\"rxe0\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("roce_odp_page_prefetches_total")));
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temp_tree.h"

namespace roce {
namespace {

using testing::ElementsAre;

std::string limits(const std::string& memlock) {
  return "Limit                     Soft Limit           Hard Limit           Units     \n"
         "Max cpu time              unlimited            unlimited            seconds   \n" +
         memlock + "Max nice priority         0                    0                    \n";
}

TEST(MemlockLimit, TakesTheColumnsOfItsLineAlone) {
  const auto limit =
      parse_memlock_limit(limits("Max locked memory         8388608              67108864             bytes     \n"));
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->soft, Limit(8388608U));
  EXPECT_EQ(limit->hard, Limit(67108864U));
}

TEST(MemlockLimit, KnowsUnlimitedAndNumbersBeyondSigned64Bits) {
  const auto limit = parse_memlock_limit("Max locked memory 18446744073709547520 unlimited bytes");
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->soft, Limit(18446744073709547520U));
  EXPECT_FALSE(limit->hard.has_value());
}

TEST(MemlockLimit, RefusesWhatItCannotTell) {
  EXPECT_EQ(parse_memlock_limit("").error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(parse_memlock_limit(limits("")).error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(parse_memlock_limit("Max locked memory\n").error().kind, ErrorKind::kAbsent);
  EXPECT_EQ(parse_memlock_limit("Max locked memoryX 1 1 bytes\n").error().kind, ErrorKind::kAbsent);
  for (const char* bad : {"Max locked memory 18446744073709551616 1 bytes", "Max locked memory 1 bytes",
                          "Max locked memory -1 1 bytes", "Max locked memory 1 2 pages", "Max locked memory 1 2 "})
    EXPECT_EQ(parse_memlock_limit(bad).error().kind, ErrorKind::kMalformed) << bad;
}

TEST(ProcessStatusText, GivesBytesAndTheCapability) {
  const ProcessStatus status = parse_process_status(
      "Name:\tx\nVmLck:\t       4 kB\nVmPin:\t    4096 kB\nHugetlbPages:\t  2048 kB\nCapInh:\t0000000000004000\n"
      "CapEff:\t0000000000004000\nCapBnd:\t000001ffffffffff\n");
  EXPECT_EQ(status.locked, 4096U);
  EXPECT_EQ(status.pinned, 4194304U);
  EXPECT_EQ(status.huge_pages, 2097152U);
  EXPECT_EQ(status.ipc_lock(), std::optional(true));
}

TEST(ProcessStatusText, OnlyTheEffectiveSetCountsAndWhatIsNotThereIsNotZero) {
  const ProcessStatus status =
      parse_process_status("CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nVmPin:\tmany kB\n");
  EXPECT_EQ(status.ipc_lock(), std::optional(false));
  EXPECT_FALSE(status.pinned);
  EXPECT_FALSE(status.locked);
  EXPECT_FALSE(parse_process_status("").ipc_lock());
  EXPECT_FALSE(parse_process_status("VmPin:\t18446744073709551615 kB\n").pinned);
  EXPECT_FALSE(parse_process_status("VmPin:\t5\n").pinned);
}

TEST(CgroupPathsText, FindsBothVersions) {
  const CgroupPaths two = parse_cgroup_paths("0::/system.slice/nvmf_tgt.service\n");
  EXPECT_EQ(two.main(), "/system.slice/nvmf_tgt.service");
  const CgroupPaths one = parse_cgroup_paths("11:rdma:/slurm/job_7\n5:net_cls,hugetlb:/a\n1:name=systemd:/b:c\n");
  EXPECT_EQ(one.rdma, "/slurm/job_7");
  EXPECT_EQ(one.hugetlb, "/a");
  EXPECT_EQ(one.main(), "/b:c");
  EXPECT_EQ(parse_cgroup_paths("0::/x (deleted)\n").unified, "/x");
}

TEST(CgroupPathsText, LeavesOutWhatLeadsElsewhere) {
  for (const char* bad : {"0::/../../etc\n", "0::/a/..\n", "0::relative\n", "0::\n", "0:\n", "nothing\n", ""})
    EXPECT_EQ(parse_cgroup_paths(bad).unified, "") << bad;
  EXPECT_EQ(parse_cgroup_paths("0::/a/..b/c\n").unified, "/a/..b/c");
}

TEST(CgroupIdentityText, ReadsPodsContainersServicesAndJobs) {
  const std::string id(64, 'a');
  const auto pod = parse_cgroup_identity(
      "/kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod0d7e1c2a_11aa_4bbb_8ccc_0123456789ab.slice/"
      "cri-containerd-" +
      id + ".scope");
  EXPECT_EQ(pod.pod, "0d7e1c2a-11aa-4bbb-8ccc-0123456789ab");
  EXPECT_EQ(pod.container, id);
  EXPECT_EQ(pod.unit, "");
  const auto plain = parse_cgroup_identity("/kubepods/besteffort/pod0d7e1c2a-11aa-4bbb-8ccc-0123456789ab/" + id);
  EXPECT_EQ(plain.pod, "0d7e1c2a-11aa-4bbb-8ccc-0123456789ab");
  EXPECT_EQ(plain.container, id);
  const auto job = parse_cgroup_identity("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0");
  EXPECT_EQ(job.slurm_job, "4711");
  EXPECT_EQ(job.slurm_step, "0");
  EXPECT_EQ(parse_cgroup_identity("/slurm/uid_0/job_9/step_batch").slurm_step, "batch");
  EXPECT_EQ(parse_cgroup_identity("/system.slice/a.service/sub").unit, "a.service");
  const auto none = parse_cgroup_identity("/podium/job_x/step_1/" + std::string(63, 'a'));
  EXPECT_EQ(none.pod + none.slurm_job + none.slurm_step + none.container + none.unit, "");
}

TEST(ReadProcess, TellsGoneFromHiddenByTheRunningKernel) {
  const TempTree tree;
  tree.write("proc/version", "x\n");
  EXPECT_TRUE(read_process(tree.path("proc"), 77, false).gone);
  // A process that is there although this procfs does not show it.
  const Process hidden = read_process(tree.path("proc"), static_cast<std::uint32_t>(getpid()), true);
  EXPECT_FALSE(hidden.gone);
  EXPECT_TRUE(hidden.denied);
}

TEST(ReadProcess, KeepsTheNameAsItIs) {
  const TempTree tree;
  tree.write("proc/12/comm", "io\n\"w\\0\n");
  EXPECT_EQ(read_comm(tree.path("proc"), 12), "io\n\"w\\0");
  tree.write("proc/12/comm", std::string(500, 'x'));
  EXPECT_EQ(read_comm(tree.path("proc"), 12).size(), 64U);
  EXPECT_EQ(read_comm(tree.path("proc"), 13), "");
}

TEST(ListProcesses, TakesNumbersAlone) {
  const TempTree tree;
  for (const char* name : {"100", "9", "self", "0", "4294967296", "12x"})
    tree.write("proc/" + std::string(name) + "/comm", "a\n");
  EXPECT_THAT(list_processes(tree.path("proc")).value(), ElementsAre(9U, 100U));
  EXPECT_FALSE(list_processes(tree.path("none")));
}

}  // namespace
}  // namespace roce

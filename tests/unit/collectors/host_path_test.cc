// SPDX-License-Identifier: Apache-2.0
#include "exporter/collectors/interrupts.h"
#include "exporter/collectors/kernel_log.h"
#include "exporter/collectors/wrapping_cells.h"
#include "tests/unit/collectors/collector_fixture.h"

namespace roce {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// ---- 32-bit counters per CPU ----

TEST(WrappingCells, AWrapOfOneCpuDoesNotMakeTheSumFall) {
  WrappingCells cells;
  const std::vector<std::uint32_t> cpus{0, 2};
  cells.next(cpus, std::vector<std::uint64_t>{4294967290U, 10});
  EXPECT_EQ(cells.total(), 4294967300U);
  const auto steps = cells.next(cpus, std::vector<std::uint64_t>{4, 11});
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{10, 1}));
  EXPECT_EQ(cells.total(), 4294967311U);
}

TEST(WrappingCells, AFallFromBelowIsARestart) {
  WrappingCells cells;
  const std::vector<std::uint32_t> cpus{0};
  cells.next(cpus, std::vector<std::uint64_t>{1000});
  EXPECT_EQ(cells.next(cpus, std::vector<std::uint64_t>{7}), (std::vector<std::uint64_t>{7}));
}

TEST(WrappingCells, ACpuThatComesBackGoesOn) {
  WrappingCells cells;
  cells.next(std::vector<std::uint32_t>{0, 1}, std::vector<std::uint64_t>{5, 50});
  cells.next(std::vector<std::uint32_t>{0}, std::vector<std::uint64_t>{6});
  EXPECT_EQ(cells.total(), 56U);
  cells.next(std::vector<std::uint32_t>{0, 1}, std::vector<std::uint64_t>{6, 52});
  EXPECT_EQ(cells.total(), 58U);
}

// ---- interrupts ----

TEST(CompletionVector, IsToldByItsName) {
  for (const char* name : {"mlx5_comp0@pci:0000:3b:00.0", "mlx5_comp12", "mlx5_combined3@pci:0000:3b:00.0",
                           "bnxt_re-nq-1@pci:0000:3b:00.0", "irdma-0000:3b:00.0-CEQ-2", "irdma-0000:3b:00.0-AEQCEQ-0",
                           "efa-comp4@pci:0000:3b:00.0", "erdma-ceq7@pci:0000:3b:00.0", "mlx4-3@0000:3b:00.0"})
    EXPECT_TRUE(is_completion_vector(name)) << name;
  for (const char* name : {"mlx5_async0@pci:0000:3b:00.0", "bnxt_re-creq@pci:0000:3b:00.0", "irdma-0000:3b:00.0-AEQ",
                           "efa-mgmnt@pci:0000:3b:00.0", "erdma-common@pci:0000:3b:00.0", "eth0-TxRx-3",
                           "mlx4-async@pci:0000:3b:00.0", "timer"})
    EXPECT_FALSE(is_completion_vector(name)) << name;
}

class InterruptsTest : public CollectorFixture {
 protected:
  InterruptsTest() {
    for (const char* device : {"mlx5_0", "mlx5_1"}) tree_.add_port(device);
    tree_.write("sys/devices/pci0000:3a/0000:3b:00.0/numa_node", "1\n");
    tree_.write("sys/devices/pci0000:3a/0000:3b:00.0/msi_irqs/45", "msix\n");
    tree_.write("sys/devices/pci0000:3a/0000:3c:00.0/numa_node", "-1\n");
    tree_.link("sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/0000:3b:00.0");
    tree_.link("sys/class/infiniband/mlx5_1/device", "../../../devices/pci0000:3a/0000:3c:00.0");
    tree_.write("sys/devices/system/node/node1/cpulist", "2-3\n");
  }
};

TEST_F(InterruptsTest, VectorsAreAddedUpAndSplitByNode) {
  tree_.write("proc/interrupts",
              "           CPU0       CPU1       CPU2       CPU3\n"
              " 44:          9          0          0          0  PCI-MSIX-0000:3b:00.0   0-edge  "
              "mlx5_async0@pci:0000:3b:00.0\n"
              " 45:         10          0         30          0  PCI-MSI 1-edge      mlx5_comp0\n"
              " 46:          0          0          0         60  PCI-MSI 2-edge      mlx5_comp1@pci:0000:3b:00.0\n"
              " 50:          5          6          0          0  PCI-MSI 3-edge      mlx5_comp0@pci:0000:3c:00.0\n"
              " 51:        777          0          0          0  PCI-MSI 4-edge      mlx5_comp0@pci:0000:99:00.0\n"
              "NMI:          1          1          1          1   Non-maskable interrupts\n"
              "ERR:          0\n");
  const auto collector = create("interrupts");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupts_total{device=\"mlx5_0\",locality=\"local\"} 90\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupts_total{device=\"mlx5_0\",locality=\"remote\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupts_total{device=\"mlx5_1\",locality=\"unknown\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_vectors{device=\"mlx5_0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_cpus{device=\"mlx5_0\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_busiest_cpu_ratio{device=\"mlx5_0\"} 0.6\n"));
  EXPECT_THAT(text, Not(HasSubstr("777")));
  // CPU 1 went offline, all new interrupts are on one CPU; the other device had none.
  tree_.write("proc/interrupts",
              "           CPU0       CPU2       CPU3\n"
              " 45:         10         30          0  PCI-MSI 1-edge      mlx5_comp0\n"
              " 46:          0          0        100  PCI-MSI 2-edge      mlx5_comp1@pci:0000:3b:00.0\n"
              " 50:          5          0          0  PCI-MSI 3-edge      mlx5_comp0@pci:0000:3c:00.0\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupts_total{device=\"mlx5_0\",locality=\"local\"} 130\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_cpus{device=\"mlx5_0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_busiest_cpu_ratio{device=\"mlx5_0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupts_total{device=\"mlx5_1\",locality=\"unknown\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("roce_completion_interrupt_cpus{device=\"mlx5_1\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("busiest_cpu_ratio{device=\"mlx5_1\"}")));
}

TEST_F(InterruptsTest, AWrapOfTheKernelsCountIsNoRestart) {
  const auto line = [](const char* count) {
    return std::string("           CPU0\n 45:         ") + count + "  PCI-MSI 1-edge      mlx5_comp0\n";
  };
  tree_.write("proc/interrupts", line("4294967200"));
  const auto collector = create("interrupts");
  page(*collector);
  tree_.write("proc/interrupts", line("104"));
  EXPECT_THAT(page(*collector),
              HasSubstr("roce_completion_interrupts_total{device=\"mlx5_0\",locality=\"remote\"} 4294967400\n"));
}

TEST_F(InterruptsTest, WithoutTheFileOrWithGarbageThereIsNothing) {
  EXPECT_EQ(page("interrupts"), "");
  EXPECT_EQ(error_, "");
  tree_.write("proc/interrupts", "CPU\xff x\n45: 1 2 mlx5_comp0\n");
  EXPECT_THAT(page("interrupts"), Not(HasSubstr("roce_")));
  tree_.write("proc/interrupts", "");
  EXPECT_THAT(page("interrupts"), Not(HasSubstr("roce_")));
}

// ---- host_path ----

class HostPathTest : public CollectorFixture {};

TEST_F(HostPathTest, SoftirqsAndTheNetworkStackAreSumsOverCpus) {
  tree_.write("proc/softirqs",
              "                    CPU0       CPU1\n"
              "      NET_RX:         10 4294967295\n"
              "    IRQ_POLL:          5          7\n"
              "         RCU:          1          1\n");
  tree_.write("proc/net/softnet_stat",
              "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
              "00000000 00000003\n"
              "ffffffff 00000000 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n");
  const auto collector = create("host_path");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_softirqs_total{type=\"IRQ_POLL\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("roce_softirqs_total{type=\"NET_RX\"} 4294967305\n"));
  EXPECT_THAT(text, Not(HasSubstr("RCU")));
  EXPECT_THAT(text, HasSubstr("roce_softnet_processed_packets_total 4294967305\n"));
  EXPECT_THAT(text, HasSubstr("roce_softnet_dropped_packets_total 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_softnet_time_squeezes_total 18\n"));
  tree_.write("proc/softirqs", "                    CPU0       CPU1\n      NET_RX:         11          4\n");
  tree_.write("proc/net/softnet_stat",
              "0000000b 00000003 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
              "00000000 00000003\n"
              "00000001 00000000 00000010 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_softirqs_total{type=\"NET_RX\"} 4294967311\n"));
  EXPECT_THAT(text, HasSubstr("roce_softnet_processed_packets_total 4294967308\n"));
  EXPECT_THAT(text, HasSubstr("roce_softnet_dropped_packets_total 3\n"));
}

TEST_F(HostPathTest, InterruptWorkOfTheBusiestCpuSinceTheLastRead) {
  tree_.write("proc/stat",
              "cpu  100 0 0 0 0 0 0 0 0 0\ncpu0 50 0 0 40 0 5 5 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5 6\n");
  const auto collector = create("host_path");
  EXPECT_THAT(page(*collector), HasSubstr("roce_cpu_busiest_interrupt_ratio 0.1\n"));
  tree_.write("proc/stat", "cpu0 50 0 0 140 0 5 5 0 0 0\ncpu1 20 0 0 100 0 10 70 0 0 0\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_cpu_busiest_interrupt_ratio 0.8\n"));
  // Nothing moved: there is no share to tell.
  EXPECT_THAT(page(*collector), Not(HasSubstr("roce_cpu_busiest_interrupt_ratio")));
}

TEST_F(HostPathTest, PressureIsSeconds) {
  tree_.write("proc/pressure/cpu",
              "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n");
  const auto collector = create("host_path");
  EXPECT_THAT(page(*collector), HasSubstr("roce_cpu_pressure_seconds_total 2.5\n"));
  tree_.write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=4000000\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_cpu_pressure_seconds_total 4\n"));
}

TEST_F(HostPathTest, OneBadFileLeavesTheOthers) {
  tree_.write("proc/softirqs", "rubbish\n");
  tree_.write("proc/net/softnet_stat", "zz 1\n");
  tree_.write("proc/pressure/cpu", "some total=5\n");
  const std::string text = page("host_path");
  EXPECT_EQ(kind_, "malformed");
  EXPECT_THAT(text, HasSubstr("roce_cpu_pressure_seconds_total 5e-06\n"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("roce_soft")), Not(HasSubstr("busiest"))));
}

TEST_F(HostPathTest, AHostWithoutTheseFilesIsNoFailure) {
  EXPECT_EQ(page("host_path"), "");
  EXPECT_EQ(error_, "");
}

// ---- cpu_power ----

TEST_F(HostPathTest, TheDeepestEnabledIdleStateOfAllCpus) {
  const std::string root = "sys/devices/system/cpu/";
  tree_.write(root + "online", "0-1\n");
  for (const char* cpu : {"cpu0", "cpu1", "cpu2"}) {
    tree_.write(root + cpu + "/cpuidle/state0/latency", "2\n");
    tree_.write(root + cpu + "/cpuidle/state0/disable", "0\n");
    tree_.write(root + cpu + "/cpuidle/state1/latency", "133\n");
    tree_.write(root + cpu + "/cpuidle/state1/disable", "1\n");
    tree_.write(root + cpu + "/cpufreq/scaling_driver", "intel_pstate\n");
    tree_.write(root + cpu + "/cpufreq/scaling_governor", cpu == std::string("cpu0") ? "powersave\n" : "performance\n");
  }
  // Offline: counts for nothing.
  tree_.write(root + "cpu2/cpuidle/state1/disable", "0\n");
  tree_.write(root + "cpuidle/current_driver", "intel_idle\n");
  tree_.write(root + "cpuidle/current_governor", "menu\n");
  const auto collector = create("cpu_power");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_cpu_idle_deepest_latency_seconds 2e-06\n"));
  EXPECT_THAT(text, HasSubstr("roce_cpu_governor_cpus{driver=\"intel_pstate\",governor=\"performance\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_cpu_governor_cpus{driver=\"intel_pstate\",governor=\"powersave\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_cpu_idle_info{driver=\"intel_idle\",governor=\"menu\"} 1\n"));
  tree_.write(root + "cpu1/cpuidle/state1/disable", "0\n");
  tree_.write(root + "cpu0/cpufreq/scaling_governor", "performance\n");
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_cpu_idle_deepest_latency_seconds 0.000133\n"));
  EXPECT_THAT(text, HasSubstr("governor=\"performance\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("governor=\"powersave\"")));
}

TEST_F(HostPathTest, AVirtualMachineHasNoCpuPowerSeries) {
  tree_.write("sys/devices/system/cpu/cpu0/topology/core_id", "0\n");
  EXPECT_EQ(page("cpu_power"), "");
  EXPECT_EQ(error_, "");
}

// ---- kernel_settings ----

TEST_F(HostPathTest, SettingsAreTheKernelsNumbersAndTexts) {
  tree_.write("proc/sys/net/core/rmem_max", "212992\n");
  tree_.write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
  tree_.write("proc/sys/kernel/sched_rt_runtime_us", "-1\n");
  tree_.write("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
  tree_.write("proc/sys/net/ipv4/tcp_fastopen_key", "00000000-11111111-22222222-33333333\n");
  tree_.write("sys/module/mlx5_core/version", "24.10-1\n");
  tree_.write("sys/module/mlx5_core/srcversion", "ABCDEF\n");
  tree_.write("sys/module/mlx5_core/parameters/prof_sel", "2\n");
  tree_.write("sys/module/nvme_core/initstate", "live\n");
  tree_.write("sys/module/pcie_aspm/parameters/policy", "default performance [powersave] powersupersave\n");
  const auto collector = create("kernel_settings");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_kernel_setting{setting=\"net.core.rmem_max\"} 212992\n"));
  EXPECT_THAT(text, HasSubstr("roce_kernel_setting{setting=\"net.ipv4.tcp_rmem\"} 6291456\n"));
  EXPECT_THAT(text, HasSubstr("roce_kernel_setting{setting=\"kernel.sched_rt_runtime_us\"} -1\n"));
  EXPECT_THAT(text, HasSubstr("{setting=\"net.ipv4.tcp_congestion_control\",value=\"cubic\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{module=\"mlx5_core\",version=\"24.10-1\",srcversion=\"ABCDEF\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{module=\"nvme_core\",version=\"\",srcversion=\"\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{module=\"mlx5_core\",parameter=\"prof_sel\",value=\"2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("{module=\"pcie_aspm\",parameter=\"policy\",value=\"powersave\"} 1\n"));
  // Only what is on the list is read.
  EXPECT_THAT(text, AllOf(Not(HasSubstr("fastopen")), Not(HasSubstr("pcie_aspm\",version"))));
  tree_.write("proc/sys/net/core/rmem_max", "16777216\n");
  EXPECT_THAT(page(*collector), HasSubstr("roce_kernel_setting{setting=\"net.core.rmem_max\"} 16777216\n"));
}

TEST_F(HostPathTest, ASettingThatIsNoNumberFailsAlone) {
  tree_.write("proc/sys/net/core/rmem_max", "much\n");
  tree_.write("proc/sys/net/core/wmem_max", "7\n");
  const std::string text = page("kernel_settings");
  EXPECT_EQ(kind_, "malformed");
  EXPECT_THAT(text, HasSubstr("roce_kernel_setting{setting=\"net.core.wmem_max\"} 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("rmem_max")));
}

// ---- kernel_log ----

TEST(KernelMessage, IsClassified) {
  EXPECT_EQ(classify_kernel_message("mlx5_core 0000:3b:00.0: poll_health:801:(pid 0): device's health compromised - "
                                    "reached miss count"),
            MessageClass::kMlx5Health);
  EXPECT_EQ(classify_kernel_message("mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:803:(pid 9): ACCESS_REG(0x805) "
                                    "op_mod(0x1) failed, status bad parameter(0x3)"),
            MessageClass::kAccessReg);
  EXPECT_EQ(classify_kernel_message("mlx5_core: unknown parameter 'roce_ooo_en' ignored"),
            MessageClass::kUnknownParameter);
  EXPECT_EQ(classify_kernel_message("nvme nvme1: Reconnecting in 10 seconds..."), MessageClass::kNvmeReconnect);
  EXPECT_EQ(classify_kernel_message("nvme nvme1: Failed reconnect attempt 4"), MessageClass::kNvmeReconnect);
  EXPECT_EQ(classify_kernel_message("nvme nvme1: Successfully reconnected (4 attempts)"), std::nullopt);
  EXPECT_EQ(classify_kernel_message("mlx5_core 0000:3b:00.0: firmware version: 28.39"), std::nullopt);
  EXPECT_EQ(classify_kernel_message(""), std::nullopt);
}

TEST_F(HostPathTest, MessagesCountFromTheStartOfTheExporter) {
  const std::string old = "6,1,100,-;nvme nvme0: Reconnecting in 10 seconds...\n";
  tree_.write("kmsg", old);
  host_->kernel_log = tree_.path("kmsg");
  const auto collector = create("kernel_log");
  std::string text = page(*collector);
  EXPECT_EQ(error_, "");
  EXPECT_THAT(text, HasSubstr("roce_kernel_log_messages_total{class=\"nvme_reconnect\"} 0\n"));
  std::ofstream(tree_.path("kmsg"), std::ios::app)
      << "6,2,200,-;nvme nvme0: Reconnecting in 10 seconds...\n SUBSYSTEM=nvme\n"
      << "12,3,300,-;nvme nvme0: Reconnecting in 10 seconds...\n"  // written by a program
      << "4,4,400,-;mlx5_core: unknown parameter 'num_comp_vectors' ignored\n";
  text = page(*collector);
  EXPECT_THAT(text, HasSubstr("roce_kernel_log_messages_total{class=\"nvme_reconnect\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_kernel_log_messages_total{class=\"unknown_parameter\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("roce_kernel_log_messages_total{class=\"mlx5_health\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("roce_kernel_log_overruns_total 0\n"));
}

TEST_F(HostPathTest, ALogThatIsNotThereOrNotOursSaysSo) {
  EXPECT_EQ(page("kernel_log"), "");
  EXPECT_EQ(error_, "");
  host_->kernel_log = tree_.path("nothing");
  EXPECT_EQ(page("kernel_log"), "");
  EXPECT_EQ(kind_, "absent");
}

TEST_F(HostPathTest, TheLogIsOffByDefault) {
  for (const CollectorEntry& entry : collector_registry()) {
    EXPECT_FALSE(entry.name == "kernel_log" && entry.by_default);
  }
}

}  // namespace
}  // namespace roce

// SPDX-License-Identifier: Apache-2.0
//
// The place to add a collector: one row here, its file pair beside this one, its metrics in exporter/catalog.
#include "exporter/collectors/bond.h"
#include "exporter/collectors/cgroups.h"
#include "exporter/collectors/cm_messages.h"
#include "exporter/collectors/collector.h"
#include "exporter/collectors/congestion_control.h"
#include "exporter/collectors/cpu_power.h"
#include "exporter/collectors/dcb.h"
#include "exporter/collectors/devlink.h"
#include "exporter/collectors/ethtool.h"
#include "exporter/collectors/gds.h"
#include "exporter/collectors/host_path.h"
#include "exporter/collectors/hugepages.h"
#include "exporter/collectors/hw_counters.h"
#include "exporter/collectors/hwmon.h"
#include "exporter/collectors/interrupts.h"
#include "exporter/collectors/iser.h"
#include "exporter/collectors/kernel_log.h"
#include "exporter/collectors/kernel_settings.h"
#include "exporter/collectors/link.h"
#include "exporter/collectors/netdev.h"
#include "exporter/collectors/nfs_rdma.h"
#include "exporter/collectors/nvme.h"
#include "exporter/collectors/nvmet.h"
#include "exporter/collectors/odp.h"
#include "exporter/collectors/pcie.h"
#include "exporter/collectors/port_counters.h"
#include "exporter/collectors/process_cgroups.h"
#include "exporter/collectors/processes.h"
#include "exporter/collectors/qp.h"
#include "exporter/collectors/qp_counters.h"
#include "exporter/collectors/rdma_device.h"
#include "exporter/collectors/rdma_gid.h"
#include "exporter/collectors/rdma_owners.h"
#include "exporter/collectors/rdma_port.h"
#include "exporter/collectors/rdma_resources.h"
#include "exporter/collectors/sriov.h"
#include "exporter/collectors/storage_modules.h"
#include "exporter/collectors/sysv_shm.h"

namespace roce {
namespace {

// In the order of their weight: what comes later loses first where a port or the host has more series than allowed.
constexpr CollectorEntry kCollectors[] = {
    {"rdma_device", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "identity of RDMA devices",
     make_rdma_device_collector},
    {"rdma_port", true, Cadence::kScrape, Scope::kRdma, LockClass::kPortQuery, "port state, rate, netdev, flaps",
     make_rdma_port_collector},
    {"port_counters", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "traffic and error counters of the port",
     make_port_counters_collector},
    {"hw_counters", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "the driver's hardware counters",
     make_hw_counters_collector},
    {"rdma_resources", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone,
     "QPs, CQs, MRs and other verbs objects in use", make_rdma_resources_collector},
    {"rdma_gid", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "health of the GID table",
     make_rdma_gid_collector},
    {"netdev", true, Cadence::kScrape, Scope::kNetdev, LockClass::kNone, "MTU, state and traffic of network devices",
     make_netdev_collector},
    {"link", true, Cadence::kScrape, Scope::kNetdev, LockClass::kRtnl,
     "link state and reason, pause, FEC, standard statistics", make_link_collector},
    {"dcb", true, Cadence::kSlow, Scope::kNetdev, LockClass::kRtnl,
     "priority flow control, traffic classes, DSCP map and buffers", make_dcb_collector},
    {"qp", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "QPs by type, state and owner", make_qp_collector},
    {"congestion_control", true, Cadence::kSlow, Scope::kDevice, LockClass::kNone,
     "ECN, its parameters, and defaults of the connection manager", make_congestion_control_collector},
    {"ethtool", true, Cadence::kScrape, Scope::kNetdev, LockClass::kRtnl,
     "the network driver's statistics: PFC, pause, physical port, PCIe", make_ethtool_collector},
    {"cm_messages", true, Cadence::kScrape, Scope::kRdma, LockClass::kNone, "connection manager messages",
     make_cm_messages_collector},
    {"pcie", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "PCI Express links, errors and settings",
     make_pcie_collector},
    {"hwmon", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "temperatures of devices and modules",
     make_hwmon_collector},
    {"devlink", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "health reporters of the driver",
     make_devlink_collector},
    {"sriov", true, Cadence::kSlow, Scope::kRdma, LockClass::kRtnl, "virtual functions and representors",
     make_sriov_collector},
    {"rdma_owners", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "verbs objects by owner",
     make_rdma_owners_collector},
    {"odp", true, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "page faults of on-demand paging",
     make_odp_collector},
    {"nvme", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "NVMe controllers over fabrics and their paths",
     make_nvme_collector},
    {"nvmet", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "the host's NVMe target", make_nvmet_collector},
    {"nfs_rdma", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "NFS over RDMA: mounts and server",
     make_nfs_rdma_collector},
    {"iser", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "iSER sessions", make_iser_collector},
    {"gds", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "GPUDirect Storage (nvidia-fs)",
     make_gds_collector},
    {"storage_modules", true, Cadence::kSlow, Scope::kHost, LockClass::kNone,
     "kernel modules that carry storage over RDMA", make_storage_modules_collector},
    {"bond", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "bonds and their members", make_bond_collector},
    {"processes", true, Cadence::kSlow, Scope::kHost, LockClass::kNone, "memory limits of processes that use RDMA",
     make_processes_collector},
    {"hugepages", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "huge pages by size and NUMA node",
     make_hugepages_collector},
    {"sysv_shm", true, Cadence::kSlow, Scope::kHost, LockClass::kNone, "System V shared memory and its limits",
     make_sysv_shm_collector},
    {"cgroups", true, Cadence::kSlow, Scope::kHost, LockClass::kNone,
     "rdma and hugetlb cgroups of processes that use RDMA", make_cgroups_collector},
    {"interrupts", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "completion interrupts and their CPUs",
     make_interrupts_collector},
    {"host_path", true, Cadence::kScrape, Scope::kHost, LockClass::kNone, "softirqs, network stack, CPU pressure",
     make_host_path_collector},
    {"cpu_power", true, Cadence::kSlow, Scope::kHost, LockClass::kNone, "idle states and frequency governors",
     make_cpu_power_collector},
    {"kernel_settings", true, Cadence::kSlow, Scope::kHost, LockClass::kNone, "settings that tuning guides name",
     make_kernel_settings_collector},
    {"kernel_log", false, Cadence::kScrape, Scope::kHost, LockClass::kNone, "kernel messages by class; opens /dev/kmsg",
     make_kernel_log_collector},
    {"process_cgroups", false, Cadence::kSlow, Scope::kHost, LockClass::kNone,
     "service, pod, container and job of processes that use RDMA", make_process_cgroups_collector},
    {"qp_counters", false, Cadence::kSlow, Scope::kRdma, LockClass::kNone, "counter sets bound to QPs",
     make_qp_counters_collector},
};

}  // namespace

std::span<const CollectorEntry> collector_registry() { return kCollectors; }

}  // namespace roce

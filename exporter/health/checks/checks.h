// SPDX-License-Identifier: Apache-2.0
//
// The functions behind the table in exporter/health/checks.cc, by what they look at.
#pragma once

namespace roce {
class CheckContext;
}

namespace roce::checks {

// link.cc: ports and network devices
void port_down(CheckContext& context);
void link_flapping(CheckContext& context);
void link_errors(CheckContext& context);
void gid_missing(CheckContext& context);
void rate_uneven(CheckContext& context);
void mtu_mismatch(CheckContext& context);
void path_mtu_small(CheckContext& context);
void bond_degraded(CheckContext& context);
void counter_saturated(CheckContext& context);

// lossless.cc: flow control, congestion control, drops
void pause_storm(CheckContext& context);
void pause_received(CheckContext& context);
void pause_sent(CheckContext& context);
void lossless_drops(CheckContext& context);
void port_discards(CheckContext& context);
void pfc_mismatch(CheckContext& context);
void pfc_with_global_pause(CheckContext& context);
void pfc_without_buffer(CheckContext& context);
void dscp_not_lossless(CheckContext& context);
void ecn_off(CheckContext& context);
void cnp_ignored(CheckContext& context);
void ecn_without_cnp(CheckContext& context);
void congestion(CheckContext& context);

// transport.cc: RDMA transport and verbs objects
void retransmissions(CheckContext& context);
void retries_exceeded(CheckContext& context);
void receiver_not_ready(CheckContext& context);
void access_errors(CheckContext& context);
void icrc_errors(CheckContext& context);
void connection_retries(CheckContext& context);
void qp_error(CheckContext& context);
void resource_limit(CheckContext& context);
void rate_limit_drops(CheckContext& context);

// pci.cc: PCI Express and the card
void device_lost(CheckContext& context);
void pcie_degraded(CheckContext& context);
void pcie_bottleneck(CheckContext& context);
void pcie_stalled(CheckContext& context);
void pcie_errors(CheckContext& context);
void max_read_request(CheckContext& context);
void max_payload(CheckContext& context);
void device_health(CheckContext& context);
void temperature(CheckContext& context);
void firmware_spread(CheckContext& context);
void kernel_call_stuck(CheckContext& context);

// storage.cc: storage over RDMA
void nvme_no_path(CheckContext& context);
void nvme_path_lost(CheckContext& context);
void nvme_queues_uneven(CheckContext& context);
void nvme_keep_alive_off(CheckContext& context);
void nvme_reconnect_slow(CheckContext& context);
void nfs_errors(CheckContext& context);
void iser_session_down(CheckContext& context);
void gds_fallback(CheckContext& context);

// host.cc: memory, processes, CPUs
void memlock_headroom(CheckContext& context);
void memlock_default_low(CheckContext& context);
void hugepages_exhausted(CheckContext& context);
void hugepages_remote(CheckContext& context);
void hugepages_cgroup(CheckContext& context);
void shm_segments(CheckContext& context);
void cpu_interrupts(CheckContext& context);
void interrupts_remote(CheckContext& context);
void idle_states(CheckContext& context);
void governor(CheckContext& context);
void numa_balancing(CheckContext& context);

}  // namespace roce::checks

# SPDX-License-Identifier: Apache-2.0
"""A fleet of four hosts in time, healthy or broken, for a real Prometheus: what panels of boards are tested on.

Broken, from ten minutes before the end: node2 has lost its port mlx5_0/1 and with it storage paths and probes; node1 is stopped by a
PFC storm, loses packets, has a cable that goes bad, a PCIe link with half its lanes, a process at its memlock limit, a collector
that fails, a call and a read that hang; the exporter of node4 does not answer. Recorded series and alerts are what the rules of alerts/ make
of these samples.
"""
import concurrent.futures
import functools
import glob
import hashlib
import json
import math
import os
import re
import shutil
import urllib.parse
import urllib.request
import zlib

import alert_lint
import alerts
import e2e
from harness import BUILD, Failed, command, expect

WORK = os.path.join(BUILD, "tests", "dashboards")

STEP = 15
END = 1767268785          # 2026-01-01 11:59:45 UTC
BEGIN = END - 2 * 3600 + STEP  # one block of two hours
BREAK = 600               # seconds before the end at which things break
LONG = 24 * 3600          # with long history: from so long before the end, a sample a minute
HOSTS = ["node1", "node2", "node3", "node4"]
BOUNDS = ["5e-06", "1e-05", "2e-05", "4e-05", "8e-05", "0.00016", "0.000625", "0.00125", "0.0025", "0.005", "+Inf"]


STEADY = ("roce_probe_", "roce_prober_", "roce_storage_probe_", "roce_nfs_")  # what is divided by its like


class Fleet:
    """{(name, labels): (kind, healthy, broken)}; kind c: a counter's growth a second, g: a gauge's value. broken is None where it
    stays as it is, `gone` where the series ends."""

    def __init__(self):
        self.series = {}

    def add(self, kind, target, name, value, broken=None, **labels):
        self.series[(name, tuple(sorted({**target, **labels}.items())))] = (kind, value, broken)

    def gauge(self, target, name, value, broken=None, **labels):
        self.add("g", target, name, value, broken, **labels)

    def count(self, target, name, rate, broken=None, **labels):
        self.add("c", target, name, rate, broken, **labels)

    def histogram(self, target, name, rate, spread, broken=None, **labels):
        """spread: share of the samples up to each bound, by index in BOUNDS; the rest are above. broken {}: none come."""
        def shares(of):
            out, last = [], 0.0
            for i in range(len(BOUNDS)):
                last = max(last, of.get(i, last))
                out.append(1.0 if BOUNDS[i] == "+Inf" else last)
            return out
        healthy, bad = shares(spread), shares(broken) if broken else None
        if broken == {}:  # nothing comes any more
            bad = [0.0] * len(BOUNDS)
        for i, bound in enumerate(BOUNDS):
            self.count(target, f"{name}_bucket", rate * healthy[i], rate * bad[i] if bad else None, le=bound, **labels)
        self.count(target, f"{name}_count", rate, 0 if broken == {} else None, **labels)
        self.count(target, f"{name}_sum", rate * 2e-5, 0 if broken == {} else rate * 2e-3 if bad else None, **labels)


def states(fleet, target, name, known, now, then=None, **labels):
    for state in known:
        fleet.gauge(target, name, float(state == now), float(state == (then or now)), state=state, **labels)


def port_series(f, target, host, device, whole):
    """One port; `whole`: with every priority, as the one that is looked at closely."""
    netdev = "ens1" if device == "mlx5_0" else "ens2"
    ib, eth = {"device": device, "port": "1"}, {"device": device, "port": "1", "netdev": netdev}
    down = host == "node2" and device == "mlx5_0"
    sick = host == "node1" and device == "mlx5_0"

    def bad(value):
        return value if sick else None
    g, c = f.gauge, f.count
    g(target, "roce_port_state", 4, 1 if down else None, **ib)
    g(target, "roce_port_physical_state", 5, 2 if down else None, **ib)
    g(target, "roce_port_rate_bytes_per_second", 12.5e9, **ib)
    g(target, "roce_port_info", 1, link_layer="Ethernet", rate="100 Gb/sec (4X EDR)", netdev=netdev, **ib)
    g(target, "roce_netdev_link_down_reason", "gone", 1 if down else "gone", reason="no_cable", detail="", **eth)
    traffic = 0 if down else None
    for way, rate in (("receive", 3.1e9), ("transmit", 2.4e9)):
        c(target, f"roce_port_{way}_bytes_total", rate, traffic if down else bad(0.4e9), **ib)
        c(target, f"roce_port_{way}_packets_total", rate / 2048, traffic if down else bad(0.4e9 / 2048), **ib)
        c(target, "roce_physical_port_bytes_total", rate * 1.03, traffic if down else bad(0.41e9), direction=way, **eth)
        c(target, "roce_physical_port_packets_total", rate / 2000, traffic if down else bad(0.41e9 / 2000), direction=way, **eth)
        c(target, "roce_physical_port_discards_total", 0, bad(52) if way == "receive" else None, direction=way, **eth)
        g(target, "roce_nic_pcie_stalled_ratio", 0.01, bad(0.42) if way == "receive" else None, direction={"receive": "write", "transmit": "read"}[way], **eth)
        c(target, "roce_pause_frames_total", 0, bad(6) if way == "receive" else None, direction=way, frame="any", **eth)
        for priority in range(8) if whole else (0, 3):
            busy = priority == 3
            c(target, "roce_pfc_pause_seconds_total", 0.004 if busy else 0, bad(0.93) if busy and way == "receive" else None, priority=str(priority), direction=way, **eth)
            c(target, "roce_pfc_frames_total", 12 if busy else 0, bad(4100) if busy and way == "receive" else None, priority=str(priority), direction=way, frame="any", **eth)
            c(target, "roce_priority_bytes_total", rate if busy else rate / 60 if priority == 0 else 0, traffic if down else bad(0.4e9) if busy else None, priority=str(priority), direction=way, **eth)
    for priority in range(8) if whole else (0, 3):
        lossless = float(priority == 3)
        c(target, "roce_priority_discards_total", 0, bad(38) if priority == 3 else None, priority=str(priority), reason="no_buffer", **eth)
        g(target, "roce_pfc_enabled", lossless, priority=str(priority), **eth)
        g(target, "roce_pfc_peer_enabled", lossless, bad(0.0) if priority == 3 else None, priority=str(priority), **eth)
        g(target, "roce_ecn_enabled", lossless, bad(0.0) if priority == 3 else None, point="reaction", priority=str(priority), **eth)
        g(target, "roce_ecn_enabled", lossless, point="notification", priority=str(priority), **eth)
    g(target, "roce_pfc_buffer_bytes", 262144, priority="3", **eth)
    g(target, "roce_pfc_buffer_bytes", 131072, priority="0", **eth)
    for dscp, priority in (("26", 3), ("48", 6)):
        g(target, "roce_dscp_priority", priority, dscp=dscp, **eth)
    c(target, "roce_netdev_carrier_down_total", 0, **eth)
    c(target, "roce_port_link_downed_total", 0, **ib)
    for reason in ("unplugged", "high_temperature"):
        c(target, "roce_module_events_total", 0, bad(0.01) if reason == "high_temperature" else None, reason=reason, **eth)
    for family in ("ipv4", "ipv6"):
        g(target, "roce_port_gid_routable_entries", float(family == "ipv4"), 0 if down else None, family=family, **ib)
    c(target, "roce_receive_out_of_sequence_packets_total", 0.3, bad(940), **ib)
    c(target, "roce_receive_duplicate_requests_total", 0.1, bad(120), **ib)
    for reason, rate in (("ack_timeout", 0.02), ("sequence_nak", 0.2), ("implied_nak", 0), ("rnr_nak", 0.4), ("read_response_sequence", 0)):
        c(target, "roce_retransmit_triggers_total", rate, bad(310) if reason in ("ack_timeout", "sequence_nak") else None, reason=reason, **ib)
    for reason in ("transport", "rnr"):
        c(target, "roce_retries_exceeded_total", 0, bad(0.4) if reason == "transport" else None, reason=reason, **ib)
    c(target, "roce_receiver_not_ready_total", 0.5, bad(42), **ib)
    for side in ("requester", "responder"):
        c(target, "roce_completion_errors_total", 0, bad(6) if side == "requester" else None, side=side, **ib)
        c(target, "roce_completion_flush_errors_total", 0, bad(5) if side == "requester" else None, side=side, **ib)
    c(target, "roce_operation_errors_total", 0, bad(0.6), side="requester", reason="remote_access", **ib)
    c(target, "roce_receive_icrc_errors_total", 0, bad(0.2), **ib)
    c(target, "roce_receive_ecn_marked_packets_total", 40, bad(92000), **ib)
    c(target, "roce_cnp_sent_total", 35, bad(41000), **ib)
    c(target, "roce_cnp_handled_total", 20, bad(2500), **ib)
    c(target, "roce_cnp_ignored_total", 0, bad(900), **ib)
    c(target, "roce_port_symbol_errors_total", 0, bad(0.8), **ib)
    c(target, "roce_physical_port_pcs_symbol_errors_total", 0, bad(0.6), **eth)
    c(target, "roce_port_link_error_recoveries_total", 0, bad(0.02), **ib)
    c(target, "roce_port_receive_errors_total", 0, bad(0.9), **ib)
    c(target, "roce_port_transmit_discards_total", 0, bad(3), **ib)
    c(target, "roce_port_receive_discards_total", 0, bad(4), **ib)
    c(target, "roce_retransmitted_packets_total", 0.3, bad(700), **ib)
    for reason in ("crc", "symbol", "oversize"):
        c(target, "roce_physical_port_errors_total", 0, bad(1.7) if reason == "crc" else None, reason=reason, **eth)
    c(target, "roce_fec_blocks_total", 3, bad(2600), result="corrected", **eth)
    c(target, "roce_fec_blocks_total", 0, bad(4.5), result="uncorrectable", **eth)
    for lane in range(4):
        c(target, "roce_physical_port_lane_errors_total", 0.8, bad(1900) if lane == 2 else None, lane=str(lane), **eth)
    g(target, "roce_counter_support", 1, counter="roce_slow_restart", state="unsupported", **ib)
    g(target, "roce_counter_support", "gone", bad(1.0) or "gone", counter="symbol_error", state="saturated", **ib)
    for state, value in (("ok", 96), ("unsupported", 1), ("saturated", 0), ("denied", 0), ("failing", 0)):
        g(target, "roce_counters", value, bad(1.0) if state == "saturated" else None, state=state, **ib)


def host_series(f, target, host):
    sick = host == "node1"

    def bad(value):
        return value if sick else None
    g, c = f.gauge, f.count
    for device in ("mlx5_0", "mlx5_1"):
        port_series(f, target, host, device, whole=sick and device == "mlx5_0")
        half = bad(15.75e9) if device == "mlx5_0" else None
        for firmware, there in {"22.39.1002": (1, "gone" if host == "node3" else None), "22.36.1010": ("gone", 1 if host == "node3" else "gone")}.items():
            g(target, "roce_device_info", *there, device=device, driver="mlx5_core", pci_address="0000:3b:00.0", firmware=firmware, hca_type="MT4125", hw_rev="0",
              node_type="RNIC", protocol="roce", board_id="MT_0000000359", node_guid="", sys_image_guid="", node_desc="")
        g(target, "roce_pcie_device_lost", 0, device=device)
        g(target, "roce_pcie_path_bandwidth_bytes_per_second", 31.5e9, half, device=device)
        g(target, "roce_pcie_path_expected_bandwidth_bytes_per_second", 31.5e9, device=device)
        g(target, "roce_pcie_link_lanes", 16, bad(8) if device == "mlx5_0" else None, device=device, pci_address="0000:3b:00.0", upstream_address="0000:3a:00.0")
        g(target, "roce_pcie_link_expected_lanes", 16, device=device, pci_address="0000:3b:00.0", upstream_address="0000:3a:00.0")
        for severity in ("correctable", "nonfatal", "fatal"):
            c(target, "roce_pcie_aer_errors_total", 0, bad(0.4) if severity == "correctable" and device == "mlx5_0" else None, device=device, pci_address="0000:3b:00.0", severity=severity)
        g(target, "roce_temperature_celsius", 52, bad(107) if device == "mlx5_0" else None, device=device, sensor="mlx5", label="asic")
        g(target, "roce_temperature_limit_celsius", 105, device=device, sensor="mlx5", label="asic", limit="max")
        for reporter in ("fw", "tx"):
            g(target, "roce_devlink_health_state", 0, bad(1) if reporter == "fw" and device == "mlx5_0" else None, device=device, reporter=reporter)
        for resource, used, most in (("qp", 612, 131072), ("cq", 410, 65536), ("mr", 2300, 16777216)):
            g(target, "roce_rdma_resources", used, bad(118000) if resource == "qp" and device == "mlx5_0" else None, device=device, resource=resource)
            g(target, "roce_rdma_resource_limit", most, device=device, resource=resource)
        for state in ("ERR", "SQE"):
            g(target, "roce_owner_qps", 0, bad(7) if state == "ERR" and device == "mlx5_0" else None, device=device, owner="ceph-osd", pid="4711", state=state)
    g(target, "roce_bond_members", 2, device="mlx5_bond_0", port="1", netdev="bond0")
    g(target, "roce_bond_active_members", 2, bad(1), device="mlx5_bond_0", port="1", netdev="bond0")
    g(target, "roce_process_pinned_bytes", 3.1e9, bad(62e9), pid="4711", comm="ceph-osd")
    g(target, "roce_process_memlock_limit_bytes", 64e9, limit="soft", pid="4711", comm="ceph-osd")
    g(target, "roce_hugepages_allocated", 1024, size="2MiB")
    g(target, "roce_hugepages_free", 700, bad(0), size="2MiB")
    g(target, "roce_hugepages_reserved", 0, size="2MiB")
    for numa in ("0", "1"):
        g(target, "roce_numa_hugepages_allocated", 512, node=numa, size="2MiB")
        g(target, "roce_numa_hugepages_free", 350, bad(0), node=numa, size="2MiB")
    g(target, "roce_cpu_busiest_interrupt_ratio", 0.21, bad(0.95))
    for severity in ("critical", "warning"):
        g(target, "roce_health_findings", 0, (2 if severity == "critical" else 5) if sick else (1 if host == "node2" and severity == "critical" else None), **{"class": "fault"}, severity=severity)
    for check, thing, value in (("rate", "mlx5_0/1", 12.5e9), ("pcie-lanes", "mlx5_0", 16), ("mtu", "ens1", 9000)):
        g(target, "roce_expectation_met", 1, bad(0) if check == "pcie-lanes" else None, check=check, object=thing)
        g(target, "roce_expected_value", value, check=check, object=thing)
    # The exporter itself
    for collector in ("rdma_port", "port_counters", "hw_counters", "ethtool", "pcie", "nvme"):
        hit = collector == "hw_counters"
        g(target, "roce_collector_success", 1, bad(0) if hit else None, collector=collector, device="mlx5_0")
        g(target, "roce_collector_duration_seconds", 0.012 if collector == "ethtool" else 0.002, bad(2.0) if hit else None, collector=collector, device="mlx5_0")
    g(target, "roce_collector_failure", "gone", bad(1) or "gone", collector="hw_counters", device="mlx5_0", reason="timeout")
    g(target, "roce_kernel_call_in_flight_seconds", "gone", bad(31) or "gone", call="rdma_statistic", device="mlx5_0")
    for collector in ("rdma_gid", "qp", "pcie"):
        g(target, "roce_source_age_seconds", 31, collector=collector, device="")
    c(target, "roce_exporter_scrape_budget_exceeded_total", 0, bad(1 / 60))
    c(target, "roce_exporter_scrapes_rejected_total", 0, bad(0.02))
    c(target, "roce_series_dropped_total", 0, bad(2), collector="cm_messages")
    c(target, "roce_evidence_series_dropped_total", 0, bad(1))
    g(target, "roce_config_last_reload_successful", 1, bad(0))
    g(target, "roce_web_certificate_not_after_timestamp_seconds", END + 86400 * 90, END + 86400 * 3 if sick else None)
    g(target, "roce_exporter_build_info", 1, version="1.0.0", revision="abc1234", compiler="gcc 12.2")
    g(target, "process_resident_memory_bytes", 24e6)
    c(target, "process_cpu_seconds_total", 0.004)
    g(target, "process_start_time_seconds", END - 86400, END - 300 if host == "node3" else None)
    g(target, "scrape_duration_seconds", 0.06, bad(2.1))
    g(target, "scrape_samples_scraped", 640)


def storage_series(f, target, host):
    """Each host has two controllers to node2's target and two to node3's; node2's first port carries the first."""
    g, c = f.gauge, f.count
    known = ("new", "live", "resetting", "connecting", "deleting", "dead", "unknown")
    for i, (server, device) in enumerate((("node2", "mlx5_0"), ("node2", "mlx5_1"), ("node3", "mlx5_0"), ("node3", "mlx5_1"))):
        if server == host:
            continue
        lost = server == "node2" and i == 0 or server == "node2" and host == "node1"
        name, subsystem = f"nvme{i}", f"subsys{i // 2}"
        states(f, target, "roce_nvme_controller_state", known, "live", "connecting" if lost else None, controller=name, subsystem=subsystem, transport="rdma")
        g(target, "roce_nvme_controller_info", 1, controller=name, subsystem=subsystem, transport="rdma", type="io", traddr=f"192.0.2.{20 + HOSTS.index(server)}", trsvcid="4420", host_traddr="", host_iface="", src_addr="",
          pci_address="", nqn="", hostnqn="", model="", firmware="")
        g(target, "roce_nvme_controller_link_info", 1, controller=name, device=device, port="1", netdev="ens1" if device == "mlx5_0" else "ens2", found_by="route")
        g(target, "roce_nvme_controller_io_queues", 8, controller=name, subsystem=subsystem)
        g(target, "roce_nvme_controller_queue_depth", 128, controller=name, subsystem=subsystem)
        g(target, "roce_nvme_controller_loss_timeout_remaining_seconds", "gone", 140.0 if lost else "gone", controller=name, subsystem=subsystem)
        c(target, "roce_nvme_controller_reconnects_total", 0, 0.01 if lost else None, controller=name, subsystem=subsystem)
        for operation, rate in (("read", 5200), ("write", 1900)):
            c(target, "roce_nvme_path_operations_total", rate, 0 if lost else None, controller=name, namespace="1", operation=operation)
            c(target, "roce_nvme_path_bytes_total", rate * 16384, 0 if lost else None, controller=name, namespace="1", operation=operation)
            c(target, "roce_nvme_path_seconds_total", rate * 0.00018, 0 if lost else rate * 0.0021, controller=name, namespace="1", operation=operation)
        g(target, "roce_nvme_path_in_flight", 3, 64 if lost else None, controller=name, namespace="1")
        c(target, "roce_nvme_path_failovers_total", 0, 0.1 if lost else None, controller=name, namespace="1")
        c(target, "roce_nvme_path_command_errors_total", 0, 0.1 if lost else None, controller=name, namespace="1")
    for i, server in enumerate(("node2", "node3")):
        if server == host:
            continue
        left = (0 if host == "node1" else 1) if server == "node2" else None
        g(target, "roce_nvme_subsystem_paths", 2, subsystem=f"subsys{i}")
        g(target, "roce_nvme_subsystem_paths_live", 2, left, subsystem=f"subsys{i}")
        g(target, "roce_nvme_namespace_paths", 2, subsystem=f"subsys{i}", namespace="1")
        g(target, "roce_nvme_namespace_paths_usable", 2, left, subsystem=f"subsys{i}", namespace="1")
    if host in ("node2", "node3"):
        g(target, "roce_nvmet_port_info", 1, target_port="1", transport="rdma", address_family="ipv4", traddr=f"192.0.2.{20 + HOSTS.index(host)}", trsvcid="4420")
        g(target, "roce_nvmet_port_subsystems", 1, target_port="1", transport="rdma")
        g(target, "roce_nvmet_port_namespaces", 4, target_port="1", transport="rdma")
    if host != "node1":
        return
    for operation, rate in (("READ", 320), ("WRITE", 90)):
        c(target, "roce_nfs_operation_requests_total", rate, mount="/data", operation=operation)
        c(target, "roce_nfs_operation_transmissions_total", rate, rate * 1.04, mount="/data", operation=operation)
        c(target, "roce_nfs_operation_round_trip_seconds_total", rate * 0.0006, rate * 0.006, mount="/data", operation=operation)
    for reason in ("bad_reply", "failed"):
        c(target, "roce_nfs_transport_errors_total", 0, 0.1 if reason == "failed" else None, mount="/data", reason=reason)
    c(target, "roce_nfs_transport_connects_total", 0, 0.02, mount="/data")
    states(f, target, "roce_iser_session_state", ("logged_in", "failed", "free", "unknown"), "logged_in", "failed", session="session1")
    g(target, "roce_iser_session_link_info", 1, session="session1", device="mlx5_0", port="1", netdev="ens1", found_by="route")
    for reason in ("sparse_read", "page_cache_write"):
        c(target, "roce_gds_fallbacks_total", 0, 3 if reason == "page_cache_write" else None, reason=reason)
    c(target, "roce_gds_errors_total", 0, 0.2, reason="read")


PEER_STATES = ("ok", "degraded", "lossy", "down", "unknown")
FAST = {2: 0.02, 3: 0.90, 4: 0.985, 5: 0.998, 6: 0.9995, 7: 1.0}
SLOW = {3: 0.05, 4: 0.3, 5: 0.6, 6: 0.85, 7: 0.93, 8: 0.98, 9: 1.0}


def probe_series(f, target, host):
    g, c = f.gauge, f.count
    ib = {"device": "mlx5_0", "port": "1"}
    own = {"node2": "down", "node1": None, "node3": None, "node4": None}[host]
    for peer in HOSTS:
        if peer == host:
            continue
        cut = "down" if "node2" in (peer, host) else None
        lossy = {frozenset(("node1", "node3")): "lossy", frozenset(("node1", "node4")): "degraded"}.get(frozenset((host, peer)))
        now = (cut if peer == "node2" else "unknown" if own else None) or lossy
        states(f, target, "roce_probe_peer_state", PEER_STATES, "ok", now, peer=peer, **ib)
        c(target, "roce_probe_sent_total", 4, peer=peer, qos="storage", **ib)
        for reason in ("timeout", "send_error", "no_endpoint"):
            lost = {"timeout": (None if own else 4) if cut else 0.3 if lossy == "lossy" else None, "send_error": 4 if own else None}.get(reason)
            c(target, "roce_probe_failures_total", 0, lost, peer=peer, qos="storage", reason=reason, **ib)
        f.histogram(target, "roce_probe_rtt_seconds", 4, FAST, {} if cut else SLOW if lossy else None, peer=peer, qos="storage", **ib)
        f.histogram(target, "roce_probe_network_rtt_seconds", 4, {2: 0.4, 3: 0.99, 4: 1.0}, {} if cut else SLOW if lossy else None, peer=peer, qos="storage", **ib)
        f.histogram(target, "roce_probe_read_rtt_seconds", 0.2, {1: 0.2, 2: 0.97, 3: 1.0}, {} if cut else SLOW if lossy else None, peer=peer, **ib)
        f.histogram(target, "roce_probe_connect_duration_seconds", 0.02, {5: 0.1, 6: 0.4, 8: 1.0}, {} if cut else None, peer=peer, **ib)
        g(target, "roce_probe_baseline_rtt_seconds", 3.1e-5, peer=peer, qos="storage", **ib)
        g(target, "roce_probe_hops", 1, 2 if lossy else None, peer=peer, **ib)
        for direction in ("forward", "back"):
            c(target, "roce_probe_ecn_capable_total", 4, peer=peer, qos="storage", direction=direction, **ib)
            c(target, "roce_probe_ecn_marked_total", 0.01, 0.6 if lossy and direction == "forward" else None, peer=peer, qos="storage", direction=direction, **ib)
        for detector in ("shift", "tail", "loss"):
            raised = lossy == "lossy" and detector == "loss" or lossy == "degraded" and detector == "shift"
            g(target, "roce_probe_anomaly", 0, 1 if raised else None, peer=peer, qos="storage", detector=detector, **ib)
    f.histogram(target, "roce_probe_loopback_rtt_seconds", 1, {0: 0.3, 1: 0.99, 2: 1.0}, **ib)
    f.histogram(target, "roce_prober_scheduler_lag_seconds", 12, {2: 0.5, 4: 0.99, 5: 1.0}, {4: 0.1, 7: 0.5, 8: 0.8, 9: 1.0} if host == "node1" else None, **ib)
    for reason in ("mac", "replay", "rate", "unknown_peer", "malformed"):
        c(target, "roce_prober_responder_rejected_total", 0, 3.5 if host == "node1" and reason == "mac" else None, reason=reason, **ib)
    g(target, "roce_prober_key_not_after_timestamp_seconds", END + 86400 * 40, END + 86400 * 2 if host == "node1" else None, key="2026a")
    g(target, "roce_prober_build_info", 1, version="1.0.0", revision="abc1234", compiler="gcc 12.2")
    g(target, "process_resident_memory_bytes", 15e6)
    g(target, "process_start_time_seconds", END - 86400, END - 300 if host == "node3" else None)
    c(target, "process_cpu_seconds_total", 0.009)


def fleet():
    f = Fleet()
    for host in HOSTS:
        target = {"job": "roce", "instance": f"{host}:14791", "host": host}
        host_series(f, target, host)
        storage_series(f, target, host)
        prober = {"job": "roce_prober", "instance": f"{host}:14792", "host": host}
        probe_series(f, prober, host)
        if host == "node4":  # its exporter is gone
            for key, (kind, healthy, _) in list(f.series.items()):
                if dict(key[1])["instance"] == target["instance"]:
                    f.series[key] = (kind, healthy, "gone")
        f.gauge(target, "up", 1, 0 if host == "node4" else None)
        f.gauge(prober, "up", 1)
        reader = {"job": "roce_storage_probe", "instance": f"{host}:14793", "host": host}
        f.histogram(reader, "roce_storage_probe_read_duration_seconds", 1, {5: 0.2, 6: 0.97, 7: 0.998, 8: 1.0}, {"node1": {}, "node2": {7: 0.3, 8: 0.9, 9: 1.0}}.get(host), namespace="nvme2n1")
        f.gauge(reader, "roce_storage_probe_in_flight_seconds", 0, 47 if host == "node1" else None, namespace="nvme2n1")
        for reason in ("absent", "denied", "io", "other"):
            f.count(reader, "roce_storage_probe_failures_total", 0, 0.1 if host == "node2" and reason == "io" else None, namespace="nvme2n1", reason=reason)
        f.gauge(reader, "roce_storage_probe_namespace_info", 1, namespace="nvme2n1", block_device="nvme2n1", subsystem="nqn.2024-01.org.example:a")
        f.gauge(reader, "roce_storage_probe_build_info", 1, version="1.0.0", revision="abc1234", compiler="gcc 12.2")
        f.gauge(reader, "up", 1)
    return f


def check_catalog():
    """The samples are such as both programs make: names and labels are those of their catalogs."""
    known, bad = alert_lint.catalog(), set()
    for name, labels in fleet().series:
        if name in alert_lint.FOREIGN or name in ("scrape_samples_scraped", "process_cpu_seconds_total"):
            continue
        own = {k for k, _ in labels} - alert_lint.TARGET
        if own != known.get(name):
            bad.add(f"{name}: {sorted(own)}, not {sorted(known.get(name, []))}")
    expect(not bad, "\n".join(sorted(bad)))
    return f"{len(fleet().series)} series"


# Samples -----------------------------------------------------------------------------------------------------------------

def moments(long):
    return ([*range(END - LONG, BEGIN, 60)] if long else []) + [*range(BEGIN, END + 1, STEP)]


def value_text(v):
    return str(int(v)) if abs(v) < 1e15 and v == int(v) else repr(round(v, 9))


def samples(name, labels, spec, broken, times):
    """[(time, text of the value)]; counters and gauges move a little, the same in each run."""
    kind, healthy, bad = spec
    phase = zlib.crc32(f"{name}{labels}".encode()) % 628 / 100
    out, total, last = [], 1000.0, times[0]
    for t in times:
        now = bad if broken and bad is not None and t > END - BREAK else healthy
        if now == "gone":
            last = t
            continue
        wobble = 1 + 0.06 * math.sin(t / 700 + phase) + 0.03 * math.sin(t / 97 + 2 * phase)
        if kind == "c":
            total += now * (wobble if not name.startswith(STEADY) else 1) * (t - last)
            out.append((t, value_text(round(total, 6))))
        else:
            out.append((t, value_text(now)))
        last = t
    return out


def lines_of(name, labels, points):
    inner = ",".join(f"{k}={json.dumps(v)}" for k, v in labels)
    head = f"{name}{{{inner}}} "
    return [f"{head}{value} {t}\n" for t, value in points]


def write(path, families):
    """OpenMetrics; families {name: [lines]}. Types do not matter to Prometheus here, so that all are unknown."""
    with open(path, "w", encoding="utf-8") as f:
        for name, lines in families.items():
            f.write(f"# TYPE {name} unknown\n")
            f.writelines(lines)
        f.write("# EOF\n")


def backfill(folder, families):
    """Blocks of {name: [lines]}."""
    path = os.path.join(folder, "samples.txt")
    write(path, families)
    command("promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", path, os.path.join(folder, "data"))
    os.unlink(path)


class Server(e2e.Prometheus):
    """A Prometheus with what is in a folder, or with what its configuration scrapes."""

    def __init__(self, folder=None, config=None):
        super().__init__([], flags=("--storage.tsdb.retention.time=100y", "--query.max-samples=200000000"), data=folder and f"{folder}/data",
                         config=config or {"global": {"scrape_interval": "15s"}})

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path, **params):
        data = urllib.parse.urlencode(params).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{self.url}/api/v1/{path}", data=data), timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            raise Failed(f"{path} {params}: {e.read().decode()[:300]}") from e

    def now(self, expr, at=END):
        return self.ask("query", query=expr, time=at)["result"]

    def range(self, expr, begin, end, step):
        return self.ask("query_range", query=expr, start=begin, end=end, step=step)["result"]


# Rules -------------------------------------------------------------------------------------------------------------------


def spelled_out(expr, records):
    """The expression with what stands behind recorded series in their place; None where it cannot be said so."""
    while m := next((m for m in re.finditer(r"[a-zA-Z_]\w*:[\w:]+", expr) if m.group(0) in records), None):
        rest, inner = expr[m.end():], f"({records[m.group(0)]})"
        if rest.startswith("{"):  # a matcher of a recorded series: of the one that it is made of
            matchers, rest = rest[1:].split("}", 1)
            if inner.count("{") != 1:
                return None
            inner = inner.replace("{", "{" + matchers + ",")
        window = re.match(r"\[(\w+)(:\w*)?\]", rest)
        if window:
            inner, rest = f"{inner}[{window.group(1)}{window.group(2) or ':15s'}]", rest[window.end():]
        expr = expr[:m.start()] + inner + rest
    return expr


def seconds(text):
    return alerts.seconds(text) if text != "0s" else 0


def rule_series(server, times):
    """What the rules make of the samples: {name: lines} of recorded series and of ALERTS."""
    every = alerts.rules()
    # These go on from themselves.
    own = [(r"last_over_time\(instance_device_port:roce_port_last_active:timestamp\[30m\]\)", "last_over_time(timestamp(roce_port_state{job=\"roce\"} >= 4)[30m:15s])"),
           (r"last_over_time\(instance_namespace:roce_storage_probe:place\[5m\]\)", "instance_namespace:roce_storage_probe:subsystem")]
    records = {r["record"]: functools.reduce(lambda expr, to: re.sub(*to, expr), own, r["expr"]) for _, _, r in every if "record" in r}
    bad = [name for name, expr in records.items() if name in re.findall(r"[a-zA-Z_]\w*:[\w:]+", expr)]
    expect(not bad, f"recorded series that go on from themselves and cannot be spelled out: {bad}")
    begin, end = times[0], times[-1]
    families, refused = {}, []

    def recorded(name):
        expr = spelled_out(records[name], records)
        if expr is None:
            return None
        return server.range(expr, begin, end, STEP)

    def firing(rule):
        expr = spelled_out(rule["expr"], records)
        if expr is None:
            return None
        hold = seconds(rule["for"])
        out = []
        for series in server.range(expr, begin, end, STEP):
            since, last = None, None
            points = []
            for t, _ in series["values"]:
                since = t if last is None or t - last > STEP else since
                last = t
                if t - since >= hold:
                    points.append((int(t), "1"))
            if points:
                labels = {k: v for k, v in series["metric"].items() if k != "__name__"}
                own = {k: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m: labels.get(m.group(1), ""), v) for k, v in rule["labels"].items()}  # noqa: B023: used at once
                labels.update({k: v for k, v in own.items() if "{{" not in v}, alertname=rule["alert"], alertstate="firing")
                out.append((labels, points))
        return out
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        names = [n for n in records if n != "instance_controller_namespace_operation:roce_nvme_path_latency_seconds:mean2m"]
        for name, found in zip(names, pool.map(recorded, names)):
            if found is None:
                refused.append(name)
                continue
            families[name] = [line for s in found for line in
                              lines_of(name, sorted((k, v) for k, v in s["metric"].items() if k != "__name__"), [(int(t), v) for t, v in s["values"]])]
        rules = [r for _, _, r in every if "alert" in r]
        lines = []
        for rule, found in zip(rules, pool.map(firing, rules)):
            if found is None:
                refused.append(rule["alert"])
                continue
            for labels, points in found:
                lines += lines_of("ALERTS", sorted(labels.items()), points)
        families["ALERTS"] = lines
    expect(len(refused) <= 8, f"rules that cannot be spelled out: {refused}")
    return {n: l for n, l in families.items() if l}


def make(folder, broken, long=False, ruled=True):
    """Fills a folder with the samples of the fleet and, if `ruled`, with what the rules make of them."""
    times = moments(long)
    blocks = {}  # promtool reads its file once for each block of two hours: a file each is quicker
    for (name, labels), spec in sorted(fleet().series.items()):
        for point, line in zip(points := samples(name, labels, spec, broken, times), lines_of(name, labels, points)):
            blocks.setdefault(point[0] // 7200, {}).setdefault(name, []).append(line)
    for families in blocks.values():
        backfill(folder, families)
    if not ruled:
        return folder
    with Server(folder) as server:
        made = rule_series(server, [t for t in times if t >= END - 3600])
    backfill(folder, made)
    return folder


def folder_of(broken, long=False, ruled=True):
    """A folder with that fleet, made once for these rules and this file."""
    digest = hashlib.sha256()
    for path in [__file__, *sorted(glob.glob(os.path.join(alerts.ALERTS, "rules", "*.yml")))]:
        with open(path, "rb") as f:
            digest.update(f.read())
    place = os.path.join(WORK, f"{'broken' if broken else 'healthy'}{'-long' if long else ''}{'' if ruled else '-without-rules'}")
    stamp = os.path.join(place, "made-of")
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == digest.hexdigest():
        return place
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    make(place, broken, long, ruled)
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(digest.hexdigest())
    return place

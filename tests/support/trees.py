# SPDX-License-Identifier: Apache-2.0
"""Made trees of any size: a sysfs as a host full of RDMA functions shows it."""
import os
import sys

COUNTERS = """VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery local_link_integrity_errors
multicast_rcv_packets multicast_xmit_packets port_rcv_constraint_errors port_rcv_data port_rcv_errors port_rcv_packets
port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors port_xmit_data port_xmit_discards
port_xmit_packets port_xmit_wait symbol_error unicast_rcv_packets unicast_xmit_packets""".split()
TWINS = """port_multicast_rcv_packets port_multicast_xmit_packets port_rcv_data_64 port_rcv_packets_64
port_unicast_rcv_packets port_unicast_xmit_packets port_xmit_data_64 port_xmit_packets_64""".split()
HW_COUNTERS = """duplicate_request implied_nak_seq_err local_ack_timeout_err np_cnp_sent np_ecn_marked_roce_packets
out_of_buffer out_of_sequence packet_seq_err req_cqe_error req_cqe_flush_error req_remote_access_errors
req_remote_invalid_request resp_cqe_error resp_cqe_flush_error resp_local_length_error resp_remote_access_errors
rnr_nak_retry_err roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps roce_slow_restart_trans
rp_cnp_handled rp_cnp_ignored rx_atomic_requests rx_dct_connect rx_icrc_encapsulated rx_read_requests
rx_write_requests""".split()
# Fields narrower than 8 bits hold small values only.
NARROW = {"excessive_buffer_overrun_errors": 15, "local_link_integrity_errors": 15, "link_downed": 255,
          "link_error_recovery": 255, "port_rcv_constraint_errors": 255, "port_xmit_constraint_errors": 255}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text + "\n")


def value(device, port, index, name):
    v = (device + 1) * 1_000_003 + port * 10_007 + index * 101
    top = NARROW.get(name)
    if top:
        return v % top
    if name.startswith(("port_rcv_errors", "port_rcv_remote", "port_rcv_switch", "port_xmit_discards", "symbol_error", "VL15")):
        return v % 60_000
    return v


def make(root, devices, ports=1, twins=False):
    """A tree of `devices` mlx5 functions below `root` (its sys and proc)."""
    driver = os.path.join(root, "sys", "bus", "pci", "drivers", "mlx5_core")
    classes = os.path.join(root, "sys", "class", "infiniband")
    nets = os.path.join(root, "sys", "class", "net")
    for d in (driver, classes, nets, os.path.join(root, "proc")):
        os.makedirs(d, exist_ok=True)
    for d in range(devices):
        pci = f"0000:{d // 32 + 1:02x}:{d % 32:02x}.0"
        function = os.path.join(root, "sys", "devices", f"pci0000:{d // 32 + 1:02x}", pci)
        name = f"mlx5_{d}"
        device = os.path.join(function, "infiniband", name)
        write(os.path.join(function, "vendor"), "0x15b3")
        write(os.path.join(function, "device"), "0x1021")
        write(os.path.join(function, "numa_node"), str(d % 2))
        os.symlink(os.path.relpath(driver, function), os.path.join(function, "driver"))
        os.symlink("../..", make_parent(os.path.join(device, "device")))
        os.symlink(os.path.relpath(device, classes), os.path.join(classes, name))
        net = os.path.join(function, "net", f"eth{d}")
        for n, v in (("carrier_changes", "2"), ("carrier_up_count", "1"), ("carrier_down_count", "1"), ("ifindex", str(d + 10)), ("dev_port", "0"), ("dev_id", "0x0")):
            write(os.path.join(net, n), v)
        os.symlink("../..", os.path.join(net, "device"))
        os.symlink(os.path.relpath(net, nets), os.path.join(nets, f"eth{d}"))
        for n, v in (("board_id", "MT_0000000838"), ("fw_ver", "28.40.1000"), ("hca_type", "MT4129"), ("hw_rev", "0"), ("node_type", "1: CA"),
                     ("node_desc", f"host {name}"), ("node_guid", f"0200:00ff:fe{d // 256:02x}:{d % 256:04x}"), ("sys_image_guid", f"0200:00ff:fe{d // 256:02x}:{d % 256:04x}")):
            write(os.path.join(device, n), v)
        for p in range(1, ports + 1):
            port = os.path.join(device, "ports", str(p))
            for n, v in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", "Ethernet")):
                write(os.path.join(port, n), v)
            for i, n in enumerate(COUNTERS):
                write(os.path.join(port, "counters", n), str(value(d, p, i, n)))
            for i, n in enumerate(HW_COUNTERS):
                write(os.path.join(port, "hw_counters", n), str(value(d, p, 100 + i, n)))
            write(os.path.join(port, "hw_counters", "lifespan"), "10")
            if twins:
                for i, n in enumerate(TWINS):
                    write(os.path.join(port, "counters_ext", n), str(value(d, p, 200 + i, n) + 5_000_000_000))
            for g in range(16):
                gid = f"0000:0000:0000:0000:0000:ffff:c000:02{d % 256:02x}" if g == 3 else "0000:0000:0000:0000:0000:0000:0000:0000"
                write(os.path.join(port, "gids", str(g)), gid)
                if g == 3:
                    write(os.path.join(port, "gid_attrs", "types", str(g)), "RoCE v2")
                    write(os.path.join(port, "gid_attrs", "ndevs", str(g)), f"eth{d}")


def make_parent(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)

# SPDX-License-Identifier: Apache-2.0
"""Sources beside RDMA counters on real kernels: each is changed with the stock tool, and the page is compared with it."""
import json
import re
import statistics
import time

import core
from core import SOFT, fresh, inside, rnic, scrape, until, value
from fault_map import restart
from harness import Row, expect
from page import Page, Pattern

DEVICE, SIBLING = "mlx5_0", "mlx5_1"


def netdev_of(device):
    return next(s.labels["netdev"] for s in scrape(1).series if s.name == "roce_port_info" and s.labels["device"] == device)


def ethtool_statistics(netdev):
    text = inside(1, f"ethtool -S {netdev}")
    return {m.group(1): int(m.group(2)) for m in re.finditer(r"^\s*(.+?): (\d+)$", text, re.M)}


def ethtool_places():
    """Statistic -> (family, labels, scale); a pattern of the catalog stands for each of its digits."""
    core.places()
    out = {}
    for (driver, name), (family, labels, scale) in core._reference.items():
        if driver != "mlx5-ethtool":
            continue
        m = re.search(r"\[(\d)-(\d)\]", name)
        for digit in range(int(m.group(1)), int(m.group(2)) + 1) if m else [None]:
            fixed = {k: v if digit is None else re.sub(r"\[\d-\d\]", str(digit), v) for k, v in core.fixed_labels(labels).items()}
            out[name if digit is None else name.replace(m.group(0), str(digit))] = (family, fixed, scale)
    return out


def shown(page, netdev, counter, place):
    family, labels, scale = place
    wanted = {"netdev": netdev, **core.fixed_labels(labels)}
    if family in ("roce_netdev_driver_counter_total", "roce_netdev_driver_level"):
        wanted["counter"] = counter
    return [float(s.value) / scale for s in page.series if s.name == family and all(s.labels.get(k) == v for k, v in wanted.items())]


def statistics_of_ethtool():
    """Each statistic that the catalog maps, set to a value of its own, is read from the page, on this device alone."""
    netdev, places = netdev_of(DEVICE), ethtool_places()
    names = [n for n in ethtool_statistics(netdev) if n in places]
    expect(len(names) >= 60, f"the catalog maps only {len(names)} of the statistics")
    sibling = netdev_of(SIBLING)
    before = {n: shown(scrape(1), sibling, n, places[n]) for n in names}
    # Ratios of PCIe stall are percentages.
    wanted = {n: 10 + i % 80 if re.fullmatch(r"outbound_pci_stalled_(rd|wr)", n) else 2_000_000 + 1_013 * i for i, n in enumerate(names)}
    core.set_counters(DEVICE, {f"ethtool:{n}": v for n, v in wanted.items()})
    page = fresh(1)
    now = ethtool_statistics(netdev)
    wrong, absent = [], []
    # Two spellings of one quantity share a series: it holds one of them.
    for n in names:
        found = shown(page, netdev, n, places[n])
        if not found:
            absent.append(n)
        elif not any(abs(v - now[m]) <= max(1e-6 * now[m], 1e-9) for v in found for m in names if places[m] == places[n]):
            wrong.append(f"{n}: ethtool {now[n]}, page {found}")
    expect(not wrong, lambda: "\n".join(wrong[:20]))
    expect(len(names) - len(absent) >= 50, f"only {len(names) - len(absent)} of {len(names)} are on the page; not there: {absent[:40]}")
    core.set_counters(DEVICE, {f"ethtool:{n}": 0 for n in names if n.startswith("outbound_pci_stalled")})
    after = {n: shown(page, sibling, n, places[n]) for n in names}
    moved = [n for n in names if before[n] and after[n] != before[n] and after[n] == [wanted[n]]]
    expect(not moved, f"values went to {sibling}: {moved[:5]}")
    return f"{len(names) - len(absent)} of {len(names)} statistics equal"


def pause_and_fec():
    netdev = netdev_of(DEVICE)
    seen = []
    inside(1, f"dcb pfc set dev {netdev} prio-pfc all:off")  # the driver takes one or the other
    for rx, tx in (("off", "on"), ("on", "off"), ("off", "off")):
        inside(1, f"ethtool -A {netdev} rx {rx} tx {tx}")
        page = fresh(1)
        for direction, word in (("receive", rx), ("transmit", tx)):
            found = value(page, f'roce_netdev_pause_enabled{{netdev="{netdev}",direction="{direction}"}}')
            expect(found == (word == "on"), f"ethtool -A rx {rx} tx {tx}: {direction} is {found}")
    inside(1, f"dcb pfc set dev {netdev} prio-pfc 3:on")
    for encoding, mode in (("rs", "rs"), ("off", "none")):
        inside(1, f"ethtool --set-fec {netdev} encoding {encoding}")
        page = fresh(1)
        modes = [s.labels["mode"] for s in page.series if s.name == "roce_netdev_fec_mode" and s.labels["netdev"] == netdev]
        expect(modes == [mode], f"--set-fec {encoding}: page says {modes}")
        seen += modes
    inside(1, f"ethtool --set-fec {netdev} encoding rs; rnicctl set {DEVICE} fec:uncorrectable_blocks 77 || rnicctl set {DEVICE} uncorrectable_blocks 77")
    blocks = value(fresh(1), f'roce_fec_blocks_total{{netdev="{netdev}",result="uncorrectable"}}')
    said = int(re.search(r"uncorrectable_blocks:? (\d+)", inside(1, f"ethtool -I --show-fec {netdev}")).group(1))
    expect(blocks == said == 77, f"uncorrectable blocks: page {blocks}, ethtool {said}")
    return f"FEC modes {seen}"


def link_down_reason():
    netdev = netdev_of(DEVICE)
    inside(1, f"rnicctl link {DEVICE} down 4")
    try:
        page = until("the link is down", lambda: (lambda p: p if value(p, f'roce_netdev_link_detected{{netdev="{netdev}"}}') == 0 else None)(fresh(1)))
        reasons = page.find(Pattern(f'roce_netdev_link_down_reason{{netdev="{netdev}"}}'))
        expect(len(reasons) == 1, f"{[str(r) for r in reasons]}")
        said = inside(1, f"ethtool {netdev} | grep 'Link detected'").strip()
        expect("cable" in said.lower() and "cable" in reasons[0].labels["reason"], f"ethtool: {said}; page: {reasons[0]}")
    finally:
        inside(1, f"rnicctl link {DEVICE} up")
    until("the link is up", lambda: value(fresh(1), f'roce_netdev_link_detected{{netdev="{netdev}"}}') == 1
          and not scrape(1).find(Pattern(f'roce_netdev_link_down_reason{{netdev="{netdev}"}}')))
    return said


def data_centre_bridging():
    netdev = netdev_of(DEVICE)
    # As on a real card: pause statistics of the priorities in use alone, so that the port stays below its limit of series.
    inside(1, f"rnicctl names {DEVICE} real; dcb pfc set dev {netdev} prio-pfc all:off 3:on 5:on; dcb app add dev {netdev} dscp-prio 26:3; dcb ets set dev {netdev} prio-tc 3:3")
    try:
        restart(1)
        page = fresh(1)
        said = json.loads(inside(1, f"dcb -j pfc show dev {netdev}"))
        pfc = {str(p): int(v) for p, v in enumerate(said["prio_pfc"])}
        for priority, on in pfc.items():
            found = value(page, f'roce_pfc_enabled{{netdev="{netdev}",priority="{priority}"}}')
            expect(found == on, f"priority {priority}: dcb {on}, page {found}")
        expect(sum(pfc.values()) == 2, f"dcb did not take the setting: {pfc}")
        expect(value(page, f'roce_dscp_priority{{netdev="{netdev}",dscp="26"}}') == 3, "DSCP 26")
        expect(value(page, f'roce_ets_traffic_class{{netdev="{netdev}",priority="3"}}') == 3, "traffic class of priority 3")
    finally:
        inside(1, f"dcb app del dev {netdev} dscp-prio 26:3; dcb pfc set dev {netdev} prio-pfc all:off 3:on; dcb ets set dev {netdev} prio-tc all:0; rnicctl names {DEVICE} all", check=False)
    restart(1)
    expect(value(fresh(1), f'roce_pfc_enabled{{netdev="{netdev}",priority="5"}}') == 0, "priority 5 after the reset")
    return f"PFC {pfc}"


def mtu():
    before = value(fresh(1), f'roce_path_mtu_bytes{{device="{SOFT}"}}')
    netdev = netdev_of(SOFT)
    keep = int(inside(1, f"cat /sys/class/net/{netdev}/mtu"))
    inside(1, f"ip link set {netdev} mtu 1500")
    try:
        page = fresh(1)
        expect(value(page, f'roce_netdev_mtu_bytes{{netdev="{netdev}"}}') == 1500, "netdev MTU")
        expect(value(page, f'roce_path_mtu_bytes{{device="{SOFT}"}}') == 1024, "the RoCE MTU that fits 1500")
    finally:
        inside(1, f"ip link set {netdev} mtu {keep}")
    expect(value(fresh(1), f'roce_path_mtu_bytes{{device="{SOFT}"}}') == before == 4096, "MTU after the reset")


def pcie():
    files = f"/sys/class/infiniband/{DEVICE}/device"
    inside(1, f"rnicctl pcie {DEVICE} width 4")
    try:
        restart(1)
        page = fresh(1)
        shown_lanes = page.find(Pattern(f'roce_pcie_link_lanes{{device="{DEVICE}"}}'))
        expect(any(int(s.value) == 4 for s in shown_lanes), f"{[str(s) for s in shown_lanes]}")
        expect(all(int(s.value) != 4 for s in page.find(Pattern(f'roce_pcie_link_lanes{{device="{SIBLING}"}}'))), "the sibling's width")
        address = inside(1, f"basename $(readlink {files})").strip()
        said = re.search(r"LnkSta:.*Width x(\d+)", inside(1, f"lspci -vv -s {address}"))
        expect(said and said.group(1) == "4", f"lspci: {said and said.group(0)}")
        narrow = value(page, f'roce_pcie_path_bandwidth_bytes_per_second{{device="{DEVICE}"}}')
        expected = value(page, f'roce_pcie_path_expected_bandwidth_bytes_per_second{{device="{DEVICE}"}}')
        expect(narrow < expected, f"bandwidth {narrow}, expected {expected}")
    finally:
        inside(1, f"rnicctl pcie {DEVICE} width 16")
    return said.group(0)


def huge_pages():
    inside(1, "sysctl -qw vm.nr_hugepages=6")
    try:
        page = fresh(1)
        said = int(re.search(r"HugePages_Total:\s+(\d+)", inside(1, "cat /proc/meminfo")).group(1))
        expect(said == 6, f"the kernel gave {said} pages")
        expect(value(page, 'roce_hugepages_allocated{size="2MB"}') == said, "pages")
        expect(value(page, 'roce_hugepages_bytes{size="2MB"}') == said * 2097152, "bytes")
    finally:
        inside(1, "sysctl -qw vm.nr_hugepages=0")
    expect(value(fresh(1), 'roce_hugepages_allocated{size="2MB"}') == 0, "pages after the reset")


def segments():
    """Read once a minute, so that each look needs a program that has just started."""
    restart(1)
    before = value(fresh(1), "roce_sysv_shm_segments")
    key = re.search(r"(\d+)", inside(1, "ipcmk -M 8192")).group(1)
    try:
        restart(1)
        after = value(fresh(1), "roce_sysv_shm_segments")
        expect(after == before + 1, f"{before} then {after}")
    finally:
        inside(1, f"ipcrm -m {key}")
    limit = int(inside(1, "sysctl -n kernel.shmmni"))
    expect(value(scrape(1), "roce_sysv_shm_segments_limit") == limit, "kernel.shmmni")


def processes_and_qps():
    """A process that holds a verbs context: its limits as prlimit shows them, its QP as rdma shows it."""
    inside(1, f"systemd-run -q --collect --unit lab-pingpong -p LimitMEMLOCK=1M:2M /usr/bin/ibv_rc_pingpong -d {SOFT} -g $(. /usr/local/sbin/lab-common; gid_index {SOFT}) -p 18700; sleep 2")
    try:
        pid = inside(1, "systemctl show -p MainPID --value lab-pingpong").strip()
        restart(1)
        page = fresh(1)
        limits = {s.labels["limit"]: float(s.value) for s in page.series
                  if s.name == "roce_process_memlock_limit_bytes" and s.labels["pid"] == pid}
        expect(limits == {"soft": 1048576, "hard": 2097152}, f"limits {limits}, as set 1 and 2 MiB")
        pinned = int(re.search(r"VmPin:\s+(\d+) kB", inside(1, f"cat /proc/{pid}/status")).group(1)) * 1024
        expect(value(page, f'roce_process_pinned_bytes{{pid="{pid}"}}') == pinned > 0, f"pinned {pinned}")
        inside(1, f"prlimit --memlock=4194304:8388608 --pid {pid}")
        restart(1)
        page = fresh(1)
        expect(value(page, f'roce_process_memlock_limit_bytes{{pid="{pid}",limit="soft"}}') == 4194304, "the limit after prlimit")
        said = json.loads(inside(1, f"rdma -j resource show qp link {SOFT}"))
        wanted = {}
        # Versions of the tool put each QP in an array of its own.
        for qp in (q for entry in said for q in (entry if isinstance(entry, list) else [entry])):
            state = qp.get("state", "")
            wanted[state] = wanted.get(state, 0) + 1
        found = {}
        for s in page.find(Pattern(f'roce_qps{{device="{SOFT}"}}')):
            if float(s.value):
                found[s.labels["state"]] = found.get(s.labels["state"], 0) + int(s.value)
        expect(found == wanted, f"QPs by state: page {found}, rdma {wanted}")
        owners = page.find(Pattern(f'roce_owner_qps{{device="{SOFT}",pid="{pid}"}}'))
        expect(sum(int(s.value) for s in owners) == 1, f"QPs of the process: {[str(s) for s in owners]}")
    finally:
        inside(1, "systemctl stop lab-pingpong", check=False)
    restart(1)
    expect(not fresh(1).find(Pattern(f'*{{pid="{pid}"}}')), "series of a process that has ended")
    return f"QPs {found}"


def nvme_host():
    """Controllers, queues and paths as nvme list-subsys and sysfs show them, through a disconnect and a connect."""
    page = fresh(1)
    said = json.loads(inside(1, "nvme list-subsys -o json"))
    subsystems = said[0]["Subsystems"] if isinstance(said, list) else said["Subsystems"]
    paths = [p for s in subsystems for p in s.get("Paths", []) if p["Transport"] == "rdma"]
    expect(len(paths) == 1, f"{said}")
    name = paths[0]["Name"]
    states = {s.labels["state"]: int(s.value) for s in page.find(Pattern(f'roce_nvme_controller_state{{controller="{name}"}}'))}
    expect(sum(states.values()) == 1 and states[paths[0]["State"]] == 1, f"nvme says {paths[0]['State']}, page {states}")
    info = page.find(Pattern(f'roce_nvme_controller_info{{controller="{name}"}}'))
    expect(len(info) == 1 and f"traddr={info[0].labels['traddr']}" in paths[0]["Address"], f"{paths[0]['Address']}: {[str(i) for i in info]}")
    link = page.find(Pattern(f'roce_nvme_controller_link_info{{controller="{name}"}}'))
    expect(len(link) == 1 and link[0].labels["device"] == SOFT, f"the port that carries it: {[str(x) for x in link]}")
    queues = int(inside(1, f"cat /sys/class/nvme/{name}/queue_count")) - 1
    expect(value(page, f'roce_nvme_controller_io_queues{{controller="{name}"}}') == queues, f"queues {queues}")
    inside(1, "lab-nvme disconnect")
    try:
        until("the controller is gone", lambda: not fresh(1).find(Pattern("roce_nvme_controller_state")))
    finally:
        inside(1, "lab-nvme connect -i 2")
    page = until("the controller is back", lambda: (lambda p: p if p.find(Pattern('roce_nvme_controller_state{state="live"}')) else None)(fresh(1)))
    again = int(inside(1, "cat /sys/class/nvme/nvme0/queue_count")) - 1
    expect(value(page, "roce_nvme_controller_io_queues") == again, f"queues {again}")
    inside(1, "lab-nvme disconnect; lab-nvme connect")
    read = value(fresh(1), 'roce_nvme_path_operations_total{operation="read"}')
    inside(1, "dd if=/dev/nvme0n1 of=/dev/null bs=64k count=32 iflag=direct 2>&1")
    more = value(fresh(1), 'roce_nvme_path_operations_total{operation="read"}') - read
    expect(more >= 32, f"{more} reads for 32 requests")
    return f"{name} {paths[0]['State']}, {queues} I/O queues, {more} reads"


def nvme_target():
    exported = value(fresh(2), "roce_nvmet_port_subsystems")
    expect(exported == 1, f"{exported} subsystems exported")
    inside(2, "lab-nvme withdraw")
    try:
        expect(value(fresh(2), "roce_nvmet_port_subsystems") == 0, "subsystems after they were withdrawn")
    finally:
        inside(2, "lab-nvme publish")
    until("node 1 is connected again", lambda: value(fresh(1), "roce_nvme_subsystem_paths_live") == 1, 60)


def bond():
    """An RDMA device on a bond: members and their state follow ip link."""
    inside(1, "ip link add lab-bond type bond mode active-backup miimon 100 && ip link add lab-a type dummy && ip link add lab-b type dummy"
              " && ip link set lab-a master lab-bond && ip link set lab-b master lab-bond && ip link set lab-bond up && ip link set lab-a up"
              " && ip link set lab-b up && rdma link add rxe9 type rxe netdev lab-bond")
    try:
        until("both members are active", lambda: value(fresh(1), 'roce_bond_active_members{device="rxe9"}') == 2)
        expect(value(scrape(1), 'roce_bond_members{device="rxe9"}') == 2, "members")
        inside(1, "ip link set lab-b down")
        until("a member is down", lambda: value(fresh(1), 'roce_bond_active_members{device="rxe9"}') == 1)
        page = scrape(1)
        expect(value(page, 'roce_bond_member_up{device="rxe9",netdev="lab-b"}') == 0, "lab-b")
        expect(value(page, 'roce_bond_member_up{device="rxe9",netdev="lab-a"}') == 1, "lab-a")
    finally:
        inside(1, "rdma link del rxe9; ip link del lab-bond; ip link del lab-a; ip link del lab-b", check=False)
    until("the device is gone", lambda: not fresh(1).find(Pattern('*{device="rxe9"}')), 70)


def cgroups():
    """Limits and use of the cgroup of a process that holds a verbs context, as the kernel's own files have them."""
    dir_ = "/sys/fs/cgroup/lab"

    def use(page, size):
        """(series, what the file says) for all that the collector shows of the cgroup."""
        pairs = []
        for file, family in (("rdma.current", "used"), ("rdma.max", "limit")):
            for line in inside(1, f"cat {dir_}/{file}").strip().split("\n"):
                device, *words = line.split()
                for word in words:
                    resource, number = word.split("=")
                    found = page.find(Pattern(f'roce_cgroup_rdma_{family}{{device="{device}",cgroup="/lab",resource="{resource}"}}'))
                    if found:
                        pairs.append((found, float("inf") if number == "max" else float(number)))
        for file, family in (("current", "used"), ("max", "limit")):
            found = page.find(Pattern(f'roce_cgroup_hugetlb_{family}_bytes{{cgroup="/lab",size="{size}"}}'))
            number = inside(1, f"cat {dir_}/hugetlb.{size}.{file}").strip()
            if found:
                pairs.append((found, float("inf") if number == "max" else float(number)))
        wrong = [f"{f[0]}, the file says {v}" for f, v in pairs if len(f) != 1 or float(f[0].value) != v]
        expect(not wrong, f"{wrong}")
        return len(pairs)

    inside(1, f"echo '+rdma +hugetlb' > /sys/fs/cgroup/cgroup.subtree_control; mkdir {dir_}; echo '{SOFT} hca_handle=5 hca_object=100' > {dir_}/rdma.max;"
              f" echo 4M > {dir_}/hugetlb.2MB.max; systemd-run -q --collect --unit lab-cgroup /bin/sh -c"
              f" 'echo $$$$ > {dir_}/cgroup.procs; exec ibv_rc_pingpong -d {SOFT} -g '$(. /usr/local/sbin/lab-common; gid_index {SOFT})' -p 18701'; sleep 2")
    try:
        restart(1)
        page = fresh(1)
        compared = use(page, "2MB")
        expect(value(page, f'roce_cgroup_rdma_limit{{device="{SOFT}",cgroup="/lab",resource="hca_handle"}}') == 5, "limit of handles")
        expect(value(page, f'roce_cgroup_rdma_used{{device="{SOFT}",cgroup="/lab",resource="hca_handle"}}') == 1, "handles in use")
        expect(value(page, 'roce_cgroup_hugetlb_limit_bytes{cgroup="/lab",size="2MB"}') == 4 << 20, "limit of huge pages")
        inside(1, f"echo '{SOFT} hca_handle=9 hca_object=max' > {dir_}/rdma.max; echo 8M > {dir_}/hugetlb.2MB.max")
        restart(1)
        page = fresh(1)
        compared += use(page, "2MB")
        expect(value(page, f'roce_cgroup_rdma_limit{{device="{SOFT}",cgroup="/lab",resource="hca_handle"}}') == 9, "limit after the change")
        expect(value(page, 'roce_cgroup_hugetlb_limit_bytes{cgroup="/lab",size="2MB"}') == 8 << 20, "limit of huge pages after the change")
    finally:
        inside(1, f"systemctl stop lab-cgroup; pkill -f 'pingpong -d {SOFT} -g [0-9]+ -p 18701'; sleep 1; rmdir {dir_}", check=False)
    restart(1)
    expect(not fresh(1).find(Pattern('*{cgroup="/lab"}')), "series of a cgroup that is gone")
    return f"{compared} values equal"


def aer():
    """PCIe errors put in by the kernel's own injector, against the function's file."""
    address = inside(1, f"basename $(readlink -f /sys/class/infiniband/{DEVICE}/device)").strip()
    file = f"/sys/bus/pci/devices/{address}/aer_dev_correctable"
    series = f'roce_pcie_aer_errors_total{{device="{DEVICE}",pci_address="{address}",severity="correctable"}}'

    def total():
        return int(re.search(r"TOTAL_ERR_COR (\d+)", inside(1, f"cat {file}")).group(1))

    restart(1)
    before, said = value(fresh(1), series), total()
    expect(before == said, f"page {before}, kernel {said}")
    bus, slot, function = (int(x, 16) for x in re.fullmatch(r"0000:(..):(..)\.(.)", address).groups())
    # struct aer_error_inj: the function, uncorrectable and correctable status (0x40: bad TLP), header log, domain.
    inside(1, "modprobe aer_inject && python3 -c \"import struct; open('/dev/aer_inject', 'wb', 0).write("
              f"struct.pack('=BBBxIIIIIII', {bus}, {slot}, {function}, 0, 0x40, 0, 0, 0, 0, 0))\"")
    until("the kernel has counted it", lambda: total() == said + 1)
    restart(1)
    after = value(fresh(1), series)
    expect(after == before + 1, f"{before} then {after}")
    others = [s for s in scrape(1).series if s.name == "roce_pcie_aer_errors_total" and s.labels["device"] == SIBLING and float(s.value)]
    expect(not others, f"the sibling's errors: {[str(s) for s in others]}")
    return f"correctable {before} then {after}"


def congestion():
    """Parameters in debugfs, which only root sees, and the defaults that a directory of configfs holds."""
    program = "/host/bin/roce_exporter print --collector.disable-defaults --collector.congestion_control"
    files = f"$(find /sys/kernel/debug -type d -path '*mlx5*cc_params' | sort | head -1)"
    inside(1, f"echo 777 > {files}/rp_max_rate")
    said = dict(line.split() for line in inside(1, f"cd {files} && for f in *; do echo $f $(cat $f); done").strip().split("\n"))
    page = Page(inside(1, program))
    shown_values = {s.labels["parameter"]: s.value for s in page.find(Pattern(f'roce_congestion_parameter{{device="{DEVICE}"}}'))}
    expect(shown_values.get("rp_max_rate") == "777", f"{shown_values}")
    wrong = {k: (v, said.get(k)) for k, v in shown_values.items() if said.get(k) != v}
    expect(not wrong and len(shown_values) >= 10, f"page and debugfs: {wrong}")
    expect([s for s in fresh(1).series if s.labels.get("counter") == "cc_params" and s.labels.get("state") == "denied"], "not told as denied to the unit's user")
    defaults = f"/sys/kernel/config/rdma_cm/{SOFT}"
    inside(1, f"mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config; mkdir {defaults} && echo 104 > {defaults}/ports/1/default_roce_tos")
    try:
        restart(1)
        page = fresh(1)
        expect(value(page, f'roce_default_tos{{device="{SOFT}",port="1"}}') == 104, "the default ToS")
        mode = inside(1, f"cat {defaults}/ports/1/default_roce_mode").strip()
        expect(page.find(Pattern(f'roce_default_mode_info{{device="{SOFT}",mode="{mode}"}}')), f"the default mode {mode}")
    finally:
        inside(1, f"rmdir {defaults}", check=False)
    restart(1)
    expect(not fresh(1).find(Pattern("roce_default_tos")), "defaults after the directory is gone")
    return f"{len(shown_values)} parameters equal"


def sampler_and_ip_link():
    """What waits for RTNL is not slowed down by the sampler: ip link with it on and off, by turns."""
    netdev = netdev_of(DEVICE)
    # Both a question and a change, in the time of one run of ip; the median of many, since the CPU is emulated.
    measure = ("import statistics, subprocess, time\n"
               "def once(*words):\n"
               "    begin = time.monotonic(); subprocess.run(['ip', 'link', *words], check=True, stdout=subprocess.DEVNULL); return time.monotonic() - begin\n"
               f"print(statistics.median(once('show', 'dev', '{netdev}') + once('set', 'dev', '{netdev}', 'txqueuelen', str(1000 + i % 2)) for i in range(40)))")
    times = {"on": [], "off": []}
    try:
        for turn in range(8):
            which = ("on", "off")[(turn + turn // 2) % 2]  # no one of the two is always first
            flags = "--sampler.interval=100ms" if which == "on" else ""
            inside(1, f"echo 'ARGS={flags}' > /etc/default/roce-exporter")
            restart(1)
            page = until("pages are made", lambda w=which: (lambda p: p if (w == "off") == (not p.find(Pattern("roce_sampler_*"))) else None)(fresh(1)), 60)
            time.sleep(2)
            times[which].append(float(inside(1, f"python3 -c \"{measure}\"", timeout=300)))
    finally:
        inside(1, "rm -f /etc/default/roce-exporter")
        restart(1)
    on, off = (statistics.median(times[w]) for w in ("on", "off"))
    expect(on <= 1.2 * off, f"ip link takes {on * 1000:.1f} ms with the sampler, {off * 1000:.1f} ms without: {times}")
    return f"{on * 1000:.1f} ms on, {off * 1000:.1f} ms off: {on / off:.2f}"


def nfs():
    """A mount over RDMA: it comes, its numbers are those of the kernel's mountstats, it goes; and the server's side."""
    expect(not fresh(1).find(Pattern("roce_nfs_mount_info")), "a mount before there is one")
    mount = "/mnt/lab-nfs"
    inside(2, "lab-nfs serve", timeout=180)
    try:
        inside(1, "lab-nfs mount 10.77.0.2", timeout=300)
        try:
            page = until("the mount is shown", lambda: (lambda p: p if p.find(Pattern(f'roce_nfs_mount_info{{mount="{mount}"}}')) else None)(fresh(1)))
            info = page.find(Pattern(f'roce_nfs_mount_info{{mount="{mount}"}}'))[0]
            expect(info.labels["server"] == "10.77.0.2" and info.labels["version"] == "4.2", f"{info}")
            link = page.find(Pattern(f'roce_nfs_mount_link_info{{mount="{mount}"}}'))
            expect(len(link) == 1 and link[0].labels["device"] == SOFT, f"the port that carries it: {[str(x) for x in link]}")
            expect(value(page, f'roce_nfs_transports{{mount="{mount}"}}') == 1, "transports")
            served = sum(float(s.value) for s in fresh(2).find(Pattern("roce_nfs_server_rdma_operations_total")))
            inside(1, f"dd if=/dev/zero of={mount}/a bs=64k count=32 conv=fsync 2>&1; dd if={mount}/a of=/dev/null bs=64k iflag=direct 2>&1", timeout=300)
            for attempt in range(4):  # what moves meanwhile has to lie between two looks
                first = inside(1, "cat /proc/self/mountstats")
                page = fresh(1)
                second = inside(1, "cat /proc/self/mountstats")
                compared, wrong = same_as_mountstats(page, mount, first, second)
                if not wrong:
                    break
            expect(not wrong and compared >= 12, lambda: "\n".join(wrong[:10]))
            tool = re.search(r"WRITE:\s*\n\s*(\d+) ops", inside(1, f"mountstats --rpc {mount} 2>/dev/null || mountstats {mount}"))
            written = value(page, f'roce_nfs_operation_requests_total{{mount="{mount}",operation="WRITE"}}')
            expect(tool and int(tool.group(1)) == written >= 2, f"writes: mountstats {tool and tool.group(1)}, page {written}")
            server = fresh(2)
            more = sum(float(s.value) for s in server.find(Pattern("roce_nfs_server_rdma_operations_total"))) - served
            expect(more > 0, "the server's operations did not move")
            for operation, file in (("read", "rdma_stat_read"), ("write", "rdma_stat_write")):
                said = int(inside(2, f"cat /proc/sys/sunrpc/svc_rdma/{file}").split()[0])
                found = value(server, f'roce_nfs_server_rdma_operations_total{{operation="{operation}"}}')
                expect(found == said, f"server {operation}: page {found}, kernel {said}")
        finally:
            inside(1, "lab-nfs umount", timeout=180, check=False)
        until("the mount is gone", lambda: not fresh(1).find(Pattern("roce_nfs_mount_info")))
    finally:
        inside(2, "lab-nfs unserve", timeout=180, check=False)
    return f"{compared} values between two looks, {written} writes, server {more:.0f} operations"


def same_as_mountstats(page, mount, first, second):
    """Compares all families of the mount with the kernel's text before and after: (how many, what does not fit)."""
    def parse(text):
        out, inside_mount = {}, False
        for line in text.split("\n"):
            if line.startswith("device "):
                inside_mount = f" mounted on {mount} with fstype nfs" in line
            elif inside_mount and line.strip().startswith("xprt:"):
                words = line.split()[2:]
                out.update({("xprt", i): int(n) for i, n in enumerate(words)})
            elif inside_mount and (m := re.fullmatch(r"\s+([A-Z0-9_]+): ([\d ]+)", line)):
                n = [int(x) for x in m.group(2).split()]
                out.update({(m.group(1), "requests"): n[0], (m.group(1), "transmissions"): n[1], (m.group(1), "timeouts"): n[2]})
        return out

    before, after = parse(first), parse(second)
    compared, wrong = 0, []

    def fits(found, key, what):
        nonlocal compared
        compared += 1
        if key not in before or not before[key] <= found <= after[key]:
            wrong.append(f"{what}: page {found}, kernel {before.get(key)} to {after.get(key)}")

    for s in page.series:
        if s.labels.get("mount") != mount:
            continue
        if (m := re.fullmatch(r"roce_nfs_operation_(requests|transmissions|timeouts)_total", s.name)) and s.labels["operation"] != "other":
            fits(float(s.value), (s.labels["operation"], m.group(1)), str(s))
    for family, place in (("roce_nfs_transport_connects_total", 2), ("roce_nfs_transport_requests_total", 5), ("roce_nfs_transport_replies_total", 6)):
        fits(value(page, f'{family}{{mount="{mount}"}}'), ("xprt", place), family)
    return compared, wrong


def iser():
    """A session over RDMA: it comes with login, its state is what iscsiadm shows, it goes with logout."""
    inside(2, "lab-iser target 10.77.0.2", timeout=180)
    try:
        inside(1, "lab-iser login 10.77.0.2", timeout=300)
        try:
            page = until("the session is shown", lambda: (lambda p: p if p.find(Pattern("roce_iser_session_info")) else None)(fresh(1)))
            info = page.find(Pattern("roce_iser_session_info"))[0]
            said = inside(1, "iscsiadm -m session -P 1")
            expect("Transport: iser" in said and re.search(r"iSCSI Session State: LOGGED_IN", said), said)
            expect(info.labels["target"] in said and f'{info.labels["address"]}:{info.labels["service"]}' in said, f"{info}: {said}")
            expect(value(page, f'roce_iser_session_state{{session="{info.labels["session"]}",state="logged_in"}}') == 1, "state")
            link = page.find(Pattern("roce_iser_session_link_info"))
            expect(len(link) == 1 and link[0].labels["device"] == SOFT, f"the port that carries it: {[str(x) for x in link]}")
        finally:
            inside(1, "lab-iser logout 10.77.0.2", timeout=180, check=False)
        until("the session is gone", lambda: not fresh(1).find(Pattern("roce_iser_*")))
    finally:
        inside(2, "lab-iser untarget 10.77.0.2", timeout=180, check=False)
    return str(info)


def settings():
    inside(1, "sysctl -qw net.core.rmem_max=3000000")
    restart(1)
    page = fresh(1)
    found = page.find(Pattern('roce_kernel_setting{setting="net.core.rmem_max"}'))
    expect(len(found) == 1 and float(found[0].value) == 3000000, f"{[str(s) for s in found]}")
    total = sum(int(x) for l in inside(1, "grep IRQ_POLL /proc/softirqs").split("\n") for x in l.split()[1:])
    expect(value(fresh(1), 'roce_softirqs_total{type="IRQ_POLL"}') >= total, "IRQ_POLL softirqs")


def rtnl_held():
    """One NIC's statistics hang with RTNL held: what needs no RTNL is whole on all devices, what does is absent as
    rtnl_blocked, the culprit is named, and it ends by itself."""
    base = fresh(1)
    expect(base.find(Pattern(f'roce_requests_total{{device="{SIBLING}"}}')), "no values to compare")
    rnic(1, "hang", "ethtool", 10000, DEVICE)
    try:
        named, blocked, times = False, set(), []
        for n in range(12):
            text, seconds = core.fetch(1, headers={"X-Prometheus-Scrape-Timeout-Seconds": "10"})
            page = Page(text)
            times.append(seconds)
            expect(seconds <= 9.6, f"scrape {n}: {seconds:.2f} s")
            for device in (SIBLING, SOFT):
                for collector in ("hw_counters", "port_counters", "rdma_resources"):
                    ok = page.find(Pattern(f'roce_collector_success{{collector="{collector}",device="{device}"}}'))
                    expect(ok and ok[0].value == "1", f"scrape {n}: {[str(o) for o in ok]}")
            expect(page.find(Pattern("roce_nvme_controller_state")) and page.find(Pattern("roce_hugepages_allocated")), f"scrape {n}: host sources")
            blocked |= {s.labels["device"] for s in page.series if s.name == "roce_collector_failure" and s.labels["reason"] == "rtnl_blocked"}
            named = named or any(float(s.value) > 1 for s in page.find(Pattern(f'roce_kernel_call_in_flight_seconds{{device="{DEVICE}"}}')))
            time.sleep(1.1)
    finally:
        rnic(1, "hang", "ethtool", 0, DEVICE)
    expect(named, f"no call in flight on {DEVICE} was named")
    expect(SIBLING in blocked, f"rtnl_blocked was told of {blocked}")
    netdev = netdev_of(SIBLING)
    until("everything is back", lambda: all(value(fresh(1), f'roce_collector_success{{collector="ethtool",device="{d}"}}') == 1 for d in (DEVICE, SIBLING))
          and scrape(1).find(Pattern(f'roce_pfc_frames_total{{netdev="{netdev}"}}')), 60)
    return f"median {statistics.median(times):.2f} s, blocked {sorted(blocked)}"


def unprivileged():
    """The program runs as its own user: every collector succeeds, and what is refused says so."""
    user = inside(1, "ps -o user= -p $(systemctl show -p MainPID --value roce-exporter)").strip()
    expect(user != "root", f"the exporter runs as {user}")
    restart(1)
    page = fresh(1)
    failing = [str(s) for s in page.series if s.name == "roce_collector_success" and s.value != "1"]
    expect(not failing, f"{failing}")
    denied = [s for s in page.series if s.labels.get("state") == "denied" and s.value != "0"]
    expect(denied, "nothing is told to be denied")
    return f"user {user}, {len(denied)} sources denied"


def rows(tag, full_only=False):
    table = [
        ("ethtool", "ethtool statistics", statistics_of_ethtool),
        ("pause-fec", "pause and FEC set by ethtool", pause_and_fec),
        ("link-reason", "why a link is down", link_down_reason),
        ("dcb", "PFC, DSCP and ETS set by dcb", data_centre_bridging),
        ("mtu", "MTU set by ip", mtu),
        ("pcie", "PCIe width, against lspci", pcie),
        ("hugepages", "huge pages set by sysctl", huge_pages),
        ("sysv", "System V segments made by ipcmk", segments),
        ("processes", "limits set by prlimit, QPs against rdma", processes_and_qps),
        ("nvme", "NVMe-oF host, against nvme list-subsys", nvme_host),
        ("nvmet", "NVMe-oF target", nvme_target),
        ("bond", "bond members set by ip", bond),
        ("cgroups", "cgroup limits and use, against their files", cgroups),
        ("aer", "PCIe errors put in by aer_inject", aer),
        ("congestion", "congestion-control parameters and defaults", congestion),
        ("nfs", "NFS over RDMA, against mountstats", nfs),
        ("iser", "iSER session, against iscsiadm", iser),
        ("sampler-ip-link", "ip link with the sampler on and off", sampler_and_ip_link),
        ("settings", "kernel settings and softirqs", settings),
        ("rtnl", "RTNL held for 10 s by one NIC", rtnl_held),
        ("unprivileged", "as the unit's own user", unprivileged),
    ]
    long = ("cgroups", "congestion", "nfs", "iser", "sampler-ip-link")
    return [Row(f"{tag}-{name}", what, run, full_only=full_only or name in long, alone=True) for name, what, run in table]

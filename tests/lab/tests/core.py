# SPDX-License-Identifier: Apache-2.0
"""The exporter on real kernels: two machines of the lab with soft-RoCE and simulated RNICs."""
import base64
import concurrent.futures
import json
import os
import re
import shutil
import statistics
import subprocess
import time
import urllib.request

import cases
import e2e
import exporter
from harness import BUILD, ROOT, Failed, Row, expect
from page import Page, Pattern

PROGRAM = os.path.join(ROOT, "tests", "lab", "lab")
RNICS = 2
SOFT = "rxe0"
# A lab of its own, so that one that a developer has up is left alone; the cache of artefacts is shared.
ENV = dict(os.environ, ROCE_LAB_STATE=os.environ.get("ROCE_LAB_STATE", "/run/roce-lab-tests"))


def lab(*words, check=True, timeout=900):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, errors="replace", timeout=timeout, env=ENV, check=False)
    if check and done.returncode != 0:
        raise Failed(f"lab {' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return done.stdout


def inside(node, script, timeout=120, check=True):
    return lab("exec", "--timeout", timeout, node, script, timeout=timeout + 60, check=check)


def rnic(node, *words):
    return lab("rnic", node, *words)


def recording(node):
    """What `capture` makes of that machine, packed; it stays there as /run/it.tar."""
    return base64.b64decode(inside(node, "rm -f /run/it.tar; /run/roce/roce_exporter capture /run/it.tar > /dev/null && gzip -9c /run/it.tar | base64 -w0"))


def keep_recording(name, packed):
    """For tests/recordings, when these are made anew."""
    path = os.path.join(BUILD, "tests", "recordings", f"{name}.tar.gz")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(packed)
    return path


_urls = {}
_sanitized = False  # whether the program that runs in the lab is built with a sanitizer


def fetch(node, path="/metrics", timeout=30, headers=None, port=14791):
    if (node, port) not in _urls:
        _urls[node, port] = lab("url", node, port).strip()
    request = urllib.request.Request(_urls[node, port] + path, headers=headers or {})
    start = time.monotonic()
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read().decode("utf-8"), time.monotonic() - start


def scrape(node, **more):
    return Page(fetch(node, **more)[0])


def fresh(node):
    """A page whose reads all began after this call."""
    time.sleep(exporter.SHARED_SECONDS + 0.1)
    return scrape(node)


def value(page, pattern):
    found = page.find(Pattern(pattern))
    expect(len(found) == 1, lambda: f"{pattern}: {len(found)} series: {'; '.join(map(str, found[:6]))}")
    return int(found[0].value) if re.fullmatch(r"-?\d+", found[0].value) else float(found[0].value)


def until(what, condition, seconds=30):
    """Waits for a condition on fresh pages; tells what was last seen."""
    deadline = time.monotonic() + seconds
    last = None
    while time.monotonic() < deadline:
        try:
            last = condition()
            if last:
                return last
        except (Failed, OSError) as e:
            last = str(e)
        time.sleep(0.5)
    raise Failed(f"{what}: not within {seconds} s; last: {last}")


_reference = None


def places():
    """(driver, counter) -> (metric, fixed labels, scale) for hardware counters, from the program's own reference."""
    global _reference
    if _reference is None:
        code, out, err = exporter.call("metrics-reference", "--format", "json")
        expect(code == 0, err)
        _reference = {}
        for m in json.loads(out)["metrics"]:
            for s in m["sources"]:
                _reference[(s["driver"], s["counter"])] = (m["name"], s.get("labels") or {}, float(s.get("scale") or 1))
    return _reference


def fixed_labels(text):
    if isinstance(text, dict):
        return text
    return dict(p.split("=", 1) for p in text.split(",")) if text else {}


def published(page, driver, device, port, counter):
    """The value that the page shows for a driver's counter; None when it shows none."""
    name, labels, scale = places().get((driver, counter), ("roce_driver_counter_total", {}, 1.0))
    wanted = {"device": device, "port": str(port), **fixed_labels(labels)}
    if name in ("roce_driver_counter_total", "roce_driver_gauge"):
        wanted["counter"] = counter
    for s in page.series:
        if s.name == name and all(s.labels.get(k) == v for k, v in wanted.items()):
            return float(s.value) / scale if scale != 1 else int(s.value)
    return None


def driver_of(device):
    return "rxe" if device.startswith("rxe") else "mlx5"


# ---- rows ----

_machines = ()  # what `up` was asked for


def up(kernel, preset="release", nodes=2):
    global _machines, _sanitized
    _machines = (kernel, preset, nodes)
    _urls.clear()
    _sanitized = preset != "release"
    lab("down", check=False)
    programs = os.path.join(BUILD, preset, "bin")
    if _sanitized:  # the exporter alone: an emulated machine is slow enough with one such program
        alone = os.path.join(BUILD, "tests", f"exporter-{preset}")
        os.makedirs(alone, exist_ok=True)
        shutil.copy2(os.path.join(programs, "roce_exporter"), alone)
        programs = alone
    lab("up", "--nodes", nodes, "--kernel", kernel, "--rnic", RNICS, "--bin", programs, timeout=2400)
    state = json.loads(lab("status", "--format", "json"))
    bad = [n for n in state["nodes"] if n["state"] != "running" or n["exporter"] != "ok"]
    expect(not bad, f"{bad}")
    return f"kernel {state['nodes'][0]['kernel']}, {state['nodes'][0]['accel']}"


def anew():
    """The same machines, started again."""
    return up(*_machines)


def down():
    """Before the machines end: the program ran through since they booted, nothing was reported, and it ends when asked."""
    for node in range(1, _machines[2] + 1):
        restarts = int(inside(node, "systemctl show -p NRestarts --value roce-exporter"))
        inside(node, "systemctl stop roce-exporter")
        ended = inside(node, "systemctl show -p Result,ExecMainStatus roce-exporter").split()
        log = inside(node, "journalctl -o cat -u roce-exporter")
        expect(restarts == 0 and sorted(ended) == ["ExecMainStatus=0", "Result=success"], f"node{node}: {restarts} restarts, {ended}\n{log[-6000:]}")
        reports = re.findall(r".*(?:\w+Sanitizer|runtime error):.*", log)
        expect(not reports, f"node{node}: {reports[:5]}\n{log[-6000:]}")
    lab("down")


def whole_pages():
    """With a sanitizer on an emulated CPU the first reads, of a program that just started, miss their deadline."""
    for node in (1, 2):
        remark = until(f"whole page of node{node}", lambda n=node: whole_page(n), 90) if _sanitized else whole_page(node)
    return remark


def whole_page(node):
    text, seconds = fetch(node)
    page = Page(text)
    cases.promtool_accepts(text)
    expect(value(page, "roce_rdma_devices") == RNICS + 1, f"node{node}: devices")
    listed = inside(node, "ls /sys/class/infiniband").split()
    shown = sorted({s.labels["device"] for s in page.series if s.name == "roce_port_state"})
    expect(shown == sorted(listed), f"node{node}: {shown}, the kernel has {listed}")
    for device in listed:
        expect(value(page, f'roce_port_state{{device="{device}",port="1"}}') == 4, f"{device} is not active")
        success = [s for s in page.series if s.name == "roce_collector_success" and s.labels["device"] == device]
        expect(len(success) >= 6 and all(s.value == "1" for s in success), f"{device}: {[str(s) for s in success if s.value != '1']}")
    infos = [s for s in page.series if s.name == "roce_device_info" and s.labels["driver"] == "mlx5_core"]
    expect(len(infos) == RNICS and all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", s.labels["pci_address"]) for s in infos),
           f"node{node}: {[str(s) for s in infos]}")
    netdevs = {s.labels["device"]: s.labels["netdev"] for s in page.series if s.name == "roce_port_info"}
    for device in listed:
        of_kernel = json.loads(inside(node, f"rdma -j link show {device}/1"))[0]["netdev"]
        expect(netdevs[device] == of_kernel, f"{device}: netdev {netdevs[device]}, the kernel says {of_kernel}")
    return f"last page {len(page.series)} series, {seconds * 1000:.0f} ms"


def traffic_moves():
    """Reads through NVMe-oF move real counters of the soft-RoCE port, and the page shows how far."""
    before = fresh(1)
    sent, received = (value(before, f'roce_port_{d}_packets_total{{device="{SOFT}"}}') for d in ("transmit", "receive"))
    inside(1, "dd if=/dev/nvme0n1 of=/dev/null bs=64k count=64 iflag=direct 2>&1")
    after = fresh(1)
    more_sent = value(after, f'roce_port_transmit_packets_total{{device="{SOFT}"}}') - sent
    more_received = value(after, f'roce_port_receive_packets_total{{device="{SOFT}"}}') - received
    # 4 MiB in RDMA WRITEs of at most 4 KiB each come in
    expect(more_received >= 1024, f"{more_received} packets received for 4 MiB")
    expect(more_sent >= 64, f"{more_sent} packets sent")
    return f"{more_sent} packets sent, {more_received} received"


def equal_to_rdma_statistic():
    """Every hardware counter is what `rdma -j statistic` says at the same moment."""
    compared = 0
    for node in (1, 2):
        for device in inside(node, "ls /sys/class/infiniband").split():
            for attempt in range(4):  # a counter that moves meanwhile has to lie between two looks
                time.sleep(exporter.SHARED_SECONDS + 0.1)
                first = json.loads(inside(node, f"rdma -j statistic show link {device}/1"))[0]
                page = scrape(node)
                second = json.loads(inside(node, f"rdma -j statistic show link {device}/1"))[0]
                wrong, n = [], 0
                for counter, low in first.items():
                    if counter in ("ifname", "port"):
                        continue
                    found = published(page, driver_of(device), device, 1, counter)
                    n += 1
                    if found is None or not low <= found <= second[counter]:
                        wrong.append(f"node{node} {device} {counter}: {found}, rdma says {low} then {second[counter]}")
                if not wrong:
                    break
            expect(not wrong, lambda: "\n".join(wrong[:20]))
            expect(n >= 10, f"{device}: only {n} counters")
            compared += n
    return f"{compared} counters equal"


def set_counters(device, values):
    lines = "\n".join(f"set {device} {name} {v}" for name, v in values.items())
    inside(1, f"rnicctl batch <<'END'\n{lines}\nEND", timeout=300)


def every_hw_counter_moves():
    """Each hardware counter of the simulated RNIC, set to a value of its own, is read from the page exactly."""
    device = "mlx5_0"
    names = [k for k in json.loads(inside(1, f"rdma -j statistic show link {device}/1"))[0] if k not in ("ifname", "port")]
    set_counters(device, {f"hw:{n}": 1_000_000 + 1_017 * i for i, n in enumerate(names)})
    page = fresh(1)
    wrong = []
    for i, n in enumerate(names):
        found = published(page, "mlx5", device, 1, n)
        if found != 1_000_000 + 1_017 * i:
            wrong.append(f"{n}: set {1_000_000 + 1_017 * i}, page {found}")
    expect(not wrong, lambda: "\n".join(wrong[:20]))
    expect(len(names) >= 25, f"only {len(names)} counters: {names}")
    other = [s for s in page.series if s.labels.get("device") == "mlx5_1" and s.value.startswith("1000") and s.name.endswith("_total")]
    expect(not other, f"values went to another device: {[str(s) for s in other[:4]]}")
    return f"{len(names)} counters"


def every_port_counter_moves():
    """The same for the files of ports/1/counters, in bytes where the kernel counts words."""
    device = "mlx5_0"
    names = inside(1, f"ls /sys/class/infiniband/{device}/ports/1/counters").split()
    expect(len(names) >= 15, f"only {names}")
    narrow = {"excessive_buffer_overrun_errors": 7, "local_link_integrity_errors": 7}
    wanted = {n: narrow.get(n, 100 + i) for i, n in enumerate(names)}
    set_counters(device, {f"port:{n}": v for n, v in wanted.items()})
    page = fresh(1)
    listed = inside(1, f"cd /sys/class/infiniband/{device}/ports/1/counters && grep . *").split()
    files = {n: int(v) for n, v in (l.split(":") for l in listed)}
    wrong = []
    for name in names:
        shown = files[name]
        found = published(page, "ib-port", device, 1, name)
        if found != shown:
            wrong.append(f"{name}: file {shown}, page {found}")
    expect(not wrong, lambda: "\n".join(wrong[:20]))
    expect(len(set(files.values())) >= 15, f"the values that were set are not there: {files}")
    expect(value(page, f'roce_port_receive_bytes_total{{device="{device}"}}') == 4 * files["port_rcv_data"], "port_rcv_data is not multiplied by 4")
    return f"{len(names)} counters"


def resources():
    """Objects in use are what `rdma resource show` counts."""
    for attempt in range(4):
        shown = {d["ifname"]: d for d in json.loads(inside(1, "rdma -j resource show"))}
        page = fresh(1)
        again = {d["ifname"]: d for d in json.loads(inside(1, "rdma -j resource show"))}
        wrong, n = [], 0
        for device, counts in shown.items():
            for kind, count in counts.items():
                if kind in ("ifindex", "ifname"):
                    continue
                n += 1
                found = value(page, f'roce_rdma_resources{{device="{device}",resource="{kind}"}}')
                if found not in (count, again[device][kind]):
                    wrong.append(f"{device} {kind}: page {found}, rdma {count} then {again[device][kind]}")
        if not wrong:
            break
    expect(not wrong, lambda: "\n".join(wrong))
    expect(value(page, f'roce_rdma_resources{{device="{SOFT}",resource="qp"}}') >= 2, "the storage connection has no QP")
    return f"{n} counts equal"


def connection_messages():
    """A connection made and ended moves the connection manager's counters."""
    device = SOFT
    before = fresh(1)
    pattern = f'roce_cm_messages_total{{device="{device}",direction="transmit",type="req"}}'
    n = value(before, pattern)
    inside(2, "(rping -s -a 10.77.0.2 -C 3 >/dev/null 2>&1 &) ; sleep 1")
    inside(1, "rping -c -a 10.77.0.2 -C 3 -S 64", timeout=60)
    after = value(fresh(1), pattern)
    expect(after >= n + 1, f"req sent: {n} then {after}")
    return f"{n} then {after}"


def hang():
    """Firmware of one device hangs for 10 s a call: 50 scrapes in their budget, everything else complete, nothing piles
    up, and it comes back by itself."""
    sick, well = "mlx5_1", ["mlx5_0", SOFT]
    base = fresh(1)
    series = {d: sum(1 for s in base.series if s.labels.get("device") == d) for d in well}
    expect(value(base, f'roce_port_state{{device="{sick}"}}') == 4, f"{sick} is not active")
    expect(base.find(Pattern(f'roce_requests_total{{device="{sick}"}}')), f"{sick} has no values to lose")
    rnic(1, "hang", "hwstats", 10000, sick)
    try:
        times, threads, memory, absent = [], [], [], 0
        for n in range(50):
            text, seconds = fetch(1, headers={"X-Prometheus-Scrape-Timeout-Seconds": "10"})
            page = Page(text)
            times.append(seconds)
            expect(seconds <= 9.6, f"scrape {n}: {seconds:.2f} s, the budget is 9.5 s")
            for device in well:
                bad = [str(s) for s in page.series if s.name == "roce_collector_success" and s.labels["device"] == device and s.value != "1"]
                expect(not bad, f"scrape {n}: {bad}")
                now = sum(1 for s in page.series if s.labels.get("device") == device)
                expect(now >= series[device] - 2, f"scrape {n}: {device} has {now} series, before {series[device]}")
            own = {x.labels["collector"]: x.value for x in page.series if x.name == "roce_collector_success" and x.labels["device"] == sick}
            values = page.find(Pattern(f'roce_requests_total{{device="{sick}"}}'))
            # A call that came back at last may be told once; nothing is repeated while the next one waits.
            expect(bool(values) == (own["hw_counters"] == "1"), f"scrape {n}: hw_counters is {own['hw_counters']}, {len(values)} values")
            if n >= 3:
                expect("0" in own.values(), f"scrape {n}: all of {sick} is called well")
                absent += own["hw_counters"] == "0"
            if n == 10:
                flying = page.find(Pattern(f'roce_kernel_call_in_flight_seconds{{device="{sick}"}}'))
                expect(flying and max(float(s.value) for s in flying) > 1, f"no call in flight on {sick} is named")
            if n >= 10:
                threads.append(value(page, "process_threads"))
                memory.append(value(page, "process_resident_memory_bytes"))
            time.sleep(max(0.0, exporter.SHARED_SECONDS + 0.05 - seconds))
    finally:
        rnic(1, "hang", "hwstats", 0, sick)
    expect(absent >= 35, f"hw_counters is absent in {absent} of 47 pages only")
    expect(max(threads) - min(threads) <= 4, f"threads {min(threads)} to {max(threads)}")
    # A sanitizer keeps books on what was freed.
    expect(max(memory) <= min(memory) * (2.15 if _sanitized else 1.15) + 1_000_000, f"memory {min(memory)} to {max(memory)}")
    expect(statistics.median(times) <= 4, f"median {statistics.median(times):.2f} s")
    until(f"{sick} is back", lambda: value(fresh(1), f'roce_collector_success{{device="{sick}",collector="hw_counters"}}') == 1
          and scrape(1).find(Pattern(f'roce_requests_total{{device="{sick}"}}')), 45)
    return f"median {statistics.median(times):.2f} s, slowest {max(times):.2f} s, threads {min(threads)} to {max(threads)}"


def down_port_is_quiet():
    """A port that is down stays on the page, and 50 scrapes of it do not fill the kernel log."""
    device = "mlx5_1"
    rnic(1, "log", device, "down")
    rnic(1, "link", device, "down")
    try:
        until(f"{device} is down", lambda: value(fresh(1), f'roce_port_state{{device="{device}"}}') == 1)
        fresh(1)  # a port that has just gone down is asked once more
        lines = int(inside(1, "dmesg | wc -l"))
        start = time.monotonic()
        for _ in range(50):
            page = fresh(1)
            expect(value(page, f'roce_port_state{{device="{device}"}}') == 1, "the port is gone from the page")
        minutes = (time.monotonic() - start) / 60
        grown = int(inside(1, "dmesg | wc -l")) - lines
        expect(grown <= int(minutes) + 1, f"{grown} kernel log lines in {minutes:.1f} minutes: " + inside(1, "dmesg | tail -8"))
    finally:
        rnic(1, "link", device, "up")
        rnic(1, "log", device, "off")
    until(f"{device} is up", lambda: value(fresh(1), f'roce_port_state{{device="{device}"}}') == 4)
    return f"{grown} lines in {minutes:.1f} minutes"


def flaps_are_counted():
    """Down and up between two scrapes: both states look the same, the netdev's counts do not."""
    device = "mlx5_0"
    first = fresh(1)
    before = value(first, f'roce_netdev_carrier_changes_total{{device="{device}"}}')
    inside(1, f"rnicctl link {device} down; sleep 0.2; rnicctl link {device} up; sleep 0.2; rnicctl link {device} down; sleep 0.2; rnicctl link {device} up")
    after = until(f"{device} is up", lambda: (lambda p: p if value(p, f'roce_port_state{{device="{device}"}}') == 4 else None)(fresh(1)))
    changes = value(after, f'roce_netdev_carrier_changes_total{{device="{device}"}}') - before
    kernel = int(inside(1, f"cat /sys/class/net/$(ls /sys/class/infiniband/{device}/device/net)/carrier_changes"))
    expect(changes >= 4, f"{changes} carrier changes for two flaps")
    expect(value(after, f'roce_netdev_carrier_changes_total{{device="{device}"}}') == kernel, f"kernel {kernel}")
    return f"{changes} changes"


def unplug_and_plug():
    """A device goes and comes back at run time: its series with it, the others stay."""
    device = "mlx5_1"
    address = next(s.labels["pci_address"] for s in scrape(1).series if s.name == "roce_device_info" and s.labels["device"] == device)
    for _ in range(3):
        rnic(1, "unplug", address)
        page = fresh(1)
        left = [s for s in page.series if s.labels.get("device") == device]
        expect(not left, f"series of a device that is gone: {[str(s) for s in left[:5]]}")
        expect(value(page, "roce_rdma_devices") == RNICS, "devices")
        expect(value(page, f'roce_port_state{{device="{SOFT}"}}') == 4, SOFT)
        rnic(1, "plug", address)
        link_up(1, address)
        until(f"{device} is back", lambda: value(fresh(1), "roce_rdma_devices") == RNICS + 1
              and value(scrape(1), f'roce_collector_success{{device="{device}",collector="hw_counters"}}') == 1)
    # once more under scrapes that do not wait for it
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        scrapes = pool.submit(lambda: [Page(fetch(1)[0]) for _ in range(40)])
        inside(1, f"for i in 1 2 3; do rnicctl unplug {address}; sleep 0.3; rnicctl plug {address}; sleep 0.3; done", timeout=120)
        scrapes.result()
    link_up(1, address)
    until(f"{device} is back", lambda: value(fresh(1), "roce_rdma_devices") == RNICS + 1
          and value(scrape(1), f'roce_port_state{{device="{device}"}}') == 4)
    expect(int(inside(1, "systemctl show -p NRestarts --value roce-exporter")) == 0, "the exporter was restarted")


def link_up(node, address):
    """What the network's own tools do on a real host when a netdev appears."""
    inside(node, f"for i in 1 2 3 4 5 6 7 8 9 10; do ip link set $(ls /sys/bus/pci/devices/{address}/net) up && exit 0; sleep 0.3; done; exit 1")


def rename():
    """A device under a new name: the old series end, the new ones begin."""
    inside(1, "rdma dev set mlx5_0 name storage0")
    try:
        page = until("the new name", lambda: (lambda p: p if p.find(Pattern('roce_port_state{device="storage0"}')) else None)(fresh(1)))
        expect(not page.find(Pattern('*{device="mlx5_0"}')), "the old name is still there")
        expect(page.find(Pattern('roce_requests_total{device="storage0"}')), "no counters under the new name")
    finally:
        inside(1, "rdma dev set storage0 name mlx5_0")
    until("the old name", lambda: fresh(1).find(Pattern('roce_requests_total{device="mlx5_0"}')))


def refused_reads():
    """A device whose counters the firmware refuses: absent with a reason, asked seldom, the others whole."""
    device = "mlx5_1"
    rnic(1, "log", device, "errors")
    rnic(1, "errno", device, "counters", "EINVAL")
    rnic(1, "errno", device, "hw_counters", "EINVAL")
    try:
        fresh(1)
        lines = int(inside(1, "dmesg | wc -l"))
        for _ in range(10):
            page = fresh(1)
        grown = int(inside(1, "dmesg | wc -l")) - lines
        expect(not page.find(Pattern(f'roce_requests_total{{device="{device}"}}')), "values of refused counters")
        said = page.find(Pattern(f'roce_counter_support{{device="{device}"}}')) or page.find(Pattern(f'roce_collector_failure{{device="{device}"}}'))
        expect(said, "nothing says that they are refused")
        expect(value(page, f'roce_port_state{{device="{device}"}}') == 4, "the port's state")
        expect(page.find(Pattern('roce_requests_total{device="mlx5_0"}')), "the other device")
        expect(grown <= 60, f"{grown} kernel log lines in 10 scrapes")
    finally:
        rnic(1, "errno", device, "counters", 0)
        rnic(1, "errno", device, "hw_counters", 0)
        rnic(1, "log", device, "off")
    # What was refused is left alone for ten minutes; a device that is registered anew is asked at once.
    address = next(s.labels["pci_address"] for s in page.series if s.name == "roce_device_info" and s.labels["device"] == device)
    inside(1, f"rnicctl unplug {address}; sleep 0.5; rnicctl plug {address}")
    link_up(1, address)
    until("the values are back", lambda: fresh(1).find(Pattern(f'roce_requests_total{{device="{device}"}}')))
    return f"{grown} kernel log lines in 10 scrapes"


def no_module_loaded():
    """Ten scrapes load no module."""
    before = inside(1, "cut -d' ' -f1 /proc/modules | sort")
    for _ in range(10):
        fresh(1)
    expect(inside(1, "cut -d' ' -f1 /proc/modules | sort") == before, "the list of modules changed")


def prometheus(seconds):
    """Debian's Prometheus scrapes both nodes with no failed scrape."""
    targets = [lab("url", n, 14791).strip().removeprefix("http://") for n in (1, 2)]
    with e2e.Prometheus(targets, interval="5s", timeout="5s") as p:
        until("both nodes are scraped", lambda: len(p.query("up")) == 2, 60)  # it reads its targets some seconds late
        time.sleep(seconds)
        worst = p.one(f"min(min_over_time(up[{int(seconds)}s]))")
        count = p.one(f"sum(count_over_time(up[{int(seconds)}s]))")
        expect(worst == 1, f"a scrape failed: {p.target_errors()}")
        expect(count >= 2 * seconds / 5 * 0.8, f"only {count} scrapes")
        expect(p.one('count(roce_port_state{port="1"} == 4)') == 2 * (RNICS + 1), "active ports")
        slowest = p.one(f"max(max_over_time(scrape_duration_seconds[{int(seconds)}s]))")
    return f"{count:.0f} scrapes, slowest {slowest:.2f} s"


def host_without_rdma(kernel):
    """A host without RDMA modules: the exporter starts, says so once, serves the rest, and loads nothing."""
    _urls.clear()
    lab("down", check=False)
    lab("up", "--nodes", 1, "--kernel", kernel, "--no-rdma", timeout=1800)
    try:
        modules = inside(1, "cut -d' ' -f1 /proc/modules | sort")
        expect(not re.search(r"^(ib_core|rdma_cm|ib_uverbs)$", modules, re.M), "RDMA modules are there from the start")
        for _ in range(10):
            page = fresh(1)
        expect(value(page, "roce_rdma_devices") == 0, "devices")
        expect(inside(1, "cut -d' ' -f1 /proc/modules | sort") == modules, "the list of modules changed")
        log = inside(1, "journalctl -o cat -u roce-exporter").splitlines()
        said = [l for l in log if "RDMA" in l]
        expect(len(said) == 1, f"said {len(said)} times: {log}")
        worse = [l for l in log if re.search(r"level=(warn|error)", l)]
        expect(not worse, f"{worse}")
        keep_recording("no-rdma", recording(1))
    finally:
        lab("down")


MANY = 16
PORT_LIMIT, HOST_LIMIT = 250, 600
TABLE = re.compile(r"(?<=\n)\| collector \| series \| of one port \|\n(?:\|.*\n)+")


def series_table(page):
    """Series by collector on that page as the README shows them: all, and the most that one port has of them."""
    code, out, err = exporter.call("metrics-reference", "--format", "json")
    expect(code == 0, err)
    owner = {m["name"]: m["collector"] for m in json.loads(out)["metrics"]}
    table = {}
    for s in page.series:
        port = (s.labels.get("device") or s.labels.get("netdev") or "", s.labels.get("port") or "") if "port" in s.labels else None
        ports = table.setdefault(owner.get(s.name, "exporter"), {})
        ports[port] = ports.get(port, 0) + 1
    rows = {c: (sum(p.values()), max((n for port, n in p.items() if port is not None), default=0)) for c, p in table.items()}
    rows = dict(sorted(rows.items(), key=lambda r: (-r[1][0], r[0])))
    rows["all"] = (sum(r[0] for r in rows.values()), "")
    return "| collector | series | of one port |\n|---|---|---|\n" + "".join(f"| {c} | {n} | {most or ''} |\n" for c, (n, most) in rows.items())


def host_with_many(kernel):
    """A host of 16 RNICs: within the limits, and as many series by collector as the README says."""
    _urls.clear()
    lab("down", check=False)
    lab("up", "--nodes", 1, "--kernel", kernel, "--rnic", MANY, "--bin", os.path.dirname(exporter.binary()), timeout=2400)
    try:
        for name in [f"mlx5_{i}" for i in range(MANY)]:
            inside(1, f"rnicctl names {name} real")  # as a real card: pause statistics of the priorities in use alone
        inside(1, "systemctl restart roce-exporter")
        page = until("all devices are on the page", lambda: (lambda p: p if value(p, "roce_rdma_devices") == MANY + 1
                     and all(s.value == "1" for s in p.find(Pattern("roce_collector_success"))) else None)(fresh(1)), 180)
        of_port, of_host = {}, 0
        for s in page.series:
            if "port" in s.labels and s.labels.get("device"):
                key = (s.labels["device"], s.labels["port"])
                of_port[key] = of_port.get(key, 0) + 1
            elif not s.labels.get("device") and not s.labels.get("netdev"):
                of_host += 1
        dropped = [s for s in page.find(Pattern("roce_series_dropped_total")) if s.value != "0"]
        expect(max(of_port.values()) <= PORT_LIMIT, f"a port has {max(of_port.values())} series")
        expect(of_host <= HOST_LIMIT, f"the host has {of_host} series")
        # These cards have every counter of the catalog. What is over the limit is what the documented order gives up first.
        expect(all(d.labels["collector"] == "cm_messages" for d in dropped), f"series were dropped: {[str(d) for d in dropped]}")
        table = series_table(page)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
            published_table = TABLE.search(f.read())
        expect(published_table, f"no table of series in README.md; it would be\n{table}")
        numbers = lambda text: {c: int(n) for c, n in re.findall(r"^\| ([\w ]+) \| (\d+) \|", text, re.M)}
        was, now = numbers(published_table.group(0)), numbers(table)
        # A few come and go with what the host does at that moment.
        off = {c: (was.get(c), now.get(c)) for c in was | now if abs(was.get(c, 0) - now.get(c, 0)) > max(4, 0.05 * now.get(c, 0))}
        expect(not off, f"README.md says otherwise (said, found): {off}\n{table}")
    finally:
        lab("down")
    return f"{now['all']} series, {max(of_port.values())} of a port, {of_host} of the host"


def core_rows(tag, full_only=False, soak=False):
    def row(name, what, run, only_full=False):
        return Row(f"{tag}-{name}", what, run, full_only=full_only or only_full, alone=True)
    rows = [
        row("pages", "whole pages of both nodes", whole_pages),
        row("traffic", "storage traffic moves real counters", traffic_moves),
        row("rdma-statistic", "every hw counter equals rdma -j statistic", equal_to_rdma_statistic),
        row("hw-counters", "every hw counter of the simulated RNIC moves", every_hw_counter_moves),
        row("port-counters", "every port counter moves", every_port_counter_moves),
        row("resources", "resources equal rdma resource show", resources),
        row("cm", "connections move the connection manager's counters", connection_messages),
        row("flaps", "flaps between scrapes are counted", flaps_are_counted),
        row("unplug", "unplug and plug at run time", unplug_and_plug),
        row("rename", "a device is renamed", rename),
        row("modules", "scrapes load no module", no_module_loaded),
        row("hang", "one device's firmware hangs, 50 scrapes", hang),
        row("down-port", "a down port, 50 scrapes, kernel log", down_port_is_quiet, only_full=True),
        row("refused", "refused reads", refused_reads),
        row("prometheus", "Prometheus scrapes both nodes for 30 s", lambda: prometheus(30), only_full=True),
    ]
    if soak:
        rows.append(row("soak", "Prometheus scrapes both nodes for 10 minutes", lambda: prometheus(600), only_full=True))
    return rows


def clean_up():
    lab("down", check=False)

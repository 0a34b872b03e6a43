# SPDX-License-Identifier: Apache-2.0
"""`check` on real kernels: on a healthy lab it finds nothing; a fault it calls by its name, on its object, with evidence, and so
does the status page in Chromium. A recording of a machine names nobody, and its replay shows what the machine shows."""
import json
import os
import re
import subprocess
import tarfile
import time

import core
import e2e
import exporter
import status_drawing
from fault_map import TARGET_FAULTS, restart, settle
from harness import ROOT, Row, expect

PROGRAM = "/run/roce/roce_exporter"
SECONDS = 60

# fault, id of the finding, what its object begins with (SOFT, RNIC: that device), what was found
FAULTS = [
    ("F04", "port-down", "SOFT", "down"),
    ("F05", "link-flapping", "SOFT", "times down"),
    ("F08", "nvme-path-lost", "nvme", "connecting"),
    ("F11", "mtu", "SOFT", "1500 bytes"),
    ("F12", "gid-missing", "SOFT", "0 routable"),
    ("F13", "memlock-headroom", "pid", "of 64 KiB pinned"),
    ("F14", "hugepages-exhausted", "2MB", "0 of 8"),
    ("F23", "pfc-priorities", "RNIC", ""),
    ("F26", "pause-storm", "RNIC", "paused"),
    ("F27", "pause-sent", "RNIC", "paused"),
    ("F29", "cnp-ignored", "RNIC", "notifications ignored"),
    ("F30", "receiver-not-ready", "RNIC", "no posted receive"),
    ("F31", "lossless-drops", "RNIC", "packets dropped"),
    ("F32", "link-errors", "RNIC", "lost"),
    ("F33", "rate-uneven", "RNIC", "Gb/s"),
    ("F34", "pcie-degraded", "RNIC", "x8"),
    ("F36", "kernel-call-stuck", "RNIC", "has waited"),
    ("F39", "counter-saturated", "RNIC", "symbol_error"),
]
SLOW = ("F12", "F13", "F23", "F34")  # read once a minute: the exporter begins anew
PROFILE = ("F11", "F23")             # only a profile knows what is right


def ask(node):
    """The running exporter's verdict, asked as the exporter's own user."""
    out = core.inside(node, f"{PROGRAM} check --format=json --window=3s; true")
    expect(out.startswith("{"), out[:500])
    return json.loads(out)


def told(verdict):
    return [(f["id"], f["object"], f["found"]) for f in verdict["findings"]]


def pictures(name, *words):
    """The status page as who sits at the machine sees it, on a desk and on a phone; pictures stay as status_drawing says."""
    # Who asks from elsewhere is not shown names: this connection comes from the machine itself.
    core.inside(1, "systemctl is-active -q lab-page.socket || systemd-run -q --unit=lab-page --socket-property=ListenStream=14799 "
                   "/lib/systemd/systemd-socket-proxyd 127.0.0.1:14791")
    url = core.lab("url", 1, 14799).strip() + "/"
    jobs = [{"name": f"lab-{name}-{size}", "url": url, "width": width, "dark": False, "script": True} for size, width in status_drawing.WIDTHS.items()]
    for job, facts in status_drawing.looks(jobs).items():
        wrong = status_drawing.wrong(facts)
        expect(not wrong, lambda j=job, w=wrong: f"{j}:\n" + "\n".join(w[:10]))
        missing = [w for w in words if w.lower() not in facts["text"].lower()]
        expect(not missing, lambda j=job, m=missing, f=facts: f"{j} does not say {m}: {f['text'][:1500]}")


def healthy(node):
    # The slot of an emulated card is worth 2 Gb/s and is told so; the simulated one carries its port.
    for n in range(core.RNICS):
        core.inside(node, f"rnicctl pcie mlx5_{n} max_read_req 512")
    restart(node)

    def well():
        core.fresh(node)
        verdict = ask(node)
        return verdict if not verdict["findings"] else None
    try:
        verdict = core.until("no finding", well, 120)
    except Exception:
        expect(False, f"findings on a healthy lab: {told(ask(node))}")
    expect(verdict["status"] == "ok", verdict["status"])
    code = core.inside(node, f"{PROGRAM} check > /run/check.txt; echo $?").strip()
    expect(code == "0", f"exit {code}: " + core.inside(node, "cat /run/check.txt"))
    if node == 1:
        pictures("healthy", core.SOFT, "mlx5_0", "nvme0")


# What belongs to the program that runs, beyond what e2e.values_of leaves out.
OF_THE_PROGRAM = re.compile("roce_kernel_call")
SECRETS = """
hostname kittiwake-store
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\\nDefaultEnvironment=TOKEN=hunter2-in-a-drop-in\\nDefaultLimitMEMLOCK=64M\\n' > /etc/systemd/system.conf.d/kittiwake.conf
if [ -d /sys/kernel/config/nvmet/hosts ]; then
  host=/sys/kernel/config/nvmet/hosts/nqn.2024-01.example.kittiwake:host
  mkdir $host
  [ ! -e $host/dhchap_key ] || echo DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n: > $host/dhchap_key
fi
systemd-run -q --unit=lab-secret -E PASSWORD=hunter2-in-an-environment sleep 600 hunter2-as-an-argument
# It holds a context and waits for a peer that never comes.
cp /usr/bin/ibv_rc_pingpong /run/kittiwake-run
systemd-run -q --unit=kittiwake@hunter2 --slice=kittiwake.slice -E PASSWORD=hunter2-in-an-environment /run/kittiwake-run -d rxe0 -g 1 -p 18597
for i in $(seq 60); do rdma resource show ctx | grep -q "comm kittiwake-run" && exit 0; sleep 0.5; done; exit 1
"""
NO_SECRETS = """
systemctl stop lab-secret kittiwake@hunter2
rmdir /sys/kernel/config/nvmet/hosts/*kittiwake* 2> /dev/null
rm /etc/systemd/system.conf.d/kittiwake.conf
hostname node1
"""
IDENTITIES = """
cat /sys/class/net/*/address /sys/class/infiniband/*/node_guid /sys/class/infiniband/*/sys_image_guid /etc/machine-id
cat /sys/class/nvme/*/serial /sys/class/nvme/*/subsysnqn /sys/class/nvme/*/hostnqn /sys/class/nvme/*/hostid /sys/class/nvme-subsystem/*/serial
ip -o address show up | awk '{sub("/.*", "", $4); print $4}'
"""
NOBODY = {"00:00:00:00:00:00", "0000:0000:0000:0000", "127.0.0.1", "::1"}


def forms(word):
    """The ways in which a recording could hold it: a hardware address also in a GID, an IP address in hexadecimal."""
    yield word
    if re.fullmatch("(..:){5}..", word):
        octets = word.split(":")
        yield "".join(octets)
        for first in (octets[0], f"{int(octets[0], 16) ^ 2:02x}"):
            yield f"{first}{octets[1]}:{octets[2]}ff:fe{octets[3]}:{octets[4]}{octets[5]}"
    elif re.fullmatch("(....:){3}....", word):
        yield word.replace(":", "")
    elif re.fullmatch(r"(\d+\.){3}\d+", word):
        octets = [f"{int(n):02x}" for n in word.split(".")]
        yield f"{octets[0]}{octets[1]}:{octets[2]}{octets[3]}"
        yield "".join(reversed(octets)).upper()


def recording(tag, node):
    core.inside(node, SECRETS)
    try:
        known = {w for w in core.inside(node, IDENTITIES + "true").split() if len(w) >= 6} - NOBODY
        for kind in ["(..:){5}..", "(....:){3}....", r"(\d+\.){3}\d+"] + ["nqn"] * (node == 1):  # else there would be nothing to find
            expect(any(re.match(kind, w) for w in known), f"no {kind} in {known}")
        known = {form for word in known for form in forms(word)} | {"kittiwake", "hunter2", "DHHC"}
        holder = core.inside(node, "systemctl show -p MainPID --value kittiwake@hunter2").strip()
        page = core.inside(node, f"{PROGRAM} print")
        packed = core.recording(node)
        core.inside(node, f"rm -rf /run/it; {PROGRAM} capture /run/it > /dev/null && tar -C /run/it -cf /run/folder.tar . && grep -aq sys/class/infiniband /run/folder.tar")
        told = core.inside(node, "for w in " + " ".join(f"'{w}'" for w in sorted(known)) + "; do ! grep -aqiF -e $w /run/it.tar /run/folder.tar || echo $w; done").split()
        expect(not told, f"the recording holds {told}")
    finally:
        core.inside(node, NO_SECRETS.replace("node1", f"node{node}"), check=False)
    path = core.keep_recording(tag, packed)
    code, again, err = exporter.call("print", f"--replay={path}")
    expect(code == 0, err)

    def kinds(text):
        return {(name, labels) for name, labels, _ in e2e.anonymous(e2e.values_of(text)) if not OF_THE_PROGRAM.match(name)}
    there, here = kinds(page), kinds(again)
    expect(any(name == "roce_process_info" and ("pid", holder) in labels for name, labels in there), f"the page does not know process {holder}")
    expect(there == here, lambda: f"only on the machine: {sorted(there - here)[:12]}; only in the replay: {sorted(here - there)[:12]}")
    return f"{len(packed)} bytes, {len(there)} series, {len(known)} names that it does not hold"


# Reads of the namespace, which real counters of Soft-RoCE tell of, and what a storage client's RNICs would tell: traffic, a
# few marks of congestion, pauses of one priority. Each a second.
TRAFFIC = {"port_rcv_data": 3e8, "port_xmit_data": 9e7, "port_rcv_packets": 300000, "port_xmit_packets": 90000, "unicast_rcv_packets": 300000,
           "unicast_xmit_packets": 90000, "rx_write_requests": 9000, "rx_read_requests": 1400, "rx_bytes_phy": 12e8, "tx_bytes_phy": 36e7,
           "rx_packets_phy": 300000, "tx_packets_phy": 90000, "rx_prio3_pause": 25, "rx_prio3_pause_duration": 4000,
           "np_ecn_marked_roce_packets": 40, "np_cnp_sent": 38, "rp_cnp_handled": 12}


def living():
    """Two recordings under load, and what moved between them: the demonstration of a machine of the lab."""
    core.inside(1, "systemd-run -q --unit=lab-load sh -c 'while :; do dd if=/dev/nvme0n1 of=/dev/null bs=64k count=64 iflag=direct; sleep 0.2; done'; "
                + "; ".join(f"systemd-run -q --unit=lab-load-{n} /usr/local/sbin/lab-rising mlx5_{n} "
                            + " ".join(f"{counter}={int(speed / (n + 1))}" for counter, speed in TRAFFIC.items()) for n in range(core.RNICS)))
    try:
        time.sleep(5)
        taken = []
        for _ in range(2):
            taken.append((float(core.inside(1, "date +%s.%N")), core.keep_recording(f"load-{len(taken)}", core.recording(1))))
            time.sleep(0 if len(taken) > 1 else 20)
    finally:
        core.inside(1, "systemctl stop 'lab-load*'", check=False)
    (begin, first), (end, second) = taken
    out = os.path.join(os.path.dirname(second), "lab.tar.gz")
    subprocess.run([os.path.join(ROOT, "packaging", "demo", "motion"), first, second, f"{end - begin:.1f}", out], check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(out) as tar:
        moving = tar.extractfile("motion.tsv").read().decode()
    for what in (f"infiniband/{core.SOFT}/ports/1/hw_counters/rcvd_pkts\t", f"infiniband/{core.SOFT}/ports/1/hw_counters/sent_pkts\t", "nvme0c0n1/stat#",
                 *(f"infiniband/mlx5_{n}/ports/1/counters/port_rcv_data\t" for n in range(core.RNICS)), "ethtool_S.txt#"):
        expect(what in moving, f"{what} does not move: {moving[:3000]}")
    code, page, err = exporter.call("print", f"--replay={out}")
    expect(code == 0 and page.count("\nroce_port_state{") == core.RNICS + 1, f"{code} {err}")
    return f"{moving.count(chr(10)) - 1} counters move, {os.path.getsize(out)} bytes"


def alone():
    """Without a running exporter: two readings, and what could not be judged is said."""
    out = core.inside(1, f"systemctl stop roce-exporter; {PROGRAM} check --window=2s; echo code $?; systemctl start roce-exporter")
    core.until("the exporter is back", lambda: core.fresh(1).find(core.Pattern("roce_rdma_devices")))
    expect("no running exporter answers" in " ".join(out.split()), out)
    expect("code 0" in out, out)


def with_profile(node):
    """The exporter runs with a profile of this host as it is now."""
    core.inside(node, f"{PROGRAM} profile init > /etc/roce-profile.yml; chmod 644 /etc/roce-profile.yml; "
                      "echo ARGS=--profile.file=/etc/roce-profile.yml > /etc/default/roce-exporter; systemctl restart roce-exporter", timeout=60)
    core.until("the exporter is back", lambda: core.fresh(node).find(core.Pattern("roce_rdma_devices")))


def without_profile(node):
    core.inside(node, "rm -f /etc/default/roce-exporter /etc/roce-profile.yml; systemctl restart roce-exporter")
    core.until("the exporter is back", lambda: core.fresh(node).find(core.Pattern("roce_rdma_devices")))


def fault(name, check, where, found):
    node = 2 if name in TARGET_FAULTS else 1
    seen = 1
    device = {"SOFT": core.SOFT, "RNIC": "mlx5_0"}.get(where, where)
    if name == "F14":
        core.inside(node, "sysctl -qw vm.nr_hugepages=8")
    if name in PROFILE:
        with_profile(node)
    core.fresh(seen)
    before = told(ask(seen))
    expect(check not in [b[0] for b in before], f"before the fault: {before}")
    core.lab("fault", name, node, "on")
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            if name in SLOW:
                restart(seen)
            core.fresh(seen)
            time.sleep(2)
            core.fresh(seen)
            verdict = ask(seen)
            mine = [f for f in verdict["findings"] if f["id"] == check and f["object"].startswith(device) and found in f["found"]]
            if mine:
                break
            expect(time.monotonic() < deadline, lambda: f"findings: {told(verdict)}")
        page = core.fetch(seen, "/")[0]
        expect(check in page, "the status page says nothing of it")
        pictures(name, mine[0]["object"], mine[0]["found"])
        sibling = [f for f in verdict["findings"] if where == "RNIC" and f["id"] == check and f["object"].startswith("mlx5_1")]
        expect(not sibling, f"the sibling too: {sibling}")
    finally:
        core.lab("fault", name, node, "off")
        if name in PROFILE:
            without_profile(node)
    settle(name, seen)
    return f"{mine[0]['severity']} {mine[0]['object']}: {mine[0]['found']}"


def rows(tag, full_only=False):
    def row(name, what, run):
        return Row(f"{tag}-{name}", what, run, full_only=full_only, alone=True)
    return ([row("healthy", "check finds nothing on a healthy lab", lambda: [healthy(n) for n in (1, 2)] and None),
             row("alone", "check without a running exporter", alone),
             row("recording", "a recording names nobody, and its replay shows the machine", lambda: recording(tag, 1)),
             row("living", "a machine under load, recorded twice, moves as a demonstration", living),
             row("recording-target", "the same of the storage target", lambda: recording(f"{tag}-target", 2))]
            + [row(f, f"check calls fault {f} {c}", lambda f=f, c=c, w=w, t=t: fault(f, c, w, t)) for f, c, w, t in FAULTS])
